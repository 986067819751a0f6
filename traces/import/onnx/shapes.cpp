#include "traces/import/onnx/shapes.h"

#include <algorithm>
#include <span>
#include <string_view>

namespace baechi::onnx {
namespace {

constexpr std::int64_t most_side = std::int64_t{1} << 40;
constexpr std::size_t most_values = 256;
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
  void set(Shape shape, ElementType type, std::size_t output = 0) {
    if (output >= out.size()) return;
    for (const std::int64_t n : shape)
      if (n < 0 || n > most_side) return;
    out[output] = {type, std::move(shape), std::nullopt};
  }
  void set_values(Values values, ElementType type) {
    if (values.size() <= most_values && !out.empty()) out[0].values = std::move(values);
    if (!out.empty()) out[0].type = type;
  }
};

/// `axis` of `rank` sides, counted from the end if it is negative; nothing if there is none.
std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

std::int64_t at_or(const std::optional<Values>& list, std::size_t i, std::int64_t fallback) {
  return list && i < list->size() ? std::clamp((*list)[i], -most_side, most_side) : fallback;
}

std::int64_t product(std::span<const std::int64_t> sides) {
  std::int64_t n = 1;
  for (const std::int64_t side : sides) {
    if (side < 0 || (side > 0 && n > most_side / side)) return -1;
    n *= side;
  }
  return n;
}

/// NumPy's broadcasting; nothing if the shapes do not fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape both = longer;
  const std::size_t skip = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    std::int64_t& side = both[skip + i];
    if (side == 1)
      side = shorter[i];
    else if (shorter[i] != 1 && shorter[i] != side)
      return std::nullopt;
  }
  return both;
}

void same(Inference& n) {
  if (n.shape(0) != nullptr) n.set(*n.shape(0), n.type(0));
  if (n.values(0) != nullptr) n.set_values(*n.values(0), n.type(0));
}

void dropout(Inference& n) {
  same(n);
  if (n.shape(0) != nullptr) n.set(*n.shape(0), ElementType::boolean, 1);
}

void cast(Inference& n) {
  const std::int64_t to = n.node.integer("to", 0);
  const auto type = to > 0 && to < 32 ? static_cast<ElementType>(to) : ElementType::unknown;
  if (n.shape(0) != nullptr) n.set(*n.shape(0), type);
  if (n.values(0) != nullptr && type == ElementType::int64) n.set_values(*n.values(0), type);
}

/// The result of an operator on two small lists of integers; one of them may be a single number.
void combine(Inference& n) {
  const Values *a = n.values(0), *b = n.values(1);
  if (a == nullptr || b == nullptr || a->empty() || b->empty()) return;
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return;
  Values result(std::max(a->size(), b->size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = std::clamp((*a)[a->size() == 1 ? 0 : i], -most_side, most_side);
    const std::int64_t y = std::clamp((*b)[b->size() == 1 ? 0 : i], -most_side, most_side);
    const std::string_view op = n.node.op_type;
    if (op == "Add") {
      result[i] = x + y;
    } else if (op == "Sub") {
      result[i] = x - y;
    } else if (op == "Mul" && std::max(std::abs(x), std::abs(y)) < (std::int64_t{1} << 31)) {
      result[i] = x * y;
    } else if (op == "Div" && y != 0) {
      result[i] = x / y;
    } else {
      return;
    }
  }
  n.set_values(std::move(result), n.type(0));
}

void elementwise(Inference& n) {
  std::optional<Shape> all;
  for (std::size_t i = 0; i < n.in.size(); ++i) {
    if (n.shape(i) == nullptr) return;
    all = all ? broadcast(*all, *n.shape(i)) : *n.shape(i);
    if (!all) return;
  }
  if (all) n.set(*all, n.type(0));
  if (n.in.size() == 2) combine(n);
}

void comparison(Inference& n) {
  elementwise(n);
  if (!n.out.empty() && n.out[0].shape)
    n.out[0] = {ElementType::boolean, n.out[0].shape, std::nullopt};
}

void where(Inference& n) {
  elementwise(n);
  if (!n.out.empty()) n.out[0].type = n.type(1);
}

void normalization(Inference& n) {
  same(n);
  // Statistics: of the channels, as the last inputs are (BatchNormalization in training).
  for (std::size_t i = 1; i < n.out.size(); ++i)
    if (n.shape(1) != nullptr) n.set(*n.shape(1), n.type(1), i);
}

/// Length of a side after a window of `kernel` moved over it.
std::int64_t windows(std::int64_t side, std::int64_t kernel, std::int64_t stride,
                     std::int64_t dilation, std::int64_t pads, bool ceil) {
  if (stride < 1 || kernel < 1 || dilation < 1 || kernel > most_side / dilation) return -1;
  const std::int64_t room = side + pads - ((kernel - 1) * dilation + 1);
  if (room < 0) return -1;
  return (ceil ? (room + stride - 1) / stride : room / stride) + 1;
}

/// The sides after the first two of a convolution's or a pool's result.
void window(Inference& n, const Values& kernel, std::int64_t channels) {
  const Shape& x = *n.shape(0);
  const std::size_t rank = x.size() - 2;
  if (kernel.size() != rank) return;
  const auto strides = n.node.integers("strides"), dilations = n.node.integers("dilations"),
             pads = n.node.integers("pads");
  const auto padding = n.node.attributes.find("auto_pad");
  const bool same_size =
      padding != n.node.attributes.end() && padding->second.s.starts_with("SAME");
  Shape y{x[0], channels};
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t stride = at_or(strides, i, 1);
    if (same_size && stride > 0)
      y.push_back((x[i + 2] + stride - 1) / stride);
    else
      y.push_back(windows(x[i + 2], kernel[i], stride, at_or(dilations, i, 1),
                          at_or(pads, i, 0) + at_or(pads, rank + i, 0),
                          n.node.integer("ceil_mode", 0) != 0));
  }
  n.set(y, n.type(0));
  if (n.out.size() > 1 && n.node.op_type == "MaxPool") n.set(y, ElementType::int64, 1);
}

