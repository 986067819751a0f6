/// The best plan of data, tensor and pipeline parallelism, by dynamic programming over ideals.
#pragma once
#include <optional>

#include "placers/exact/ideals.h"
#include "placers/planners/staged_plan.h"

namespace baechi::planners {

using exact::Ideals;

/// The pipelines whose last stages, taken together, are one of `ideals`: of input.order.reversed().
///
/// Least devices instead of least time: for a limit on the time of a stage, few[ideal][replicas in
/// all] is the least number of devices with which the stages that hold the ideal stay below it. A
/// plan below the limit gives the next limit, until there is none. Stages are walked as exact_dp
/// walks them. Two bounds cut the search: an ideal is passed over if the work that is left would
/// take the devices that are left beyond the limit; a stage, if the limit cannot hold its work.
/// Time: a plan is within one part in 10^8 of the best. Ties: fewest devices, then least time, then
/// the first that was found; the same input gives the same plan.
/// Source: Tarnawski, Narayanan, Phanishayee, NeurIPS 2021. Differs: searches by limits, so that
/// its table has no dimension for devices.
/// Nothing if no plan is faster than `below` seconds.
std::optional<StagedPlan> best_plan(const PlannerInput& input, const Ideals& ideals,
                                    ModeChoice choice, double below);

/// What a search over all ideals found.
struct FoundStages {
  std::optional<StagedPlan> plan;
  std::size_t ideals = 0;  ///< 0: more than `most`; a line of all nodes was searched instead
};
FoundStages search_plans(const PlannerInput& input, ModeChoice choice, std::size_t most);

/// Why no plan fits: a node that does not fit alone, or that stages do not.
std::string why_no_plan(const PlannerInput& input);

/// All nodes, the ones that come before others first. Next is the ready node that became ready
/// last; sources in the order of the file, the last first; successors in the order of their edges.
std::vector<BundleId> plan_line(const PlannerInput& input);

}  // namespace baechi::planners
