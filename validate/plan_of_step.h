/// A simulated step as a plan to be replayed.
#pragma once
#include <string>
#include <string_view>

#include "sim/cluster/calibration.h"
#include "sim/graph/op_graph.h"
#include "sim/names.h"
#include "sim/problem/problem.h"
#include "validate/plan/plan.h"

namespace baechi::validate {

enum class Bodies : std::uint8_t {
  spin,   ///< all of exactly their simulated length
  work,   ///< what stand_in() says of their work, by the calibration if there is one; spin, where
          ///< no work is stated
  timed,  ///< measured kinds, of the size whose time is nearest to what the op was simulated to
          ///< take
};
constexpr auto names_of(Bodies) {
  return std::to_array<Named<Bodies>>(
      {{Bodies::spin, "spin"}, {Bodies::work, "work"}, {Bodies::timed, "timed"}});
}

/// The body of an op that was simulated to take `length`. Bodies::timed: an op with work is of the
/// kind that stand_in() says, others are spin and the measured kinds in turn, by `turn`; a spin
/// where none of the measured sizes takes so long. `calibration` may be null but for
/// Bodies::timed.
Body body_of(Bodies bodies, OpWork work, Duration length, const Calibration* calibration,
             std::size_t turn);

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
