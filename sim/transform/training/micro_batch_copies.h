/// Which ops of a graph are copies that the transform `micro_batches` made.
#pragma once
#include <cstdint>

#include "sim/graph/op_graph.h"

namespace baechi {

/// An op as the transform `micro_batches` left it.
struct MicroBatchCopy {
  OpId first{};              ///< the copy of the first micro-batch; the op itself, if it is no copy
  std::uint32_t number = 0;  ///< of the micro-batch
};

/// Told by names: "NAME@3" is copy 3 of "NAME" if that is an op of the same kind, phase and group.
/// Copies with weights of their own (towers) count as ops by themselves. [num_ops]
IdVector<OpId, MicroBatchCopy> micro_batch_copies(const OpGraph& graph);

}  // namespace baechi
