/// An ONNX model without the contents of large tensors, the inference of its shapes by rules, and
/// the work of its nodes.
#pragma once
#include <map>

#include "sim/graph/op_graph.h"

namespace baechi {
class TextFile;
}

namespace baechi::onnx {

constexpr std::int64_t most_dim = std::int64_t{1} << 40;  ///< largest dimension
constexpr std::size_t most_values = 256;  ///< elements of the largest tensor whose values are kept

using Shape = std::vector<std::int64_t>;

/// TensorProto.DataType.
enum class ElementType : std::uint8_t {
  unknown = 0,
  float32 = 1,
  uint8 = 2,
  int32 = 6,
  int64 = 7,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  bfloat16 = 16
};
/// The name of a float narrower than fp32, such as "float8e4m3fn"; "" for other types.
std::string_view word_of(ElementType type);
/// Bits of an element; 0 if unknown. Elements of less than a byte are packed.
std::int64_t bits_of(ElementType type);

/// The known facts of a tensor.
struct TensorInfo {
  ElementType type = ElementType::unknown;
  std::optional<Shape> shape{};
  /// The elements of a small tensor such as a shape or scales, in C order. Integers are exact up to
  /// 2^53; larger ones mean "to the end" of a slice.
  std::optional<std::vector<double>> values{};

  std::optional<std::int64_t> elements() const;  ///< nullopt if unknown or over 2^60
  std::optional<std::int64_t> bytes() const;
};

struct Initializer {
  std::string name;
  TensorInfo info;
  bool external = false;  ///< its contents are in another file
};

/// A graph input, or a value whose shape is in the file. A dynamic dimension is -1, and its name,
/// if any, is in `symbols`.
struct ValueInfo {
  std::string name;
  ElementType type = ElementType::unknown;
  std::optional<Shape> shape{};
  std::vector<std::string> symbols{};  ///< [shape]
};

struct Attribute {
  std::int64_t i = 0;
  std::string s{};
  std::vector<std::int64_t> ints{};
  std::vector<double> floats{};  ///< also a single one
  std::optional<TensorInfo> tensor{};
  bool has_graph = false;
};

struct Node {
  std::string name{}, op_type{}, domain{};
  std::vector<std::string> inputs{}, outputs{};
  std::map<std::string, Attribute, std::less<>> attributes{};
  std::uint64_t position = 0;  ///< byte in the file, from 0

  const Attribute* attribute(std::string_view name) const;  ///< null if it is missing
  /// The attribute's text; "" if it is missing.
  std::string_view text(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  /// The attribute's integers; nullopt if it is missing.
  std::optional<std::vector<std::int64_t>> integers(std::string_view name) const;
};

struct Model {
  std::int64_t ir_version = 0, opset = 0;
  std::string producer, name;
  std::vector<Node> nodes;
  std::vector<Initializer> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  std::vector<std::string>
      functions;  ///< names of operators that the model defines; their bodies are not read
};

/// Throws InputError if the file is truncated, is not an ONNX model, or has no graph.
Model read_model(TextFile& file);

/// The known facts of each tensor, by name.
using Tensors = std::map<std::string, TensorInfo, std::less<>>;

/// The outputs of `node`, given its inputs (null: missing or unknown). Facts that cannot be
/// inferred stay unknown. Source: onnx/docs/Operators.md (opsets 1 to 21).
std::vector<TensorInfo> infer(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              std::int64_t opset);

/// The dimensions of Einsum's equation, by letter; those of "..." by digit.
struct EinsumDims {
  std::map<char, std::int64_t> length;
  std::string written;  ///< letters of the result
};
/// nullopt if a shape is unknown or does not fit the equation.
std::optional<EinsumDims> einsum_dims(const Node& node,
                                      const std::vector<const TensorInfo*>& inputs);

/// Whether infer() has a rule for the operator.
bool is_known(const Node& node);

using Values = std::vector<double>;
using Integers = std::vector<std::int64_t>;

/// `n` truncated, and clamped to +-most_dim.
std::int64_t whole(double n);

/// Calls `use` with each index of a tensor of shape `y`, in C order.
template <class Use>
void each_place(const Shape& y, Use use) {
  std::int64_t count = 1;
  for (const std::int64_t dim : y) count *= dim;
  for (Shape place(y.size()); count > 0; --count) {
    use(place);
    for (std::size_t i = y.size(); i-- > 0 && ++place[i] == y[i];) place[i] = 0;
  }
}
/// Linear index in a tensor of shape `x`, which is broadcast to the result, of the result's index
/// `place`.
std::size_t position(const Shape& x, const Shape& place);

/// The state of a node's shape inference. Functions return null or nullopt for unknown facts.
struct Inference {
  const Node& node;
  const std::vector<const TensorInfo*>& in;
  std::int64_t opset;
  std::vector<TensorInfo> out;

