/// Constant folding of small tensors: shapes, masks and bounds of slices.
#pragma once
#include "traces/import/onnx/shape_rules.h"

namespace baechi::onnx {

/// Each gives the first output its elements, where its shape is set and those of the inputs are
/// known; else they stay unknown.
void each_value(Inference& n);  ///< unary operators such as Neg
void each_pair(Inference& n);   ///< binary operators with broadcasting, such as Add
void choose(Inference& n);      ///< Where

}  // namespace baechi::onnx
