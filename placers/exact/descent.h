/// Splits of blocks made better by moving and swapping blocks.
#pragma once
#include <optional>

#include "placers/exact/blocks.h"

namespace baechi::exact {

/// A device for each block, and the load of the busiest device.
struct Split {
  Duration load{};
  IdVector<BlockId, DeviceId> device{};  ///< [num_blocks]
};

/// Blocks in the order of falling weights, each on a device that can take it: of the devices with
/// room, the one with the least load (ties: the first). Nothing if a block finds none.
std::optional<Split> first_fit(const Blocks& blocks, const std::vector<DeviceClass>& classes);

/// From `start`, feasible: as long as the busiest device can be relieved, the move of a block from
/// there or the swap with another that leaves the busier of both devices with least; then a few
/// random moves from the best so far, and again, as often as 20 000 blocks make (but 20 times at
/// least). Never worse than `start`. Parts need not be contiguous.
Split descend(const Blocks& blocks, const std::vector<DeviceClass>& classes, Split start,
              std::uint64_t seed);

}  // namespace baechi::exact
