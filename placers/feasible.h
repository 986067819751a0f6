/// A placement that fits into memory, sought where a placer has found none.
#pragma once
#include <optional>
#include <string>

#include "sim/problem/problem.h"

namespace baechi {

struct Feasible {
  std::optional<Placement> placement;  ///< its simulated step does not run out of memory
  /// Who found it, or what was tried in vain; "" if plainly none can fit.
  std::string how{};
};

/// Up to 5,000 placements are all tried: the one of the shortest simulated step is taken, and if
/// there is none, none fits. Of more, the shortest of the quickest placers' answers that fit; if
/// none of them does, moves of colocation units from there, which lessen the memory missing
/// (summed over the devices, with memory unlimited) until none is, a few thousand at most, fewer on
/// large graphs. m_etf and m_sct are not asked. Equal problems, equal answers.
/// Source of the moves: simulated annealing, Kirkpatrick et al., Science 1983.
Feasible find_feasible(const Problem& problem);

}  // namespace baechi
