/// The work of a node, by formula from the shapes of its inputs and outputs.
#pragma once
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/import/onnx/model.h"

namespace baechi::onnx {

/// Flops, where a multiply-add is two, and bytes read and written. `inputs` and `outputs`: null
/// where not given.
/// - Products of matrices, convolutions, recurrent layers: the multiply-adds of the textbook.
/// - Ops that only rename or reshape (Reshape, Identity, Shape, constants): none.
/// - Ops that move data (Transpose, Concat, Gather): no flops; the bytes of the output twice.
/// - Others: one flop per element of the largest tensor; each tensor is read or written once.
/// Nothing if a shape that the formula needs is not known.
std::optional<OpWork> work_of(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              const std::vector<const TensorInfo*>& outputs);

/// Whether the operator multiplies, by its name, and there is no formula for it: DeformConv,
/// GroupQueryAttention.
bool multiplies_unknown(const Node& node);

/// Whether the operator copies parts of its inputs (Gather, Slice), so that it need not read all.
bool moves(const Node& node);

/// Whether the node runs no kernel: its output is its input's memory, or is a shape or a constant.
bool is_free(const Node& node);

}  // namespace baechi::onnx
