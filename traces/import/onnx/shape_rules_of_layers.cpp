#include "traces/import/onnx/model.h"

namespace baechi::onnx {
namespace rules {

void same(Inference& n) {
  if (n.shape(0) != nullptr) n.set(*n.shape(0), n.type(0));
  each_value(n);
}

void dropout(Inference& n) {
  same(n);
  if (n.shape(0) != nullptr) n.set(*n.shape(0), ElementType::boolean, 1);
}

/// The type is that of the attribute or, without it, of the last input.
void cast(Inference& n) {
  const std::int64_t to = n.node.integer("to", n.node.integer("dtype", 0));
  const auto type = to > 0 && to < 32 ? static_cast<ElementType>(to) : n.type(n.in.size() - 1);
  if (n.shape(0) != nullptr) n.set(*n.shape(0), type);
  each_value(n);
}

void elementwise(Inference& n) {
  std::optional<Shape> all;
  for (std::size_t i = 0; i < n.in.size(); ++i) {
    if (n.shape(i) == nullptr) return;
    all = all ? broadcast(*all, *n.shape(i)) : *n.shape(i);
    if (!all) return;
  }
  if (all) n.set(*all, n.type(0));
  if (n.in.size() == 2) each_pair(n);
}

void comparison(Inference& n) {
  elementwise(n);
  if (!n.out.empty()) n.out[0].type = ElementType::boolean;
}

void where(Inference& n) {
  elementwise(n);
  if (n.out.empty() || !n.out[0].shape || n.in.size() != 3) return;
  n.out[0].type = n.type(1);
  choose(n);
}

void normalization(Inference& n) {
  same(n);
  // Further outputs are statistics: per channel (BatchNormalization in training), else one number
  // per normalised group. The last output of SkipLayerNormalization is the sum of its inputs.
  const bool batch = n.node.op_type == "BatchNormalization";
  for (std::size_t i = 1; i < n.out.size(); ++i) {
    if (batch && n.shape(1) != nullptr) n.set(*n.shape(1), n.type(1), i);
    if (batch || n.shape(0) == nullptr) continue;
    Shape y = *n.shape(0);
    const auto axis = axis_of(n.node.integer("axis", -1), y.size());
    if (!axis) continue;
    if (i < 3) std::fill(y.begin() + static_cast<std::ptrdiff_t>(*axis), y.end(), 1);
    n.set(y, i < 3 ? ElementType::float32 : n.type(0), i);
  }
}

void quantize(Inference& n) {
  const std::int64_t to = n.node.integer("output_dtype", 0);
  const ElementType type = n.type(2) != ElementType::unknown ? n.type(2)
                           : to > 0 && to < 32               ? static_cast<ElementType>(to)
                                                             : ElementType::uint8;
  if (n.shape(0) != nullptr) n.set(*n.shape(0), type);
}

void dequantize(Inference& n) {
  if (n.shape(0) != nullptr) n.set(*n.shape(0), n.type(1));
}

/// Outputs: the quantized values, their scale and the zero point.
void dynamic_quantize(Inference& n) {
  if (n.shape(0) != nullptr) n.set(*n.shape(0), ElementType::uint8);
  n.set({}, ElementType::float32, 1);
  n.set({}, ElementType::uint8, 2);
}
namespace {

/// Integer matmuls accumulate in 32 bits.
ElementType type_of_product(const Inference& n) {
  return n.node.op_type.ends_with("Integer") ? ElementType::int32 : n.type(0);
}

/// Number of window positions along a dimension. With `ceil`, a window that would begin in the
/// padding at the end does not count.
std::int64_t windows(std::int64_t dim, std::int64_t kernel, std::int64_t stride,
                     std::int64_t dilation, std::int64_t before, std::int64_t after, bool ceil) {
  if (stride < 1 || kernel < 1 || dilation < 1 || kernel > most_dim / dilation) return -1;
  const std::int64_t span = dim + before + after - ((kernel - 1) * dilation + 1);
  if (span < 0) return -1;
  const std::int64_t last = ceil ? (span + stride - 1) / stride : span / stride;
  return last + (ceil && last * stride >= dim + before ? 0 : 1);
}

/// Sets the output shape [batch, channels, spatial...] of a convolution or pool.
void window(Inference& n, const Integers& kernel, std::int64_t channels) {
  const Shape& x = *n.shape(0);
  const std::size_t rank = x.size() - 2;
  if (kernel.size() != rank) return;
  const auto strides = n.node.integers("strides"), dilations = n.node.integers("dilations"),
             pads = n.node.integers("pads");
  const bool same_size = n.node.text("auto_pad").starts_with("SAME");
  Shape y{x[0], channels};
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t stride = at_or(strides, i, 1);
    if (same_size && stride > 0)
      y.push_back((x[i + 2] + stride - 1) / stride);
    else
      y.push_back(windows(x[i + 2], kernel[i], stride, at_or(dilations, i, 1), at_or(pads, i, 0),
                          at_or(pads, rank + i, 0), n.node.integer("ceil_mode", 0) != 0));
  }
  n.set(y, type_of_product(n));
  if (n.node.op_type == "MaxPool") n.set(y, ElementType::int64, 1);
}

}  // namespace

void conv(Inference& n) {
  const std::size_t weight = n.node.op_type == "QLinearConv" ? 3 : 1;
  if (n.shape(0) == nullptr || n.shape(weight) == nullptr) return;
  const Shape& w = *n.shape(weight);
  if (n.shape(0)->size() < 3 || w.size() != n.shape(0)->size()) return;
  window(n, Integers(w.begin() + 2, w.end()), w[0]);
}

void conv_transpose(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr) return;
  const Shape &x = *n.shape(0), &w = *n.shape(1);
  if (x.size() < 3 || w.size() != x.size()) return;
  const auto strides = n.node.integers("strides"), dilations = n.node.integers("dilations"),
             pads = n.node.integers("pads"), more = n.node.integers("output_padding"),
             stated = n.node.integers("output_shape");
  const bool times_stride = n.node.text("auto_pad").starts_with("SAME");
  const std::int64_t group = n.node.integer("group", 1);
  if (group < 1 || group > most_dim || w[1] > most_dim / group) return;
  Shape y{x[0], w[1] * group};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    const std::int64_t stride = at_or(strides, i, 1), dilation = at_or(dilations, i, 1);
    if (stated && stated->size() + 2 >= x.size()) {
      y.push_back(at_or(stated, stated->size() + 2 - x.size() + i, -1));
      continue;
    }
    if (product(Shape{stride, x[i + 2]}) < 0 || product(Shape{dilation, w[i + 2]}) < 0) return;
    if (times_stride) {
      y.push_back(x[i + 2] * stride);
      continue;
    }
    y.push_back((x[i + 2] - 1) * stride + at_or(more, i, 0) + (w[i + 2] - 1) * dilation + 1 -
                at_or(pads, i, 0) - at_or(pads, x.size() - 2 + i, 0));
  }
  n.set(y, n.type(0));
}

