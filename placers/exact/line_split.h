/// Splits for latency, along a line of blocks: each accelerator in turn takes a stretch of the
/// line; cores of the host run the rest.
#pragma once
#include <optional>

#include "placers/exact/lines.h"
#include "sim/objective/objective.h"

namespace baechi::exact {

struct LineSplit {
  std::vector<BlockId> line;
  struct Stretch {
    std::size_t begin = 0, end = 0;  ///< of `line`
  };
  std::vector<Stretch> stretches;  ///< [num_accelerators], ascending, apart from each other
};

/// Blocks that nothing but data orders.
Blocks latency_blocks(const Problem& problem, const ColocationUnits& units,
                      const std::vector<DeviceClass>& classes);

/// Fills one accelerator after the other along `line`, as long as the weights fit. A block that is
/// too large for any, or cannot run there, goes to the cores and ends the accelerator's stretch.
/// Source: Tarnawski et al., NeurIPS 2020, the greedy baseline.
LineSplit fill(const Problem& problem, const Blocks& blocks,
               const std::vector<DeviceClass>& classes, std::vector<BlockId> line);

/// Nothing if the cluster has no core and not all blocks are in stretches.
std::optional<Placement> in_ops(const LineSplit& split, const Problem& problem,
                                const Blocks& blocks);

/// Begin or end of one stretch after another goes where latency is least, as long as that helps.
void improve(LineSplit& split, const Problem& problem, const Blocks& blocks, Evaluator& latency);

}  // namespace baechi::exact
