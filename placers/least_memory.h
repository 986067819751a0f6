/// The least memory of each device with which some placement fits.
#pragma once
#include <cstddef>
#include <optional>

#include "sim/problem/problem.h"

namespace baechi {

/// The answer of a walk over all placements.
struct Fitting {
  std::optional<Placement> placement;  ///< its step fits
  /// Whether all placements were tried that could fit. Without a placement this proves that none
  /// fits.
  bool all = false;
};

/// The first placement whose step fits, unit after unit from the largest footprint on. What
/// cannot fit is left out: a device whose weights, and the largest op with what it reads, exceed
/// its memory, or weights that exceed what is left of all devices. Ends after as many steps as
/// `most_ops` ops have, and at once if there are over 64 units.
Fitting first_that_fits(const Problem& problem, std::size_t most_ops);

struct LeastMemory {
  Bytes bytes;  ///< of each device: `placement` fits
  Bytes bound;  ///< with less, no placement fits
  Placement placement;

  bool proved() const { return bytes == bound; }
};

/// The least memory, the same for each device, with which a placement fits by the rules of the
/// engine, whatever memory the problem's devices have. Bisects between lower_bounds() and what
/// find_feasible() finds, whose proofs raise the bound. Requires Semantics::event. Throws
/// InfeasibleError if there is no placement with any memory: an op runs nowhere.
LeastMemory find_least_memory(const Problem& problem);

}  // namespace baechi
