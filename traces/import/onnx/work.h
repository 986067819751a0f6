/// Which tensors are weights, and the work of nodes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/import/onnx/model.h"

namespace baechi::onnx {

/// The tensor of a Constant node that holds weights, rather than a shape or a number; or null.
const TensorInfo* constant_weight(const Node& node);

/// The weights of a model by name: initializers; Constant nodes of floats or of many elements;
/// inputs that are read as weights (null: without a tensor), by their position (the filter of Conv,
/// the matrix of Gemm) or by a name that ends in ".weight", ".bias" or similar. Points into
/// `model`.
std::map<std::string, const TensorInfo*> weights_of(const Model& model);

/// Flops and memory traffic of a node, from the shapes of its inputs and outputs (null: unknown).
/// nullopt if a shape that the formula needs is unknown.
/// - Matmuls, convolutions, recurrent layers: 2 flops per multiply-add.
/// - Ops that only rename or reshape (Reshape, Identity, Shape, constants): none.
/// - Ops that move data (Transpose, Concat, Gather): no flops, and twice the bytes of the output.
/// - Others: one flop per element of the largest tensor; each tensor is read or written once.
std::optional<OpWork> work_of(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              const std::vector<const TensorInfo*>& outputs);

/// Whether the name suggests matmuls but there is no formula: DeformConv, GroupQueryAttention.
bool multiplies_unknown(const Node& node);

/// Whether the operator only copies data and may not read all of its inputs (Gather, Slice).
bool moves(const Node& node);

/// Whether the node runs no kernel: its output aliases its input, or is a shape or a constant.
bool is_free(const Node& node);

}  // namespace baechi::onnx
