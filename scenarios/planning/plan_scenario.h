/// A parallel plan as a scenario, which `baechi run` simulates as `baechi plan` does.
#pragma once
#include <string>
#include <string_view>

#include "scenarios/planning/parallel_step.h"

namespace baechi {

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
