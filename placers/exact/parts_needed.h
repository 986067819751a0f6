/// Bounds for placements of low latency, and all placements of a small problem, one after another.
#pragma once

#include "placers/interface/colocation.h"

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

/// Visits one placement of each set of placements that differ only in a permutation of equal
/// devices. The first core of a class stands for all cores of its class, which have no limit. Units
/// stay whole, and no op is where it cannot run. For objectives that do not depend on links.
/// Returns false without a visit if there are more than `most` placements or more than 64 units.
bool visit_placements(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes, std::size_t most,
                      const std::function<void(const Placement&)>& visit);

}  // namespace baechi::exact
