/// Searches for a placement that fits into memory, for placers that found none.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/problem/problem.h"

namespace baechi {

struct Feasible {
  std::optional<Placement> placement;  ///< set if found: the simulated step has enough memory
  /// The attempt that found `placement`, or the attempts that failed, or why no placement can fit:
  /// a unit fits on no device, or a step needs more than all memory (lower_bounds).
  std::string how{};
  /// The placer that found it, or "all", "cuts" or "moves": steps 1 and 7, 3, or 4 to 6 below.
  std::string by{};
  bool proved = false;  ///< it is proved that no placement fits
};

/// The default placers of find_feasible().
std::span<const std::string_view> quick_placers();

/// Looks for a placement that fits, in this order:
/// 1. If there are at most 5,000 placements, simulates all and returns the one with the shortest
/// step. If none fits, this proves that none exists.
/// 2. Runs the placers `names` and returns the placement with the shortest simulated step of those
/// that fit.
/// 3. Cuts the units' order into one stretch per device. Stretches whose device lacks memory
/// shrink, the others grow, until no memory is missing or 60 cuts (fewer on large graphs) were
/// tried for each of three measures of a unit's size. Missing memory is the peak above the limit,
/// summed over the devices, in a step simulated without limits.
/// 4. From the cut that lacks least, moves colocation units to reduce the missing memory, with at
/// most 3,000 moves, fewer on large graphs. Returns the first placement that lacks none.
/// 5. The same from the best of three simple placements, which may lead to another minimum.
/// 6. As 4, with four times as many moves.
/// 7. Enumerates all placements that may fit (first_that_fits), within the budget of the moves. If
/// none fits, this is a proof, too.
/// Deterministic: equal problems get equal answers.
/// Source of the moves: simulated annealing, Kirkpatrick et al., Science 1983.
Feasible find_feasible(const Problem& problem,
                       std::span<const std::string_view> names = quick_placers());

}  // namespace baechi
