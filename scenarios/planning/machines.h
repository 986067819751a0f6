/// The machines that a training is planned on, and the plans that can be tried on them.
#pragma once
#include <memory>
#include <string>
#include <vector>

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

}  // namespace baechi
