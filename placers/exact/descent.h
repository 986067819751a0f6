/// Splits of bundles made better by moving and swapping bundles.
#pragma once
#include <optional>

#include "placers/exact/bundles.h"

namespace baechi::exact {

/// A device for each bundle, and the load of the busiest device.
struct Split {
  Duration load{};
  IdVector<BundleId, DeviceId> device{};  ///< [num_bundles]
};

/// Bundles in the order of falling weights, each on a device that can take it: of the devices with
/// room, the one with the least load (ties: the first). Nothing if a bundle finds none.
std::optional<Split> first_fit(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// From `start`, feasible: as long as the busiest device can be relieved, the move of a bundle from
/// there or the swap with another that leaves the busier of both devices with least; then a few
/// random moves from the best so far, and again, as often as 20 000 bundles make (but 20 times at
/// least). Never worse than `start`. Parts need not be contiguous.
Split descend(const Bundles& bundles, const std::vector<DeviceClass>& classes, Split start,
              std::uint64_t seed);

}  // namespace baechi::exact
