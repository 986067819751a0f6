/// The best pipeline by dynamic programming over ideals.
#pragma once
#include <optional>
#include <vector>

#include "placers/exact/blocks.h"
#include "placers/exact/ideals.h"

namespace baechi::exact {

struct BlockPipeline {
  Duration load{};                       ///< of the device with most
  IdVector<BlockId, DeviceId> device{};  ///< [num_blocks]
};

/// The cut of `blocks` along a chain of `ideals`, a device for each part, whose largest load is
/// least and below `bound`; nothing if there is none. Each device runs at most one part; an
/// accelerator's weights fit in its memory.
///
/// least[i][devices used] = over ideals j in i, and the class of the device that takes i \ j, the
/// least of max(least[j][one device of that class less], load of i \ j there). The parts i \ j are
/// walked depth-first, taking away one block at a time, their loads kept up to date by the number
/// of pins in each net; nothing is stored for a pair of ideals. A walk turns back where neither
/// class of device could take the part; an ideal is passed over if what is left would take the
/// remaining devices beyond `bound`, even cut at will and moved for nothing.
/// Throws InputError if the table would need more than 160 MB: too many classes of devices.
/// Source: Tarnawski et al., NeurIPS 2020; the walk and the bounds are ours.
std::optional<BlockPipeline> best_pipeline(const Blocks& blocks,
                                           const std::vector<DeviceClass>& classes,
                                           const Ideals& ideals, Duration bound);

}  // namespace baechi::exact
