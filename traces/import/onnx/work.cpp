#include "traces/import/onnx/model.h"
#include "traces/import/rank_files.h"

namespace baechi::onnx {
namespace {

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool ends_like_a_weight(std::string_view name) {
  for (const std::string_view ending :
       {"bias", "running_mean", "running_var", "gamma", "beta", "kernel", "_scale", "zero_point"})
    if (name.ends_with(ending)) return true;
  return name.find("weight") != std::string_view::npos;
}

/// Whether input `i` of the operator is always a weight.
bool is_weight_input(const Node& node, std::size_t i) {
  if (one_of(node.op_type, {"LSTM", "GRU", "RNN"})) return i >= 1 && i <= 3;
  return i > 0 && one_of(node.op_type, {"Conv", "ConvTranspose", "Gemm", "LayerNormalization",
                                        "InstanceNormalization", "GroupNormalization", "PRelu",
                                        "BatchNormalization"});
}

constexpr std::int64_t most = std::int64_t{1} << 60;

/// a * b, at most 2^60.
std::int64_t times(std::int64_t a, std::int64_t b) { return a > 0 && b > most / a ? most : a * b; }

std::int64_t product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n = times(n, dim);
  return n;
}

const Shape* shape(const std::vector<const TensorInfo*>& tensors, std::size_t i) {
  return i < tensors.size() && tensors[i] != nullptr && tensors[i]->shape ? &*tensors[i]->shape
                                                                          : nullptr;
}

/// Flops of matmuls, convolutions and recurrent layers; nullopt for other operators, or if a shape
/// is unknown.
std::optional<std::int64_t> multiply_adds(const Node& node,
                                          const std::vector<const TensorInfo*>& in,
                                          const std::vector<const TensorInfo*>& out) {
  const std::string& op = node.op_type;
  if (op == "Einsum") {
    const auto dims = einsum_dims(node, in);
    if (!dims) return std::nullopt;
    std::int64_t flops = in.size() > 1 ? 2 : 1;
    for (const auto& [letter, length] : dims->length) flops = times(flops, length);
    return flops;
  }
  if (op == "MatMulNBits" && shape(out, 0) != nullptr)
    return times(2,
                 times(product(*shape(out, 0)), std::max<std::int64_t>(0, node.integer("K", 0))));
  const Shape *x = shape(in, 0), *w = shape(in, op.starts_with("QLinear") ? 3 : 1),
              *y = shape(out, 0);
  if (x == nullptr || w == nullptr) return std::nullopt;
  if (one_of(op, {"LSTM", "GRU", "RNN"}) && x->size() == 3 && shape(in, 2) != nullptr) {
    // Per step and sample: the matmuls of the input and of the hidden state. Output 0 may be
    // absent.
    const std::int64_t cells = times((*x)[0], (*x)[1]);
    return times(2, times(cells, std::min(most, product(*w) + product(*shape(in, 2)))));
  }
  if (y == nullptr) return std::nullopt;
  if (op == "ConvTranspose" && w->size() > 1)
    return times(2, times(product(*x), product(std::span(*w).subspan(1))));
  if (one_of(op, {"Conv", "ConvInteger", "QLinearConv", "FusedConv"}) && w->size() > 1)
    return times(2, times(product(*y), product(std::span(*w).subspan(1))));
  if (one_of(op, {"Gemm", "FusedGemm", "GemmFloat8"}) && x->size() == 2)
    return times(2, times(product(*y), (*x)[node.integer("transA", 0) != 0 ? 0 : 1]));
  if (one_of(op, {"MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul"}) && !x->empty()) {
    const bool transposed = node.integer("transA", 0) != 0 && x->size() > 1;
    return times(2, times(product(*y), transposed ? (*x)[x->size() - 2] : x->back()));
  }
  return std::nullopt;
}

bool multiplies(const Node& node) {
  return one_of(node.op_type,
                {"Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "Gemm", "MatMul",
                 "MatMulInteger", "QLinearMatMul", "FusedMatMul", "LSTM", "GRU", "RNN", "FusedConv",
                 "FusedGemm", "GemmFloat8", "MatMulNBits", "Einsum"});
}

}  // namespace

const TensorInfo* constant_weight(const Node& node) {
  const Attribute* value = node.attribute("value");
  if (node.op_type != "Constant" || node.outputs.empty() || value == nullptr || !value->tensor)
    return nullptr;
  const TensorInfo& tensor = *value->tensor;
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

bool moves(const Node& node) {
  return one_of(node.op_type,
                {"Transpose", "Concat", "Gather", "GatherElements", "GatherND", "Split", "Slice",
                 "Expand", "Tile", "Pad", "DepthToSpace", "SpaceToDepth", "OneHot",
                 "ConstantOfShape", "Range", "EyeLike", "ReverseSequence", "Cast"});
}

bool multiplies_unknown(const Node& node) {
  if (multiplies(node)) return false;
  for (const std::string_view part : {"Attention", "MatMul", "Gemm", "Conv", "LSTM", "GRU", "MoE"})
    if (node.op_type.find(part) != std::string::npos) return true;
  return false;
}

bool is_free(const Node& node) {
  return one_of(node.op_type, {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Shape",
                               "Size", "Constant"});
}

std::optional<OpWork> work_of(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              const std::vector<const TensorInfo*>& outputs) {
  if (is_free(node)) return OpWork{};
  OpWork work;
  std::int64_t written = 0, largest = 0, traffic = 0;
  for (const auto* tensors : {&inputs, &outputs})
    for (const TensorInfo* t : *tensors) {
      if (t == nullptr) continue;
      const auto bytes = t->bytes(), elements = t->elements();
      if (!bytes || !elements) {
        if (tensors == &outputs && t == outputs.front()) return std::nullopt;
        continue;
      }
      traffic = std::min(most, traffic + *bytes);
      largest = std::max(largest, *elements);
      if (tensors == &outputs) written = std::min(most, written + *bytes);
    }
  if (outputs.empty()) return std::nullopt;
  work.traffic = {moves(node) ? std::min(most, 2 * written) : traffic};
  if (multiplies(node)) {
    const auto flops = multiply_adds(node, inputs, outputs);
    if (!flops) return std::nullopt;
    work.flops = *flops;
  } else if (!moves(node)) {
    work.flops = largest;
  }
  // Products of narrow numbers may be written wider.
  const auto& decides = multiplies(node) ? inputs : outputs;
  if (!decides.empty() && decides.front() != nullptr)
    work.precision = precision_of_type(word_of(decides.front()->type));
  return work;
}

}  // namespace baechi::onnx
