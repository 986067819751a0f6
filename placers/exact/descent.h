/// Local search on splits of bundles, by moves and swaps.
#pragma once
#include <optional>

#include "placers/exact/bundles.h"

namespace baechi::exact {

/// A device for each bundle, and the load of the busiest device.
struct Split {
  Duration load{};
  IdVector<BundleId, DeviceId> device{};  ///< [num_bundles]
};

/// Places the bundles by decreasing weights, each on the device with the least load of those with
/// enough memory (ties: the first). Nothing if a bundle fits on no device.
std::optional<Split> first_fit(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// Local search from `start`, which must be feasible. While the busiest device can be relieved,
/// applies the move or swap of one of its bundles that minimises the larger load of the two
/// devices. Then makes a few random moves from the best split and repeats, max(20, 20 000 /
/// num_bundles) times. Never worse than `start`. Parts need not be contiguous.
Split descend(const Bundles& bundles, const std::vector<DeviceClass>& classes, Split start,
              std::uint64_t seed);

}  // namespace baechi::exact
