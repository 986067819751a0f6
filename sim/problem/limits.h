/// Overflow check: rejects problems whose times or sizes do not fit into 64 bits.
#pragma once
#include "sim/cluster/cluster.h"
#include "sim/cluster/cost_model.h"
#include "sim/graph/op_graph.h"

namespace baechi {

/// Throws InputError unless every step of the problem, for every placement and order, takes less
/// than 2^62 ns (146 years) and moves and holds less than 2^60 bytes (1 EiB). The bound adds each
/// op's time on its slowest device and, for each reader of a tensor, the transfer over the slowest
/// link. The message names the largest part: "a step could take more than 146 years: link
/// gpu0-gpu1, 5.7 B/s". If some op cannot run on some device, every op must take less than
/// `cannot_run`. `times`: the number of executions of the graph in one step, one for each
/// micro-batch.
void check_limits(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                  std::int64_t times = 1);

}  // namespace baechi
