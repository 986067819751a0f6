/// Shape inference for the tensors of a model.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/onnx/model.h"

namespace baechi::onnx {

/// The known facts of each tensor, by name.
using Tensors = std::map<std::string, TensorInfo, std::less<>>;

/// The outputs of `node`, given its inputs (null: missing or unknown). Facts that cannot be
/// inferred stay unknown. Source: onnx/docs/Operators.md (opsets 1 to 21).
std::vector<TensorInfo> infer(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              std::int64_t opset);

/// The dimensions of Einsum's equation, by letter.
struct EinsumDims {
  std::map<char, std::int64_t> length;
  std::string written;  ///< letters of the result
};
/// nullopt if a shape is unknown or does not fit the equation, or if the equation has "...".
std::optional<EinsumDims> einsum_dims(const Node& node,
                                      const std::vector<const TensorInfo*>& inputs);

/// Whether infer() has a rule for the operator.
bool is_known(const Node& node);

}  // namespace baechi::onnx
