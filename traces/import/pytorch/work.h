/// The work of a recorded call, by formula from the shapes of its tensors.
#pragma once
#include "sim/graph/op_graph.h"
#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// Flops, where a multiply-add is two, and bytes read and written.
/// - Products of matrices, convolutions, their backward passes, recurrent layers and attention: the
///   multiply-adds of the textbook's algorithm.
/// - Other calls: one flop per element of the largest tensor.
/// - Traffic: each tensor that the call takes or gives back, once.
OpWork work_of(const Call& call);

}  // namespace baechi::pytorch
