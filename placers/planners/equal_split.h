/// Plans of equal stages: PipeDream-2BW, which published no planner, as Piper's authors implement
/// it.
#pragma once
#include <optional>

#include "placers/planners/staged_plan.h"

namespace baechi::planners {

/// What equal stages have equally many of.
enum class EqualParts : std::uint8_t {
  /// Nodes called `ParallelTransformerLayer`, in topological order; the last stages may have one
  /// more. Nodes that lead to one of them join the first stage, the others the last; alternatively,
  /// both form stages of their own.
  transformers,
  /// Nodes, in the order of plan_line().
  nodes,
};
constexpr auto names_of(EqualParts) {
  return std::to_array<Named<EqualParts>>(
      {{EqualParts::transformers, "transformers"}, {EqualParts::nodes, "nodes"}});
}

/// The fastest plan in which all stages have the same degrees of data and tensor parallelism (of
/// those of the first node) and all nodes recompute, or none does. Ties: the first, by stages,
/// replicas, degree, without recomputation first. Nothing if none fits.
/// Source: Narayanan et al., "PipeDream-2BW", ICML 2021, as implemented in the program of Tarnawski
/// et al., NeurIPS 2021.
std::optional<StagedPlan> best_equal_split(const PlannerInput& input, EqualParts parts);

/// The same plans compared by one simulated batch instead of the formula; the shortest batch wins.
struct SimulatedSplit {
  StagedPlan plan;
  double batch = 0.0;         ///< simulated_batch()
  std::size_t fitting = 0;    ///< plans that fit
  std::size_t simulated = 0;  ///< of these; a lower bound (least_batch()) excludes the others
};
std::optional<SimulatedSplit> best_simulated_split(const PlannerInput& input, EqualParts parts);

bool has_transformers(const PlannerInput& input);

}  // namespace baechi::planners