void pool(Inference& n) {
  const auto kernel = n.node.integers("kernel_shape");
  if (n.shape(0) != nullptr && n.shape(0)->size() > 2 && kernel)
    window(n, *kernel, (*n.shape(0))[1]);
}

void global_pool(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(0)->size() < 2) return;
  Shape y = *n.shape(0);
  std::fill(y.begin() + 2, y.end(), 1);
  n.set(y, n.type(0));
}

/// A grid of points [batch, sides..., coordinates] in [batch, channels, sides...].
void grid_sample(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr) return;
  Shape y = *n.shape(1);
  if (y.size() < 3 || n.shape(0)->size() != y.size()) return;
  y.pop_back();
  y.insert(y.begin() + 1, (*n.shape(0))[1]);
  n.set(y, n.type(0));
}

/// Regions [number, 4 or 5] of [batch, channels, height, width].
void regions(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr) return;
  if (n.shape(0)->size() != 4 || n.shape(1)->empty()) return;
  const auto sides = n.node.integers("pooled_shape");
  n.set({n.shape(1)->front(), (*n.shape(0))[1], at_or(sides, 0, n.node.integer("output_height", 1)),
         at_or(sides, 1, n.node.integer("output_width", 1))},
        n.type(0));
}

void matmul(Inference& n) {
  if (n.node.op_type == "MatMulNBits" && n.shape(0) != nullptr && !n.shape(0)->empty()) {
    Shape y = *n.shape(0);
    y.back() = n.node.integer("N", -1);
    return n.set(y, n.type(0));
  }
  const std::size_t second = n.node.op_type == "QLinearMatMul" ? 3 : 1;
  if (n.shape(0) == nullptr || n.shape(second) == nullptr) return;
  Shape a = *n.shape(0), b = *n.shape(second);
  if (a.empty() || b.empty()) return;
  if (n.node.op_type == "FusedMatMul") {
    if (n.node.integer("transBatchA", 0) != 0 || n.node.integer("transBatchB", 0) != 0) return;
    if (n.node.integer("transA", 0) != 0 && a.size() > 1) std::swap(a.back(), a[a.size() - 2]);
    if (n.node.integer("transB", 0) != 0 && b.size() > 1) std::swap(b.back(), b[b.size() - 2]);
  }
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return;
  auto y = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!y) return;
  if (!row) y->push_back(a[a.size() - 2]);
  if (!column) y->push_back(b.back());
  n.set(*y, type_of_product(n));
}

