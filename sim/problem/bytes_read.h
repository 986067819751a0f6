/// The memory of an op's inputs.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi {

/// Bytes of the tensors that `v` reads, each once; its device holds them, in addition to the
/// footprint of `v`, while `v` runs.
Bytes bytes_read(const OpGraph& graph, OpId v);

}  // namespace baechi