void conv(Inference& n) {
  const std::size_t weight = n.node.op_type == "QLinearConv" ? 3 : 1;
  if (n.shape(0) == nullptr || n.shape(weight) == nullptr) return;
  const Shape& w = *n.shape(weight);
  if (n.shape(0)->size() < 3 || w.size() != n.shape(0)->size()) return;
  window(n, Values(w.begin() + 2, w.end()), w[0]);
}

void conv_transpose(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr) return;
  const Shape &x = *n.shape(0), &w = *n.shape(1);
  if (x.size() < 3 || w.size() != x.size()) return;
  const auto strides = n.node.integers("strides"), dilations = n.node.integers("dilations"),
             pads = n.node.integers("pads"), more = n.node.integers("output_padding");
  const std::int64_t group = n.node.integer("group", 1);
  if (group < 1 || group > most_side || w[1] > most_side / group) return;
  Shape y{x[0], w[1] * group};
  for (std::size_t i = 0; i + 2 < x.size(); ++i) {
    const std::int64_t stride = at_or(strides, i, 1), dilation = at_or(dilations, i, 1);
    if (product(Values{stride, x[i + 2]}) < 0 || product(Values{dilation, w[i + 2]}) < 0) return;
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
  Shape y(n.shape(0)->size(), 1);
  y[0] = (*n.shape(0))[0];
  y[1] = (*n.shape(0))[1];
  n.set(y, n.type(0));
}

void matmul(Inference& n) {
  const std::size_t second = n.node.op_type == "QLinearMatMul" ? 3 : 1;
  if (n.shape(0) == nullptr || n.shape(second) == nullptr) return;
  Shape a = *n.shape(0), b = *n.shape(second);
  if (a.empty() || b.empty()) return;
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) return;
  auto y = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!y) return;
  if (!row) y->push_back(a[a.size() - 2]);
  if (!column) y->push_back(b.back());
  n.set(*y, n.type(0));
}

void gemm(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr) return;
  const Shape &a = *n.shape(0), &b = *n.shape(1);
  if (a.size() != 2 || b.size() != 2) return;
  n.set({n.node.integer("transA", 0) != 0 ? a[1] : a[0],
         n.node.integer("transB", 0) != 0 ? b[0] : b[1]},
        n.type(0));
}

/// LSTM, GRU, RNN: [steps, directions, batch, hidden], and the last states.
void recurrent(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(2) == nullptr) return;
  const Shape &x = *n.shape(0), &r = *n.shape(2);  // [steps, batch, input], [directions, _, hidden]
  if (x.size() != 3 || r.size() != 3) return;
  n.set({x[0], r[0], x[1], r[2]}, n.type(0));
  n.set({r[0], x[1], r[2]}, n.type(0), 1);
  n.set({r[0], x[1], r[2]}, n.type(0), 2);
}

