/// Small graphs as text.
#pragma once
#include <string_view>

#include "sim/graph/op_graph.h"

namespace baechi::testing {

/// The graph of chains of ops and tensors, chains apart by ';':
///   "a10 -t100> b20; a -t> c30; b -50> c"
/// "a10" is an op that takes 10 ns; later it is just "a". "-t100>" is a tensor t of 100 bytes,
/// later
/// "-t>": two readers of one tensor. "-50>" is a tensor of its own. Ops have the order of their
/// first mention, which must be topological. Throws std::invalid_argument on any other text.
OpGraph graph_of(std::string_view text);

}  // namespace baechi::testing
