/// Searches for a placement that fits into memory, for placers that found none.
#pragma once

#include "placers/interface/registry.h"

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

/// Reads the option `fallback` of a placer of `entry`. Returns `placer` itself if the option is
/// off; otherwise a placer that returns the placement of `placer` if its step fits, and else
/// - if only the executed step (Watcher::step) runs out of memory: the placement that `placer`
///   finds with less memory on the devices that ran out, reduced by the factor by which their peak
///   exceeds the limit, in at most eight attempts;
/// - a placement of find_feasible(): `placed_by` is then "fallback:" and the name of its placer.
/// `detail` says which. Throws InfeasibleError if there is no such placement, with the reason why
/// `placer` had none.
std::unique_ptr<Placer> with_fallback(std::unique_ptr<Placer> placer, const PlacerEntry& entry,
                                      Options& options);

/// The result of an enumeration of all placements.
struct FittingPlacement {
  std::optional<Placement> placement;  ///< its step fits
  /// Whether all placements that could fit were tried. Without a placement this proves that none
  /// fits.
  bool all = false;
};

/// The first placement whose step fits, found unit by unit in order of decreasing footprint. Prunes
/// what cannot fit: a device whose weights, plus the largest op with its inputs, exceed its memory,
/// or weights that exceed the memory left on all devices. Stops once the simulated steps have
/// `most_ops` ops in total, and at once if there are over 64 units.
FittingPlacement first_that_fits(const Problem& problem, std::size_t most_ops);

struct LeastMemory {
  Bytes bytes;  ///< memory of each device with which `placement` fits
  Bytes bound;  ///< with less, no placement fits
  Placement placement;

  bool proved() const { return bytes == bound; }
};

/// The least memory, the same for each device, with which a placement fits by the rules of the
/// engine, whatever memory the problem's devices have. Bisects between lower_bounds() and what
/// find_feasible() finds, whose proofs raise the bound. Requires Semantics::event. Throws
/// InfeasibleError if no memory suffices: an op can run on no device.
LeastMemory find_least_memory(const Problem& problem);

}  // namespace baechi
