#pragma once
#include "sim/graph/op_graph.h"
#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// Flops and memory traffic of a recorded call, from the shapes of its tensors.
/// - Matmuls, convolutions, recurrent layers and attention, and their backward passes: 2 flops per
///   multiply-add of the textbook algorithm.
/// - Other calls: one flop per element of the largest tensor.
/// - Traffic: each input and output tensor once.
OpWork work_of(const Call& call, Precision of_convolutions);

}  // namespace baechi::pytorch
