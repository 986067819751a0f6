/// Shape inference for the tensors of a model: rules, one function per kind of operator, and their
/// helpers.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
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
    global_pool, matmul, gemm, einsum, quantize, dequantize, dynamic_quantize, recurrent, reduce,
    loss;

// shape_rules_of_views.cpp
Rule reshape, flatten, transpose, squeeze, unsqueeze, concat, split, slice, gather, gather_elements,
    gather_nd, expand, tile, pad, resize, blocks, top_k, one_hot;

// values.cpp
Rule shape_of, size_of, constant, constant_of_shape, range;

}  // namespace rules

/// Each gives the first output its elements, where its shape is set and those of the inputs are
/// known; else they stay unknown.
void each_value(Inference& n);  ///< unary operators such as Neg
void each_pair(Inference& n);   ///< binary operators with broadcasting, such as Add
void choose(Inference& n);      ///< Where

}  // namespace baechi::onnx
