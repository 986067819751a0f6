/// The elements of small tensors that nodes compute: shapes, masks and bounds of slices.
#pragma once
#include "traces/import/onnx/shape_rules.h"

namespace baechi::onnx {

/// Each gives the first output its elements, where its shape is set and those of the inputs are
/// known; else they stay unknown.
void each_value(Inference& n);  ///< of an operator of one input, such as Neg
void each_pair(Inference& n);   ///< of two inputs, broadcast, such as Add
void choose(Inference& n);      ///< of Where

}  // namespace baechi::onnx
