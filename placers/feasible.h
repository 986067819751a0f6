/// Searches for a placement that fits into memory, for placers that have found none.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "sim/problem/problem.h"

namespace baechi {

struct Feasible {
  std::optional<Placement> placement;  ///< set if found: the simulated step has enough memory
  /// Which attempt found `placement`, or which attempts failed, or why no placement can fit: a unit
  /// fits on no device, or what a step must hold at once exceeds all memory (lower_bounds).
  std::string how{};
};

/// Looks for a placement that fits, in this order:
///   1. If there are at most 5,000 placements, all are simulated. The one with the shortest step is
///      the answer. If none fits, this proves that none exists.
///   2. heft, m_topo, least_loaded, round_robin and single are asked. The answer is the placement
///      with the shortest simulated step among the placements that fit.
///   3. Colocation units are moved to reduce the missing memory: the peak beyond the limit, summed
///      over the devices, in a step that is simulated without limits. There are at most 3,000
///      moves, fewer on large graphs. The first placement that lacks no memory is the answer.
/// Effort::more goes on where that was too little:
///   4. The units' order is cut into one stretch per device. Stretches whose device lacks memory
///      shrink, the others grow, until nothing is missing or 60 cuts were tried for each of three
///      measures of a unit's size.
///   5. As 3, from the cut that lacked least, with four times as many moves.
/// Equal problems get equal answers.
/// Source of the moves: simulated annealing, Kirkpatrick et al., Science 1983.
enum class Effort : std::uint8_t { quick, more };
Feasible find_feasible(const Problem& problem, Effort effort = Effort::quick);

}  // namespace baechi
