/// Topological orders of bundles.
#pragma once
#include <vector>

#include "placers/exact/bundles.h"

namespace baechi::exact {

/// The next bundle is the ready one that became ready last. Bundles that become ready together, and
/// those at the start, come in the order of their ids or, `reversed`, against it. No bundle may
/// lead to itself (BundleRules::join_cycles).
std::vector<BundleId> depth_first(const Bundles& bundles, bool reversed);

/// depth_first() from the end, reversed.
std::vector<BundleId> depth_last(const Bundles& bundles, bool reversed);

/// As depth_first, but bundles that become ready together come in the reverse of the order in which
/// the graph's edges were added. For bundles that data orders (BundleRules::Order::data).
std::vector<BundleId> depth_first_as_added(const OpGraph& graph, const Bundles& bundles);

}  // namespace baechi::exact
