/// The rules that give the shapes of outputs, one function per kind of operator, and their common
/// functions.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "traces/import/onnx/shapes.h"

namespace baechi::onnx {

using Values = std::vector<std::int64_t>;

/// A node on its way to the shapes of its outputs. Functions return nothing where a shape does not
/// follow.
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
  /// Integers of an attribute or, in newer opsets, of an input.
  std::optional<Values> list(std::string_view attribute, std::size_t i) const {
    if (values(i) != nullptr) return *values(i);
    if (i < in.size() && !node.inputs[i].empty()) return std::nullopt;
    return node.integers(attribute);
  }
  /// Whether that list is given, but is not known.
  bool hidden(std::string_view attribute, std::size_t i) const {
    return i < in.size() && !node.inputs[i].empty() && !list(attribute, i);
  }
  void set(Shape shape, ElementType type, std::size_t output = 0) {
    if (output >= out.size()) return;
    for (const std::int64_t n : shape)
      if (n < 0 || n > most_side) return;
    out[output] = {.type = type, .shape = std::move(shape)};
  }
  void set_values(Values values, ElementType type) {
    if (values.size() <= most_values && !out.empty()) out[0].values = std::move(values);
    if (!out.empty()) out[0].type = type;
  }
};

/// `axis` of `rank` sides, counted from the end if it is negative; nothing if there is none.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank);

std::int64_t at_or(const std::optional<Values>& list, std::size_t i, std::int64_t fallback);
std::int64_t product(std::span<const std::int64_t> sides);
/// NumPy's broadcasting; nothing if the shapes do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// One function per kind of operator; shapes.cpp lists the operators of each.
namespace rules {

// shape_rules_of_layers.cpp
void same(Inference& n);
void dropout(Inference& n);
void cast(Inference& n);
void elementwise(Inference& n);
void comparison(Inference& n);
void where(Inference& n);
void normalization(Inference& n);
void conv(Inference& n);
void conv_transpose(Inference& n);
void pool(Inference& n);
void global_pool(Inference& n);
void matmul(Inference& n);
void gemm(Inference& n);
void einsum(Inference& n);
void quantize(Inference& n);
void dequantize(Inference& n);
void dynamic_quantize(Inference& n);
void recurrent(Inference& n);
void reduce(Inference& n);
void loss(Inference& n);

// shape_rules_of_views.cpp
void reshape(Inference& n);
void flatten(Inference& n);
void transpose(Inference& n);
void squeeze(Inference& n);
void unsqueeze(Inference& n);
void concat(Inference& n);
void split(Inference& n);
void slice(Inference& n);
void gather(Inference& n);
void gather_elements(Inference& n);
void gather_nd(Inference& n);
void expand(Inference& n);
void tile(Inference& n);
void pad(Inference& n);
void resize(Inference& n);
void blocks(Inference& n);
void top_k(Inference& n);
void one_hot(Inference& n);
void shape_of(Inference& n);
void size_of(Inference& n);
void constant(Inference& n);
void constant_of_shape(Inference& n);
void range(Inference& n);

}  // namespace rules

}  // namespace baechi::onnx
