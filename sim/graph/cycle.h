/// Names the ops of a cycle, for the message that refuses it.
#pragma once
#include <span>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// Ops of one cycle among `edges`, in its order, each once: a shortest cycle through the lowest op
/// that lies on any. `num_ops` bounds the ids. The edges must hold a cycle.
std::vector<OpId> find_cycle(std::size_t num_ops, std::span<const Edge> edges);

}  // namespace baechi
