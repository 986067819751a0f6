/// Finds one cycle, for the error message of a cyclic graph.
#pragma once
#include <span>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// The ops of a shortest cycle through the op with the lowest id that lies on a cycle, in order,
/// each once. All ids are below `num_ops`. `edges` must contain a cycle.
std::vector<OpId> find_cycle(std::size_t num_ops, std::span<const Edge> edges);

}  // namespace baechi
