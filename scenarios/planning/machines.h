/// The machines that a training is planned on, the plans that can be tried on them, and a plan as a
/// scenario, which `baechi run` simulates as `baechi plan` does.
#pragma once

#include "scenarios/planning/plan_search.h"
#include "scenarios/read/scenario.h"

namespace baechi {

inline constexpr std::int64_t most_planned_devices = 16'384;

/// Nodes of a kind that devices.yaml knows, as many as have `devices` devices, or a part of one
/// node; of more than `most_devices` the first. Throws InputError: the kind is that of the flag
/// --nodes, the number that of --devices.
ClusterChoice cluster_of_nodes(const std::string& kind, std::int64_t devices);

/// The kind of device of that name in devices.yaml. Throws InputError, which begins with `flag`.
std::shared_ptr<const DeviceModel> device_kind(const std::string& name, std::string_view flag);

/// Throws InputError unless all devices are of one kind and memory, and of speed 1.
void require_one_kind(const ClusterChoice& cluster);

/// Replaces the empty lists of `space`: ranks of tensor parallelism are the divisors of a node's
/// devices that can share the model's tensors; stages are the divisors of all devices; samples of a
/// micro-batch are 1, 2, 4, ... up to 64. Throws InputError if the model itself is wrong.
PlanSpace with_defaults(PlanSpace space, const TrainingJob& job, const Machines& machines);

/// Nodes of a kind in devices.yaml, with devices of another kind.
struct PlanNodes {
  std::string kind;
  std::int64_t count = 1, devices = 8;  ///< of a node
  const DeviceModel* gpu = nullptr;
  Bytes memory{};
};

/// `model`: generator and options as after `baechi plan`,
/// "gpt:num_hidden_layers=96,tie_word_embeddings=false". With several stages the scenario reads the
/// placement from `placement`, which placement_of_stages() is.
std::string plan_scenario(std::string_view model, const TrainingJob& job, const ParallelPlan& plan,
                          const PlanNodes& nodes, std::string_view placement);
std::string placement_of_stages(const TrainingJob& job, const ParallelPlan& plan,
                                const Cluster& cluster);

}  // namespace baechi
