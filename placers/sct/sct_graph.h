/// Makes the graph of m-SCT's linear program from a problem.
#pragma once
#include "placers/sct/favourite_child.h"
#include "sim/problem/problem.h"

namespace baechi {

/// The problem's graph for m-SCT's linear program: mean op times over the devices, mean transfer
/// times over the links, and one edge per pair of ops, whose communication is the sum over the
/// tensors between the two ops. Edges are ordered by the first graph edge of each pair.
SctGraph sct_graph(const Problem& problem);

}  // namespace baechi
