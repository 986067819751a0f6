/// The bodies of a plan's ops: the kernels that stand for them.
#pragma once
#include "sim/cluster/calibration.h"
#include "sim/graph/op_graph.h"
#include "sim/names.h"
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

}  // namespace baechi::validate
