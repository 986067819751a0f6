/// A simulated batch of a plan, and a planner's answer to an input.
#pragma once

#include "placers/planners/planner.h"

namespace baechi::planners {

/// Which devices a transfer between two stages occupies.
enum class StageTransfers : std::uint8_t {
  apart,     ///< each end separately, after computing: the assumption of the formula
  together,  ///< both ends at once, when neither computes
  overlap,   ///< both ends at once, while they compute
};

struct SimulatedBatch {
  std::int64_t micro_batches =
      0;                 ///< micro-batches simulated: all of a batch, unless it is too large
  double seconds = 0.0;  ///< of all work, from the first start to the last end; transfers apart
  /// Seconds for a sample in the middle of the batch, at steady state, by StageTransfers; 0 if
  /// there are fewer than 8 samples for each replica.
  std::array<double, 3> per_sample{};
  std::string
      difference{};  ///< why the time with transfers apart differs from the plan's, for people

  double at(StageTransfers t) const { return per_sample[static_cast<std::size_t>(t)]; }
};

/// Each stage has one device per replica; the device represents all that share the replica's
/// tensors. Replicas take micro-batches in turn. A micro-batch is one op of a stage, forward and
/// backward; the tensors between two stages are one transfer of twice their bytes; the traffic of
/// tensor parallelism at the ends of a stage counts as its work. After its last micro-batch a
/// replica exchanges gradients. Memory is not simulated.
SimulatedBatch simulate(const StagedPlan& plan, const PlannerInput& input);

/// Seconds of a batch of the same simulation with StageTransfers::overlap, from the first start to
/// the last end of all work: with filling, draining, and the exchange of gradients.
double simulated_batch(const StagedPlan& plan, const PlannerInput& input);
/// Lower bound on simulated_batch(): the compute time of a replica of a stage, after the stages
/// that lead to it and before those that read from it have had one micro-batch each.
double least_batch(const StagedPlan& plan, const PlannerInput& input);

struct PlannerAnswer {
  PlannerInput input;              ///< as the planner prepared it
  std::optional<Planned> planned;  ///< nothing: infeasible
  std::string detail;              ///< of the plan, or why there is none
  std::chrono::nanoseconds planning{};
  std::optional<SimulatedBatch> batch;  ///< of the plan
};

/// Runs the planner, without a simulated batch: simulate(*answer.planned, answer.input) makes one.
PlannerAnswer run_planner(const Planner& planner, PlannerInput input);

/// The ops of a stage that recompute their activations.
std::vector<std::string> recomputed(const PlannerInput& input, const PlannedStage& stage);

}  // namespace baechi::planners