void reshape(Inference& n) {
  const auto to = n.list("shape", 1);
  if (!to || n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  Shape y = *to;
  std::optional<std::size_t> free;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0 && n.node.integer("allowzero", 0) == 0 && i < x.size()) y[i] = x[i];
    if (y[i] == -1) {
      if (free) return;
      free = i;
      y[i] = 1;
    }
  }
  const std::int64_t all = product(x), rest = product(y);
  if (all < 0 || rest < 0) return;
  if (free) {
    if (rest == 0 || all % rest != 0) return;
    y[*free] = all / rest;
  } else if (rest != all) {
    return;
  }
  n.set(y, n.type(0));
  if (n.values(0) != nullptr) n.set_values(*n.values(0), n.type(0));
}

void flatten(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const std::int64_t axis = n.node.integer("axis", 1);
  const auto rank = static_cast<std::int64_t>(x.size());
  if (axis < -rank || axis > rank) return;
  const auto cut = x.begin() + (axis < 0 ? axis + rank : axis);
  n.set({product({x.begin(), cut}), product({cut, x.end()})}, n.type(0));
}

void transpose(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const auto order = n.node.integers("perm");
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t from = at_or(order, i, static_cast<std::int64_t>(x.size() - 1 - i));
    if (from < 0 || from >= static_cast<std::int64_t>(x.size())) return;
    y.push_back(x[static_cast<std::size_t>(from)]);
  }
  n.set(y, n.type(0));
}

void squeeze(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const auto axes = n.list("axes", 1);
  std::vector<bool> gone(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) gone[i] = !axes && x[i] == 1;
  for (const std::int64_t a : axes.value_or(Values{}))
    if (const auto axis = axis_of(a, x.size())) gone[*axis] = true;
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!gone[i]) y.push_back(x[i]);
  n.set(y, n.type(0));
  if (n.values(0) != nullptr) n.set_values(*n.values(0), n.type(0));
}

void unsqueeze(Inference& n) {
  const auto axes = n.list("axes", 1);
  if (n.shape(0) == nullptr || !axes || axes->size() > 64) return;
  const Shape& x = *n.shape(0);
  std::vector<bool> added(x.size() + axes->size());
  for (const std::int64_t a : *axes)
    if (const auto axis = axis_of(a, added.size())) added[*axis] = true;
  Shape y;
  auto next = x.begin();
  for (const bool is_new : added) {
    if (!is_new && next == x.end()) return;
    y.push_back(is_new ? 1 : *next++);
  }
  if (next != x.end()) return;
  n.set(y, n.type(0));
  if (n.values(0) != nullptr) n.set_values(*n.values(0), n.type(0));
}

void concat(Inference& n) {
  if (n.in.empty() || n.shape(0) == nullptr) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", 1), y.size());
  if (!axis) return;
  bool known = n.values(0) != nullptr;
  Values values = known ? *n.values(0) : Values{};
  for (std::size_t i = 1; i < n.in.size(); ++i) {
    if (n.shape(i) == nullptr || n.shape(i)->size() != y.size()) return;
    y[*axis] += (*n.shape(i))[*axis];
    if (y[*axis] > most_side) return;
    known = known && n.values(i) != nullptr;
    if (known) values.insert(values.end(), n.values(i)->begin(), n.values(i)->end());
  }
  n.set(y, n.type(0));
  if (known) n.set_values(std::move(values), n.type(0));
}

void split(Inference& n) {
  if (n.shape(0) == nullptr || n.out.empty()) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", 0), y.size());
  if (!axis) return;
  const auto parts = n.list("split", 1);
  const auto count = static_cast<std::int64_t>(n.out.size());
  const std::int64_t whole = y[*axis], part = (whole + count - 1) / count;
  for (std::size_t i = 0; i < n.out.size(); ++i) {
    const std::int64_t before = part * static_cast<std::int64_t>(i);
    y[*axis] = at_or(parts, i, std::clamp<std::int64_t>(whole - before, 0, part));
    n.set(y, n.type(0), i);
  }
}

