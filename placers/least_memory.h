/// The least memory of each device with which some placement fits.
#pragma once
#include <cstddef>
#include <optional>

#include "sim/problem/problem.h"

namespace baechi {

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
  Bytes bytes;  ///< of each device: `placement` fits
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
