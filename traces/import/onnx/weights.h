/// Which values of an ONNX model are weights.
#pragma once
#include <map>
#include <string>

#include "traces/import/onnx/model.h"

namespace baechi::onnx {

/// The tensor of a Constant node that holds weights, rather than a shape or a number; or null.
const TensorInfo* constant_weight(const Node& node);

/// By name: initializers; Constant nodes of floats, or of many elements; and inputs that are read
/// as weights, which have no tensor here (null). An input is one by its place (the filter of Conv,
/// the matrix of Gemm), or by a name that ends in ".weight", ".bias" and the like. Valid as long as
/// `model`.
std::map<std::string, const TensorInfo*> weights_of(const Model& model);

}  // namespace baechi::onnx
