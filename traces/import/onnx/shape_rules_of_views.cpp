#include <algorithm>
#include <cmath>

#include "traces/import/onnx/shape_rules.h"

namespace baechi::onnx {
namespace rules {

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
  if (n.hidden("axes", 1)) return;
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
  if (n.hidden("split", 1)) return;
  const auto parts = n.list("split", 1);
  const auto count = static_cast<std::int64_t>(n.out.size());
  const std::int64_t whole = y[*axis], part = (whole + count - 1) / count;
  for (std::size_t i = 0; i < n.out.size(); ++i) {
    const std::int64_t before = part * static_cast<std::int64_t>(i);
    y[*axis] = at_or(parts, i, std::clamp<std::int64_t>(whole - before, 0, part));
    n.set(y, n.type(0), i);
  }
}
namespace {

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

}  // namespace

void slice(Inference& n) {
  if (n.shape(0) == nullptr) return;
  Shape y = *n.shape(0);
  const auto starts = n.list("starts", 1), ends = n.list("ends", 2);
  const auto axes = n.list("axes", 3), steps = n.list("steps", 4);
  if (!starts || !ends || starts->size() != ends->size()) return;
  if (n.hidden("axes", 3) || n.hidden("steps", 4)) return;
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

void resize(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  // The lengths of all sides, or of those in `axes`, or what they are multiplied by. Opset 10
  // and Upsample have no region in front of the scales.
  const auto axes = n.node.integers("axes");
  const bool early = n.node.op_type == "Upsample" || n.opset < 11;
  const TensorInfo* scales = n.input(early ? 1 : 2);
  const std::size_t count = axes ? axes->size() : x.size();
  Shape y = x;
  for (std::size_t i = 0; i < count; ++i) {
    const auto axis = axis_of(axes ? (*axes)[i] : static_cast<std::int64_t>(i), x.size());
    if (!axis) return;
    if (n.values(3) != nullptr && n.values(3)->size() == count) {
      y[*axis] = (*n.values(3))[i];
    } else if (scales != nullptr && scales->floats && scales->floats->size() == count) {
      const double side = std::floor(static_cast<double>(x[*axis]) * (*scales->floats)[i]);
      if (!(side >= 0 && side <= static_cast<double>(most_side))) return;
      y[*axis] = static_cast<std::int64_t>(side);
    } else {
      return;
    }
  }
  n.set(y, n.type(0));
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

}  // namespace rules
}  // namespace baechi::onnx
