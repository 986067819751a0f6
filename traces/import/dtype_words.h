/// The number formats behind the type words of frameworks.
#pragma once
#include <string_view>

#include "sim/graph/op_graph.h"

namespace baechi {

/// The format in which numbers of the type `word` are multiplied: "f8E4M3FN" of HLO,
/// "Tensor(c10::Half)" of PyTorch, "bfloat16" of ONNX. fp32 for all others.
Precision precision_of_type(std::string_view word);

}  // namespace baechi
