/// One batch of a plan, simulated by the engine, beside what the planner's formula says of it.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "placers/planners/staged_plan.h"

namespace baechi::planners {

/// Who pays for a transfer between two stages.
enum class StageTransfers : std::uint8_t {
  apart,     ///< each end for itself, after computing: what the formula assumes
  together,  ///< both ends at once, when neither computes
  overlap,   ///< both at once, while they compute
};

struct SimulatedBatch {
  std::int64_t micro_batches = 0;  ///< that were simulated: all of a batch, unless it is too large
  double seconds =
      0.0;  ///< seconds, from the first to the last device's last work; transfers apart
  /// Seconds for a sample in the middle of the batch, at steady state, by StageTransfers; 0 if
  /// there are fewer than 8 samples for each replica.
  std::array<double, 3> per_sample{};
  std::string difference{};  ///< why transfers apart are not the plan's time: a sentence for people

  double at(StageTransfers t) const { return per_sample[static_cast<std::size_t>(t)]; }
};

/// Each stage is as many devices as it has replicas, each of which stands for those that share its
/// tensors. Replicas take micro-batches in turn. A micro-batch is one op of a stage, forward and
/// backward; the tensors between two stages are one transfer of twice their bytes; the traffic of
/// tensor parallelism at the ends of a stage counts as its work. When a replica has done its last
/// micro-batch, it exchanges gradients. Memory is not simulated.
SimulatedBatch simulate(const StagedPlan& plan, const PlannerInput& input);

/// Seconds of a batch of the same simulation with StageTransfers::overlap, from the first to the
/// last device's last work: with filling, draining, and the exchange of gradients.
double simulated_batch(const StagedPlan& plan, const PlannerInput& input);
/// No simulated_batch() is shorter: what a replica of a stage computes, after the stages that lead
/// to it and before those that read from it have had one micro-batch each.
double least_batch(const StagedPlan& plan, const PlannerInput& input);

}  // namespace baechi::planners
