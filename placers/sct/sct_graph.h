/// From a problem to m-SCT's linear program.
#pragma once
#include "placers/sct/favourite_child.h"
#include "sim/problem/problem.h"

namespace baechi {

/// The graph as m-SCT's linear program sees it: mean times, and one edge per pair of ops, whose
/// communication is the sum over its tensors. Edges in id order of their first.
SctGraph sct_graph(const Problem& problem);

}  // namespace baechi