/// The elements of [0, side) that first, end and step of Slice take.
std::int64_t sliced(std::int64_t& first, std::int64_t end, std::int64_t step, std::int64_t side) {
  const auto place = [side](std::int64_t i, std::int64_t least, std::int64_t most) {
    return std::clamp(i < 0 ? i + side : i, least, most);
  };
  if (side <= 0) return first = 0;
  first = std::clamp(first, -most_side, most_side);
  end = std::clamp(end, -most_side, most_side);
  step = std::clamp(step, -most_side, most_side);
  if (step > 0) {
    first = place(first, 0, side);
    return std::max<std::int64_t>(0, (place(end, 0, side) - first + step - 1) / step);
  }
  first = place(first, 0, side - 1);
  return std::max<std::int64_t>(0, (first - place(end, -1, side - 1) - step - 1) / -step);
}

void slice(Inference& n) {
  if (n.shape(0) == nullptr) return;
  Shape y = *n.shape(0);
  const auto starts = n.list("starts", 1), ends = n.list("ends", 2);
  const auto axes = n.list("axes", 3), steps = n.list("steps", 4);
  if (!starts || !ends || starts->size() != ends->size()) return;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto axis = axis_of(at_or(axes, i, static_cast<std::int64_t>(i)), y.size());
    const std::int64_t step = at_or(steps, i, 1);
    if (!axis || step == 0) return;
    std::int64_t first = (*starts)[i];
    const std::int64_t count = sliced(first, (*ends)[i], step, y[*axis]);
    y[*axis] = count;
    if (y.size() != 1 || n.values(0) == nullptr) continue;
    Values values;
    for (std::int64_t k = 0; k < count; ++k)
      if (const std::int64_t at = first + k * step;
          at >= 0 && at < static_cast<std::int64_t>(n.values(0)->size()))
        values.push_back((*n.values(0))[static_cast<std::size_t>(at)]);
    if (static_cast<std::int64_t>(values.size()) == count)
      n.set_values(std::move(values), n.type(0));
  }
  const auto values = n.out.empty() ? std::nullopt : n.out[0].values;
  n.set(y, n.type(0));
  if (values && !n.out.empty()) n.out[0].values = values;
}

void gather(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr) return;
  const Shape &x = *n.shape(0), &indices = *n.shape(1);
  const auto axis = axis_of(n.node.integer("axis", 0), x.size());
  if (!axis) return;
  const auto cut = static_cast<std::ptrdiff_t>(*axis);
  Shape y(x.begin(), x.begin() + cut);
  y.insert(y.end(), indices.begin(), indices.end());
  y.insert(y.end(), x.begin() + cut + 1, x.end());
  n.set(y, n.type(0));
  if (n.values(0) == nullptr || n.values(1) == nullptr || x.size() != 1) return;
  Values values;
  for (const std::int64_t i : *n.values(1)) {
    const auto at = axis_of(i, n.values(0)->size());
    if (!at) return;
    values.push_back((*n.values(0))[*at]);
  }
  n.set_values(std::move(values), n.type(0));
}

void gather_elements(Inference& n) {
  if (n.shape(1) != nullptr) n.set(*n.shape(1), n.type(0));
}

void gather_nd(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr || n.shape(1)->empty()) return;
  const Shape &x = *n.shape(0), &i = *n.shape(1);
  const std::int64_t batch = n.node.integer("batch_dims", 0);
  if (batch < 0 || batch > 64 || i.back() < 0 ||
      i.back() + batch > static_cast<std::int64_t>(x.size()))
    return;
  Shape y(i.begin(), i.end() - 1);
  y.insert(y.end(), x.begin() + static_cast<std::ptrdiff_t>(i.back() + batch), x.end());
  n.set(y, n.type(0));
}

void expand(Inference& n) {
  if (n.shape(0) == nullptr || n.values(1) == nullptr) return;
  if (const auto y = broadcast(*n.shape(0), *n.values(1))) n.set(*y, n.type(0));
}

void tile(Inference& n) {
  if (n.shape(0) == nullptr || n.values(1) == nullptr) return;
  Shape y = *n.shape(0);
  if (n.values(1)->size() != y.size()) return;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = product(Values{y[i], (*n.values(1))[i]});
  n.set(y, n.type(0));
}

void pad(Inference& n) {
  const auto pads = n.list("pads", 1);
  if (n.shape(0) == nullptr || !pads || pads->size() != 2 * n.shape(0)->size()) return;
  Shape y = *n.shape(0);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] += at_or(pads, i, 0) + at_or(pads, i + y.size(), 0);
  n.set(y, n.type(0));
}

