/// The best plan of data, tensor and pipeline parallelism, by dynamic programming over ideals.
#pragma once

#include "placers/exact/ideals.h"
#include "placers/planners/staged_plan.h"

namespace baechi::planners {

using exact::Ideals;

/// The pipelines whose last stages, taken together, are one of `ideals`, those of
/// input.order.reversed().
///
/// Minimises devices instead of time: for a limit on the time of a stage, few[ideal][total
/// replicas] is the least number of devices with which the stages of the ideal stay below it. A
/// plan below the limit gives the next limit, until there is none. Stages are traversed as in
/// exact_dp. Two bounds prune the search: an ideal is skipped if the remaining work would take the
/// remaining devices beyond the limit; a stage, if its work alone exceeds the limit. The time of a
/// plan is within one part in 10^8 of the best. Ties: fewest devices, then least time, then the
/// first found; the same input gives the same plan.
/// Source: Tarnawski, Narayanan, Phanishayee, NeurIPS 2021. Differs: searches by limits, so that
/// its table has no dimension for devices.
/// Nothing if no plan is faster than `below` seconds.
std::optional<StagedPlan> best_plan(const PlannerInput& input, const Ideals& ideals,
                                    ModeChoice choice, double below);

/// The result of search_plans().
struct FoundStages {
  std::optional<StagedPlan> plan;
  std::size_t ideals =
      0;  ///< 0: more than `most`; a linear order of all nodes was searched instead
};
FoundStages search_plans(const PlannerInput& input, ModeChoice choice, std::size_t most);

/// Why no plan fits: some node does not fit alone, or the stages together do not.
std::string why_no_plan(const PlannerInput& input);

/// A topological order of all nodes. The next node is the one that became ready last; sources go in
/// the order of the file, the last first; successors in the order of their edges.
std::vector<BundleId> plan_line(const PlannerInput& input);

/// The unit of which equal stages have the same number.
enum class EqualParts : std::uint8_t {
  /// Nodes called `ParallelTransformerLayer`, in topological order; the last stages may have one
  /// more. Nodes that lead to one of them join the first stage, the others the last; alternatively,
  /// both form stages of their own.
  transformers,
  /// Nodes, in the order of plan_line().
  nodes,
};
constexpr auto names_of(EqualParts) { return enumerators<EqualParts::nodes>(); }

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
