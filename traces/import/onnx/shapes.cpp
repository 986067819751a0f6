#include "traces/import/onnx/model.h"

namespace baechi::onnx {

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

std::int64_t whole(double n) {
  constexpr auto most = static_cast<double>(most_dim);
  return n < most ? n > -most ? static_cast<std::int64_t>(n) : -most_dim : most_dim;
}

std::size_t position(const Shape& x, const Shape& place) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t dim = x.size() > place.size() ? i : place.size() - x.size() + i;
    at = at * static_cast<std::size_t>(x[i]) +
         (x[i] == 1 || dim >= place.size() ? 0 : static_cast<std::size_t>(place[dim]));
  }
  return at;
}

std::int64_t at_or(const std::optional<Integers>& list, std::size_t i, std::int64_t fallback) {
  return list && i < list->size() ? std::clamp((*list)[i], -most_dim, most_dim) : fallback;
}

std::int64_t product(std::span<const std::int64_t> dims) {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || (dim > 0 && n > most_dim / dim)) return -1;
    n *= dim;
  }
  return n;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape both = longer;
  const std::size_t skip = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& dim = both[skip + i];
    if (dim == 1)
      dim = shorter[i];
    else if (shorter[i] != 1 && shorter[i] != dim)
      return std::nullopt;
  }
  return both;
}

namespace {

struct Row {
  Rule* rule;
  std::string_view operators;  // separated by spaces
};

constexpr Row rows[] = {
    {rules::same,
     "Relu Sigmoid Tanh Erf Gelu LeakyRelu Elu Selu Celu Exp Log Sqrt Neg Abs Softplus Softsign "
     "HardSigmoid HardSwish Mish ThresholdedRelu Shrink Clip Identity Softmax LogSoftmax Hardmax "
     "Reciprocal Floor Ceil Round Sign Not Sin Cos Tan Asin Acos Atan Sinh Cosh PRelu LRN Trilu "
     "CumSum LpNormalization MeanVarianceNormalization InstanceNormalization GroupNormalization "
     "Swish FastGelu QuickGelu BiasGelu ScatterND ScatterElements Scatter ReverseSequence Asinh "
     "Acosh Atanh BitwiseNot RotaryEmbedding"},
    {rules::quantize, "QuantizeLinear"},
    {rules::dequantize, "DequantizeLinear"},
    {rules::dynamic_quantize, "DynamicQuantizeLinear"},
    {rules::dropout, "Dropout"},
    {rules::cast, "Cast CastLike EyeLike Bernoulli RandomNormalLike RandomUniformLike"},
    {rules::elementwise,
     "Add Sub Mul Div Pow Min Max Mean Sum Mod And Or Xor BitShift BitwiseAnd BitwiseOr "
     "BitwiseXor"},
    {rules::comparison, "Equal Greater Less GreaterOrEqual LessOrEqual IsNaN IsInf"},
    {rules::where, "Where"},
    {rules::normalization,
     "BatchNormalization LayerNormalization SimplifiedLayerNormalization RMSNormalization "
     "SkipLayerNormalization"},
    {rules::conv, "Conv ConvInteger QLinearConv FusedConv"},
    {rules::conv_transpose, "ConvTranspose"},
    {rules::pool, "MaxPool AveragePool LpPool"},
    {rules::global_pool, "GlobalAveragePool GlobalMaxPool GlobalLpPool"},
    {rules::grid_sample, "GridSample"},
    {rules::regions, "RoiAlign MaxRoiPool"},
    {rules::matmul, "MatMul MatMulInteger QLinearMatMul FusedMatMul MatMulNBits"},
    {rules::gemm, "Gemm FusedGemm"},
    {rules::einsum, "Einsum"},
    {rules::recurrent, "LSTM GRU RNN"},
    {rules::reshape, "Reshape"},
    {rules::flatten, "Flatten"},
    {rules::transpose, "Transpose"},
    {rules::squeeze, "Squeeze"},
    {rules::unsqueeze, "Unsqueeze"},
    {rules::concat, "Concat"},
    {rules::split, "Split"},
    {rules::slice, "Slice"},
    {rules::gather, "Gather"},
    {rules::gather_elements, "GatherElements"},
    {rules::gather_nd, "GatherND"},
    {rules::expand, "Expand"},
    {rules::tile, "Tile"},
    {rules::pad, "Pad"},
    {rules::shape_of, "Shape"},
    {rules::size_of, "Size"},
    {rules::constant, "Constant"},
    {rules::constant_of_shape, "ConstantOfShape"},
    {rules::random, "RandomNormal RandomUniform"},
    {rules::range, "Range"},
    {rules::reduce,
     "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
     "ReduceLogSumExp ReduceSumSquare ArgMax ArgMin"},
    {rules::top_k, "TopK"},
    {rules::one_hot, "OneHot"},
    {rules::resize, "Resize Upsample"},
    {rules::blocks, "DepthToSpace SpaceToDepth"},
    {rules::loss, "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss"},
};

Rule* rule_of(std::string_view op) {
  for (const Row& row : rows)
    for (std::string_view rest = row.operators; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (rest.substr(0, end) == op) return row.rule;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  return nullptr;
}

}  // namespace

std::optional<EinsumDims> einsum_dims(const Node& node,
                                      const std::vector<const TensorInfo*>& inputs) {
  std::string text(node.text("equation"));
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  std::string_view read = std::string_view(text).substr(0, arrow);
  EinsumDims dims;
  std::map<char, int> times;
  for (const TensorInfo* input : inputs) {
    if (input == nullptr || !input->shape) return std::nullopt;
    std::string term(read.substr(0, read.find(',')));
    read.remove_prefix(std::min(term.size() + 1, read.size()));
    // Dimensions of "..." are digits: 9 is the last one.
    const std::size_t spread = input->shape->size() + 3 - term.size();
    if (const std::size_t dots = term.find("..."); dots != std::string::npos && spread <= 10)
      term.replace(dots, 3, std::string_view("0123456789").substr(10 - spread));
    if (term.size() != input->shape->size()) return std::nullopt;
    for (std::size_t i = 0; i < term.size(); ++i) {
      std::int64_t& length = dims.length.emplace(term[i], 1).first->second;
      length = std::max(length, (*input->shape)[i]);
      ++times[term[i]];
    }
  }
  if (!read.empty()) return std::nullopt;
  std::string spread, once;
  for (const auto& [letter, count] : times)
    if (letter <= '9' || count == 1) (letter <= '9' ? spread : once) += letter;
  dims.written = arrow == std::string::npos ? "..." + once : text.substr(arrow + 2);
  if (const std::size_t dots = dims.written.find("..."); dots != std::string::npos)
    dims.written.replace(dots, 3, spread);
  for (const char letter : dims.written)
    if (!dims.length.contains(letter)) return std::nullopt;
  return dims;
}

bool is_known(const Node& node) { return rule_of(node.op_type) != nullptr; }

std::vector<TensorInfo> infer(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              std::int64_t opset) {
  Inference inference{node, inputs, opset, std::vector<TensorInfo>(node.outputs.size())};
  if (Rule* const rule = rule_of(node.op_type)) rule(inference);
  return std::move(inference.out);
}

}  // namespace baechi::onnx
