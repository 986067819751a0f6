/// A simulated step as a plan to be replayed.
#pragma once
#include <string>
#include <string_view>

#include "sim/names.h"
#include "sim/problem/problem.h"
#include "validate/bodies.h"
#include "validate/plan/plan.h"

namespace baechi::validate {

struct PlanChoice {
  SubmitMode mode = SubmitMode::graph;
  Bodies bodies = Bodies::spin;
  const CostModel* lengths = nullptr;        ///< of the tasks; null: the problem's
  const Calibration* calibration = nullptr;  ///< that sizes bodies; needed by Bodies::timed
};

/// The step that simulate() makes of `placement`, without memory limits. Each queue has its tasks
/// in the engine's order. A replay without overheads is the engine's schedule, to the nanosecond.
/// Budgets are the devices' memory. `salt` goes into the hash: everything else that decided the
/// plan. Transfers::staged is way host, all others are way link. Transfers::parallel has as many
/// queues as were busy at once.
/// Throws InputError on steps that a plan cannot state: Semantics::baechi, overlap switched off,
/// collectives, staged transfers with a latency, more than 64 devices, 8 lanes or 8 transfers at
/// once of one device, several lanes of other bodies than spins.
ReplayPlan plan_of_step(const Problem& problem, const Placement& placement, std::string name,
                        const PlanChoice& choice, std::string_view salt = "");

}  // namespace baechi::validate
