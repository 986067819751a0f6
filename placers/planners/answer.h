/// A planner's answer to an input, and one simulated batch of it.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "placers/planners/planner.h"
#include "placers/planners/simulated_batch.h"

namespace baechi::planners {

/// A plan with its details.
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
