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

/// Looks for a placement that fits, in this order:
///   1. Up to 5,000 placements are all tried. The one of the shortest simulated step is taken; if
///   no
///      placement fits, that is a proof.
///   2. heft, m_topo, least_loaded, round_robin and single are asked. Of their answers that fit,
///   the
///      one of the shortest simulated step is taken.
///   3. Colocation units are moved, 3,000 moves at most and fewer on large graphs, such that the
///      memory missing becomes less: peak beyond the limit, summed over the devices, if the step is
///      simulated without limits. The first placement that misses nothing is taken.
/// Equal problems have equal answers.
/// Source of the moves: simulated annealing, Kirkpatrick et al., Science 1983.
Feasible find_feasible(const Problem& problem);

}  // namespace baechi