void gemm(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr) return;
  const Shape &a = *n.shape(0), &b = *n.shape(1);
  if (a.size() != 2 || b.size() != 2) return;
  n.set({n.node.integer("transA", 0) != 0 ? a[1] : a[0],
         n.node.integer("transB", 0) != 0 ? b[0] : b[1]},
        n.type(0));
}

/// The dimensions of the equation's right dim or, if it has none, the letters that occur once, in
/// alphabetical order.
void einsum(Inference& n) {
  const auto dims = einsum_dims(n.node, n.in);
  if (!dims) return;
  Shape y;
  for (const char letter : dims->written) y.push_back(dims->length.at(letter));
  n.set(y, n.type(0));
}

/// Outputs [steps, directions, batch, hidden] and the last states; with layout 1 [batch, steps,
/// directions, hidden].
void recurrent(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(2) == nullptr) return;
  const Shape &x = *n.shape(0), &r = *n.shape(2);  // [steps, batch, input], [directions, _, hidden]
  if (x.size() != 3 || r.size() != 3) return;
  const bool batch_first = n.node.integer("layout", 0) != 0;
  n.set(batch_first ? Shape{x[0], x[1], r[0], r[2]} : Shape{x[0], r[0], x[1], r[2]}, n.type(0));
  for (const std::size_t state : {1U, 2U})
    n.set(batch_first ? Shape{x[0], r[0], r[2]} : Shape{r[0], x[1], r[2]}, n.type(0), state);
}

void reduce(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const bool arg = n.node.op_type.starts_with("Arg");
  std::optional<Integers> axes = n.list("axes", 1);
  if (arg) axes = Integers{n.node.integer("axis", 0)};
  if (!arg && !axes && n.in.size() > 1 && !n.node.inputs[1].empty()) return;  // unknown axes
  const bool keep = n.node.integer("keepdims", 1) != 0;
  const bool all = n.node.integer("noop_with_empty_axes", 0) == 0;
  std::vector<bool> removed(x.size(), !axes || axes->empty() ? all : false);
  for (const std::int64_t a : axes.value_or(Integers{}))
    if (const auto axis = axis_of(a, x.size())) removed[*axis] = true;
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!removed[i] || keep) y.push_back(removed[i] ? 1 : x[i]);
  n.set(y, arg ? ElementType::int64 : n.type(0));
}

/// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss.
void loss(Inference& n) {
  const bool none = n.node.text("reduction") == "none";
  if (!none) n.set({}, n.type(0));
  if (none && n.shape(1) != nullptr) n.set(*n.shape(1), n.type(0));
  if (n.shape(0) != nullptr) n.set(*n.shape(0), n.type(0), 1);
}

}  // namespace rules
}  // namespace baechi::onnx
