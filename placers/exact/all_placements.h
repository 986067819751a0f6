/// All placements of a small problem, one after another.
#pragma once
#include <cstddef>
#include <functional>
#include <vector>

#include "placers/interface/colocation.h"
#include "sim/problem/device_classes.h"
#include "sim/problem/problem.h"

namespace baechi::exact {

/// Visits one placement of each set of placements that differ only in the names of equal devices.
/// The first core of a class takes all of its class: there are enough cores, without a limit.
/// Units stay whole, and no op is where it cannot run. For objectives that ask no link.
/// False, and nothing was visited: there are more than `most`, or more than 64 units.
bool visit_placements(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes, std::size_t most,
                      const std::function<void(const Placement&)>& visit);

}  // namespace baechi::exact
