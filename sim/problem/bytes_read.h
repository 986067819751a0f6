/// What an op reads, as memory of its device.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi {

/// The tensors that `v` reads, each once, which its device holds beside its footprint while it
/// runs.
Bytes bytes_read(const OpGraph& graph, OpId v);

}  // namespace baechi
