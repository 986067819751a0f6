/// Splits for latency, along a line of bundles: each accelerator in turn takes a stretch of the
/// line; cores of the host run the rest.
#pragma once
#include <optional>

#include "placers/exact/lines.h"
#include "sim/objective/objective.h"

namespace baechi::exact {

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
