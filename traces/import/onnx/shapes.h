/// Shapes of a model's tensors, inferred from the shapes of its inputs and weights.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/onnx/model.h"

namespace baechi::onnx {

/// The known facts of each tensor, by name.
using Tensors = std::map<std::string, TensorInfo, std::less<>>;

/// The outputs of `node`, given its inputs (null: not given, or not known). A fact that does not
/// follow stays unknown.
/// Source: the operators' pages, onnx/docs/Operators.md (opsets 1 to 21).
std::vector<TensorInfo> infer(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              std::int64_t opset);

/// The letters of Einsum's equation.
struct EinsumSides {
  std::map<char, std::int64_t> length;
  std::string written;  ///< of the result, in its order
};
/// Nothing if a shape is not known, or does not fit the equation, or if the equation has "...".
std::optional<EinsumSides> einsum_sides(const Node& node,
                                        const std::vector<const TensorInfo*>& inputs);

/// Whether infer() knows the operator.
bool is_known(const Node& node);

}  // namespace baechi::onnx
