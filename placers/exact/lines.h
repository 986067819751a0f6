/// Topological orders of bundles, and splits for latency along one: each accelerator in turn takes
/// a stretch of the line; cores of the host run the rest.
#pragma once

#include "placers/exact/bundles.h"
#include "sim/objective/objective.h"

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

struct LineSplit {
  std::vector<BundleId> line;
  struct Stretch {
    std::size_t begin = 0, end = 0;  ///< of `line`
  };
  std::vector<Stretch> stretches;  ///< [num_accelerators], ascending, apart from each other
};

/// Bundles that only data edges order.
Bundles latency_bundles(const Problem& problem, const ColocationUnits& units,
                        const std::vector<DeviceClass>& classes);

/// Fills one accelerator after the other along `line`, as long as the weights fit. A bundle that is
/// too large for any, or cannot run there, goes to the cores and ends the accelerator's stretch.
/// Source: Tarnawski et al., NeurIPS 2020, the greedy baseline.
LineSplit fill(const Problem& problem, const Bundles& bundles,
               const std::vector<DeviceClass>& classes, std::vector<BundleId> line);

/// Nothing if the cluster has no core and some bundle is in no stretch.
std::optional<Placement> in_ops(const LineSplit& split, const Problem& problem,
                                const Bundles& bundles);

/// Moves the begin or end of one stretch after another to where the latency is least, while that
/// helps.
void improve(LineSplit& split, const Problem& problem, const Bundles& bundles, Evaluator& latency);

}  // namespace baechi::exact
