/// Searches for a placement that fits into memory, for placers that have found none.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/problem/problem.h"

namespace baechi {

struct Feasible {
  std::optional<Placement> placement;  ///< set if found: the simulated step has enough memory
  /// Which attempt found `placement`, or which attempts failed, or why no placement can fit: a unit
  /// fits on no device, or what a step must hold at once exceeds all memory (lower_bounds).
  std::string how{};
  /// The placer that gave it, or "all", "cuts" or "moves": 1 and 7, 3 or 4 to 6 below.
  std::string by{};
  bool proved = false;  ///< no placement fits, for sure
};

/// The placers that find_feasible() asks.
std::span<const std::string_view> quick_placers();

/// Looks for a placement that fits, in this order:
///   1. If there are at most 5,000 placements, all are simulated. The one with the shortest step is
///      the answer. If none fits, this proves that none exists.
///   2. The placers `asked` answer. The answer is the placement with the shortest simulated step
///      among the placements that fit.
///   3. The units' order is cut into one stretch per device. Stretches whose device lacks memory
///      shrink, the others grow, until nothing is missing or 60 cuts, fewer on large graphs, were
///      tried for each of three measures of a unit's size. What is missing is the peak beyond the
///      limit, summed over the devices, in a step that is simulated without limits.
///   4. From the cut that lacks least, colocation units are moved to reduce what is missing. There
///      are at most 3,000 moves, fewer on large graphs. The first placement that lacks nothing is
///      the answer.
///   5. The same from the best of three simple placements, which may lead elsewhere.
///   6. As 4, with four times as many moves.
///   7. All placements are tried that may fit (first_that_fits), as far as the moves' budget goes.
///      If none fits, this is a proof, too.
/// Equal problems get equal answers.
/// Source of the moves: simulated annealing, Kirkpatrick et al., Science 1983.
Feasible find_feasible(const Problem& problem,
                       std::span<const std::string_view> asked = quick_placers());

}  // namespace baechi
