#pragma once
#include <map>
#include <string>

#include "traces/import/onnx/model.h"

namespace baechi::onnx {

/// The tensor of a Constant node that holds weights, rather than a shape or a number; or null.
const TensorInfo* constant_weight(const Node& node);

/// The weights of a model by name: initializers; Constant nodes of floats or of many elements;
/// inputs that are read as weights (null: without a tensor), by their position (the filter of Conv,
/// the matrix of Gemm) or by a name that ends in ".weight", ".bias" or similar. Points into
/// `model`.
std::map<std::string, const TensorInfo*> weights_of(const Model& model);

}  // namespace baechi::onnx
