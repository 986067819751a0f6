/// How many parts an accelerator may have in a placement of low latency.
#pragma once
#include <vector>

#include "placers/interface/colocation.h"
#include "sim/problem/problem.h"

namespace baechi::exact {

/// An upper bound, at least 1, on the parts of any accelerator in any placement whose latency is
/// below `below`, cut as the objective `latency` cuts it. A result above `most` is no bound.
///
/// Part k + 1 of an accelerator reads, directly or not, from ops that leave part k. So it begins
/// after part k, and k + 1 parts have a path that leaves the accelerator k times and comes back.
/// The latency is at least the times of the path's ops, each where it is quickest, and a transfer
/// for each time that it leaves or comes back.
std::size_t parts_needed(const Problem& problem, const ColocationUnits& units,
                         const std::vector<DeviceClass>& classes, Duration below, std::size_t most);

/// The longest path, each op where it is quickest and its unit's weights fit: a lower bound of the
/// latency.
Duration quickest_path(const Problem& problem, const ColocationUnits& units,
                       const std::vector<DeviceClass>& classes);

}  // namespace baechi::exact
