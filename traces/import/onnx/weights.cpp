#include "traces/import/onnx/weights.h"

#include <set>
#include <string_view>

#include "traces/import/onnx/shapes.h"

namespace baechi::onnx {
namespace {

bool ends_like_a_weight(std::string_view name) {
  for (const std::string_view ending :
       {"weight", "bias", "running_mean", "running_var", "gamma", "beta", "kernel",
        "in_proj_weight", "in_proj_bias", "_scale", "zero_point"})
    if (name.ends_with(ending)) return true;
  return name.find("weight") != std::string_view::npos;
}

/// Whether input `i` of the operator is always a weight.
bool is_weight_input(const Node& node, std::size_t i) {
  const std::string& op = node.op_type;
  if (op == "Conv" || op == "ConvTranspose" || op == "Gemm" || op == "LayerNormalization" ||
      op == "InstanceNormalization" || op == "GroupNormalization" || op == "PRelu")
    return i > 0;
  if (op == "BatchNormalization") return i > 0;
  if (op == "LSTM" || op == "GRU" || op == "RNN") return i == 1 || i == 2 || i == 3;
  return false;
}

}  // namespace

const TensorInfo* constant_weight(const Node& node) {
  const auto value = node.attributes.find("value");
  if (node.op_type != "Constant" || node.outputs.empty() || value == node.attributes.end() ||
      !value->second.tensor)
    return nullptr;
  const TensorInfo& tensor = *value->second.tensor;
  const bool floats = tensor.type == ElementType::float32 || tensor.type == ElementType::float16 ||
                      tensor.type == ElementType::bfloat16 || tensor.type == ElementType::float64;
  const bool many = tensor.elements().value_or(0) > static_cast<std::int64_t>(most_values);
  return many || (floats && !tensor.shape->empty()) ? &tensor : nullptr;
}

std::map<std::string, const TensorInfo*> weights_of(const Model& model) {
  std::map<std::string, const TensorInfo*> weights;
  for (const Initializer& initializer : model.initializers)
    weights[initializer.name] = &initializer.info;
  for (const Node& node : model.nodes)
    if (const TensorInfo* constant = constant_weight(node))
      weights[node.outputs.front()] = constant;
  std::set<std::string> given;
  for (const ValueInfo& input : model.inputs) given.insert(input.name);
  std::map<std::string, bool> always;  // whether all readers read it as a weight
  for (const Node& node : model.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (given.contains(node.inputs[i])) {
        const bool place = is_weight_input(node, i);
        const auto [at, added] = always.emplace(node.inputs[i], place);
        at->second = at->second && place;
      }
  for (const ValueInfo& input : model.inputs)
    if (const auto at = always.find(input.name);
        (at != always.end() && at->second) || ends_like_a_weight(input.name))
      weights.emplace(input.name, nullptr);
  return weights;
}

}  // namespace baechi::onnx