void shape_of(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const auto rank = static_cast<std::int64_t>(x.size());
  std::int64_t start = n.node.integer("start", 0);
  const std::int64_t count = sliced(start, n.node.integer("end", rank), 1, rank);
  n.set({count}, ElementType::int64);
  n.set_values(Values(x.begin() + start, x.begin() + start + count), ElementType::int64);
}

void size_of(Inference& n) {
  n.set({}, ElementType::int64);
  if (n.shape(0) != nullptr && product(*n.shape(0)) >= 0)
    n.set_values({product(*n.shape(0))}, ElementType::int64);
}

void constant(Inference& n) {
  if (n.out.empty()) return;
  const auto tensor = n.node.attributes.find("value");
  if (tensor != n.node.attributes.end() && tensor->second.tensor) {
    n.out[0] = *tensor->second.tensor;
  } else if (n.node.attributes.contains("value_int")) {
    n.set({}, ElementType::int64);
    n.set_values({n.node.integer("value_int", 0)}, ElementType::int64);
  } else if (const auto ints = n.node.integers("value_ints")) {
    n.set({static_cast<std::int64_t>(ints->size())}, ElementType::int64);
    n.set_values(*ints, ElementType::int64);
  } else if (n.node.attributes.contains("value_float")) {
    n.set({}, ElementType::float32);
  }
}

void constant_of_shape(Inference& n) {
  if (n.values(0) == nullptr) return;
  const auto value = n.node.attributes.find("value");
  const bool given = value != n.node.attributes.end() && value->second.tensor;
  n.set(*n.values(0), given ? value->second.tensor->type : ElementType::float32);
  if (given && value->second.tensor->values && value->second.tensor->values->size() == 1 &&
      n.values(0)->size() == 1 && n.values(0)->front() <= static_cast<std::int64_t>(most_values) &&
      n.values(0)->front() >= 0)
    n.set_values(Values(static_cast<std::size_t>(n.values(0)->front()),
                        value->second.tensor->values->front()),
                 value->second.tensor->type);
}

void range(Inference& n) {
  for (std::size_t i = 0; i < 3; ++i)
    if (n.values(i) == nullptr || n.values(i)->size() != 1) return;
  std::int64_t first = std::clamp(n.values(0)->front(), -most_side, most_side);
  const std::int64_t end = std::clamp(n.values(1)->front(), -most_side, most_side);
  const std::int64_t step = std::clamp(n.values(2)->front(), -most_side, most_side);
  if (step == 0) return;
  const std::int64_t room = step > 0 ? end - first : first - end, size = std::abs(step);
  const std::int64_t count = std::max<std::int64_t>(0, (room + size - 1) / size);
  n.set({count}, n.type(0));
  if (count > static_cast<std::int64_t>(most_values)) return;
  Values values;
  for (std::int64_t i = 0; i < count; ++i, first += step) values.push_back(first);
  n.set_values(std::move(values), n.type(0));
}

void reduce(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const bool arg = n.node.op_type.starts_with("Arg");
  std::optional<Values> axes = n.list("axes", 1);
  if (arg) axes = Values{n.node.integer("axis", 0)};
  if (!arg && !axes && n.in.size() > 1 && !n.node.inputs[1].empty()) return;  // not known yet
  const bool keep = n.node.integer("keepdims", 1) != 0;
  std::vector<bool> gone(x.size(), !axes || (axes->empty() && !arg));
  for (const std::int64_t a : axes.value_or(Values{}))
    if (const auto axis = axis_of(a, x.size())) gone[*axis] = true;
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!gone[i] || keep) y.push_back(gone[i] ? 1 : x[i]);
  n.set(y, arg ? ElementType::int64 : n.type(0));
}

void top_k(Inference& n) {
  if (n.shape(0) == nullptr || n.values(1) == nullptr || n.values(1)->size() != 1) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", -1), y.size());
  if (!axis) return;
  y[*axis] = n.values(1)->front();
  n.set(y, n.type(0));
  n.set(y, ElementType::int64, 1);
}

void one_hot(Inference& n) {
  if (n.shape(0) == nullptr || n.values(1) == nullptr || n.values(1)->size() != 1) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", -1), y.size() + 1);
  if (!axis) return;
  y.insert(y.begin() + static_cast<std::ptrdiff_t>(*axis), n.values(1)->front());
  n.set(y, n.type(2));
}

void resize(Inference& n) {
  if (n.values(3) != nullptr) n.set(*n.values(3), n.type(0));
}

