/// Topological orders of blocks.
#pragma once
#include <vector>

#include "placers/exact/blocks.h"

namespace baechi::exact {

/// The next block is the ready one that became ready last. Blocks that become ready together, and
/// those at the start, come in the order of their ids or, `reversed`, against it. No block may lead
/// to itself (BlockRules::join_cycles).
std::vector<BlockId> depth_first(const Blocks& blocks, bool reversed);

/// The same from the end, turned round.
std::vector<BlockId> depth_last(const Blocks& blocks, bool reversed);

/// As depth_first, but blocks that become ready together come in the reverse of the order in which
/// the graph's edges were added. For blocks that data orders (BlockRules::Order::data).
std::vector<BlockId> depth_first_as_added(const OpGraph& graph, const Blocks& blocks);

}  // namespace baechi::exact