  const TensorInfo* input(std::size_t i) const { return i < in.size() ? in[i] : nullptr; }
  const Shape* shape(std::size_t i) const {
    return input(i) != nullptr && input(i)->shape ? &*input(i)->shape : nullptr;
  }
  const Values* values(std::size_t i) const {
    return input(i) != nullptr && input(i)->values ? &*input(i)->values : nullptr;
  }
  ElementType type(std::size_t i) const {
    return input(i) != nullptr ? input(i)->type : ElementType::unknown;
  }
  /// Integers of an attribute or, in newer opsets, of input `i`.
  std::optional<Integers> list(std::string_view attribute, std::size_t i) const {
    if (values(i) != nullptr) {
      Integers numbers;
      for (const double n : *values(i)) numbers.push_back(whole(n));
      return numbers;
    }
    if (i < in.size() && !node.inputs[i].empty()) return std::nullopt;
    return node.integers(attribute);
  }
  /// Whether that list is an input of unknown value.
  bool hidden(std::string_view attribute, std::size_t i) const {
    return i < in.size() && !node.inputs[i].empty() && !list(attribute, i);
  }
  void set(Shape shape, ElementType type, std::size_t output = 0) {
    if (output >= out.size()) return;
    for (const std::int64_t n : shape)
      if (n < 0 || n > most_dim) return;
    out[output] = {.type = type, .shape = std::move(shape)};
  }
  /// Sets the elements of the first output, whose shape must be set.
  void set_values(Values values) {
    if (!out.empty() && values.size() <= most_values &&
        out[0].elements() == static_cast<std::int64_t>(values.size()))
      out[0].values = std::move(values);
  }
  /// Sets each element of the first output, whose shape must be set, to the element of input `i` at
  /// index `source(place)`. No effect if the input is unknown, or the output has over most_values.
  template <class Source>
  void take(std::size_t i, Source source) {
    if (out.empty() || values(i) == nullptr || shape(i) == nullptr) return;
    const std::int64_t count = out[0].elements().value_or(-1);
    if (count < 0 || count > static_cast<std::int64_t>(most_values)) return;
    Values taken;
    each_place(*out[0].shape, [&](const Shape& place) {
      const std::size_t at = position(*shape(i), source(place));
      if (at < values(i)->size()) taken.push_back((*values(i))[at]);
    });
    set_values(std::move(taken));
  }
};

/// `axis` as an index below `rank`: a negative one counts from the end; nullopt if out of range.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

std::int64_t at_or(const std::optional<Integers>& list, std::size_t i, std::int64_t fallback);
std::int64_t product(std::span<const std::int64_t> dims);
/// Number of elements of [0, dim) that Slice selects; clamps `first` to the first of them.
std::int64_t sliced(std::int64_t& first, std::int64_t end, std::int64_t step, std::int64_t dim);
/// NumPy's broadcasting; nullopt if the shapes are incompatible.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// A shape rule; shapes.cpp lists the operators of each.
using Rule = void(Inference& n);
namespace rules {

// shape_rules_of_layers.cpp
Rule same, dropout, cast, elementwise, comparison, where, normalization, conv, conv_transpose, pool,
    global_pool, grid_sample, regions, matmul, gemm, einsum, quantize, dequantize, dynamic_quantize,
    recurrent, reduce, loss;

// shape_rules_of_views.cpp
Rule reshape, flatten, transpose, squeeze, unsqueeze, concat, split, slice, gather, gather_elements,
    gather_nd, expand, tile, pad, resize, blocks, top_k, one_hot;

// values.cpp
Rule shape_of, size_of, constant, constant_of_shape, random, range;

}  // namespace rules

/// Each gives the first output its elements, where its shape is set and those of the inputs are
/// known; else they stay unknown.
void each_value(Inference& n);  ///< unary operators such as Neg
void each_pair(Inference& n);   ///< binary operators with broadcasting, such as Add
void choose(Inference& n);      ///< Where

/// The tensor of a Constant node that holds weights, rather than a shape or a number; or null.
const TensorInfo* constant_weight(const Node& node);

/// The weights of a model by name: initializers; Constant nodes of floats or of many elements;
/// inputs that are read as weights (null: without a tensor), by their position (the filter of Conv,
/// the matrix of Gemm) or by a name that ends in ".weight", ".bias" or similar. Points into
/// `model`.
std::map<std::string, const TensorInfo*> weights_of(const Model& model);

/// Flops and memory traffic of a node, from the shapes of its inputs and outputs (null: unknown).
/// nullopt if a shape that the formula needs is unknown.
/// - Matmuls, convolutions, recurrent layers: 2 flops per multiply-add.
/// - Ops that only rename or reshape (Reshape, Identity, Shape, constants): none.
/// - Ops that move data (Transpose, Concat, Gather): no flops, and twice the bytes of the output.
/// - Others: one flop per element of the largest tensor; each tensor is read or written once.
std::optional<OpWork> work_of(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              const std::vector<const TensorInfo*>& outputs);

/// Whether the name suggests matmuls but there is no formula: DeformConv, GroupQueryAttention.
bool multiplies_unknown(const Node& node);

/// Whether the operator only copies data and may not read all of its inputs (Gather, Slice).
bool moves(const Node& node);

/// Whether the node runs no kernel: its output aliases its input, or is a shape or a constant.
bool is_free(const Node& node);

}  // namespace baechi::onnx