void blocks(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(0)->size() != 4) return;
  const std::int64_t b = n.node.integer("blocksize", 1);
  if (b < 1 || b > 64) return;
  const Shape& x = *n.shape(0);
  if (n.node.op_type == "DepthToSpace")
    n.set({x[0], x[1] / (b * b), x[2] * b, x[3] * b}, n.type(0));
  else
    n.set({x[0], x[1] * b * b, x[2] / b, x[3] / b}, n.type(0));
}

/// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss.
void loss(Inference& n) {
  const auto how = n.node.attributes.find("reduction");
  const bool none = how != n.node.attributes.end() && how->second.s == "none";
  if (!none) n.set({}, n.type(0));
  if (none && n.shape(1) != nullptr) n.set(*n.shape(1), n.type(0));
  if (n.shape(0) != nullptr) n.set(*n.shape(0), n.type(0), 1);
}

using Rule = void (*)(Inference&);

struct Row {
  Rule rule;
  std::string_view operators;  // separated by spaces
};

constexpr Row rows[] = {
    {same,
     "Relu Sigmoid Tanh Erf Gelu LeakyRelu Elu Selu Celu Exp Log Sqrt Neg Abs Softplus Softsign "
     "HardSigmoid HardSwish Mish ThresholdedRelu Clip Identity Softmax LogSoftmax Hardmax "
     "Reciprocal Floor Ceil Round Sign Not Sin Cos Tan Asin Acos Atan Sinh Cosh PRelu LRN Trilu "
     "CumSum LpNormalization MeanVarianceNormalization InstanceNormalization GroupNormalization "
     "Swish FastGelu QuickGelu BiasGelu ScatterND ScatterElements Scatter RandomNormalLike "
     "RandomUniformLike Bernoulli EyeLike ReverseSequence QuantizeLinear DequantizeLinear"},
    {dropout, "Dropout"},
    {cast, "Cast"},
    {elementwise, "Add Sub Mul Div Pow Min Max Mean Sum Mod And Or Xor BitShift"},
    {comparison, "Equal Greater Less GreaterOrEqual LessOrEqual IsNaN IsInf"},
    {where, "Where"},
    {normalization,
     "BatchNormalization LayerNormalization SimplifiedLayerNormalization RMSNormalization "
     "SkipLayerNormalization"},
    {conv, "Conv ConvInteger QLinearConv"},
    {conv_transpose, "ConvTranspose"},
    {pool, "MaxPool AveragePool LpPool"},
    {global_pool, "GlobalAveragePool GlobalMaxPool GlobalLpPool"},
    {matmul, "MatMul MatMulInteger QLinearMatMul FusedMatMul"},
    {gemm, "Gemm"},
    {recurrent, "LSTM GRU RNN"},
    {reshape, "Reshape"},
    {flatten, "Flatten"},
    {transpose, "Transpose"},
    {squeeze, "Squeeze"},
    {unsqueeze, "Unsqueeze"},
    {concat, "Concat"},
    {split, "Split"},
    {slice, "Slice"},
    {gather, "Gather"},
    {gather_elements, "GatherElements"},
    {gather_nd, "GatherND"},
    {expand, "Expand"},
    {tile, "Tile"},
    {pad, "Pad"},
    {shape_of, "Shape"},
    {size_of, "Size"},
    {constant, "Constant"},
    {constant_of_shape, "ConstantOfShape"},
    {range, "Range"},
    {reduce,
     "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
     "ReduceLogSumExp ReduceSumSquare ArgMax ArgMin"},
    {top_k, "TopK"},
    {one_hot, "OneHot"},
    {resize, "Resize"},
    {blocks, "DepthToSpace SpaceToDepth"},
    {loss, "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss"},
};

Rule rule_of(std::string_view op) {
  for (const Row& row : rows)
    for (std::string_view rest = row.operators; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (rest.substr(0, end) == op) return row.rule;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  return nullptr;
}

}  // namespace

bool is_known(const Node& node) {
  return rule_of(node.op_type) != nullptr;
}

std::vector<TensorInfo> infer(const Node& node, const std::vector<const TensorInfo*>& inputs,
                              std::int64_t opset) {
  Inference inference{node, inputs, opset, std::vector<TensorInfo>(node.outputs.size())};
  if (const Rule rule = rule_of(node.op_type)) rule(inference);
  return std::move(inference.out);
}

}  // namespace baechi::onnx
