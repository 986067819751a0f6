/// Refuses problems whose times or sizes do not fit into 64 bits.
#pragma once
#include "sim/cluster/cluster.h"
#include "sim/cluster/cost_model.h"
#include "sim/graph/op_graph.h"

namespace baechi {

/// Throws InputError unless every step of the problem, whatever the placement and the order, takes
/// less than 2^62 ns (146 years) and moves and holds less than 2^60 bytes (1 EiB). Each op
/// counts with the time on its slowest device, each reader of a tensor with the transfer over its
/// slowest link. The message names the largest part: "a step could take more than 146 years: link
/// gpu0-gpu1, 5.7 B/s".
/// Where some op cannot run on some device, no op may take as long as `cannot_run` stands for.
/// `times`: so many passes through the graph, one for each micro-batch, are one step.
void check_limits(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                  std::int64_t times = 1);

}  // namespace baechi
