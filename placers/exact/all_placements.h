/// All placements of a small problem, one after another.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "placers/interface/colocation.h"
#include "sim/problem/problem.h"

namespace baechi::exact {

/// Visits one placement of each set of placements that differ only in a permutation of equal
/// devices. The first core of a class stands for all cores of its class, which have no limit. Units
/// stay whole, and no op is where it cannot run. For objectives that do not depend on links.
/// Returns false without a visit if there are more than `most` placements or more than 64 units.
bool visit_placements(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes, std::size_t most,
                      const std::function<void(const Placement&)>& visit);

}  // namespace baechi::exact
