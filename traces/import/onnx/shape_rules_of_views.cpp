#include <cmath>

#include "traces/import/onnx/model.h"

namespace baechi::onnx {
namespace {

/// Copies the elements of the input to the output.
void keep(Inference& n) {
  if (n.values(0) != nullptr) n.set_values(*n.values(0));
}

}  // namespace

std::int64_t sliced(std::int64_t& first, std::int64_t end, std::int64_t step, std::int64_t dim) {
  const auto place = [dim](std::int64_t i, std::int64_t least, std::int64_t most) {
    return std::clamp(i < 0 ? i + dim : i, least, most);
  };
  if (dim <= 0) return first = 0;
  first = std::clamp(first, -most_dim, most_dim);
  end = std::clamp(end, -most_dim, most_dim);
  step = std::clamp(step, -most_dim, most_dim);
  if (step > 0) {
    first = place(first, 0, dim);
    return std::max<std::int64_t>(0, (place(end, 0, dim) - first + step - 1) / step);
  }
  first = place(first, 0, dim - 1);
  return std::max<std::int64_t>(0, (first - place(end, -1, dim - 1) - step - 1) / -step);
}

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
  if (all < 0) return;
  if (free) {
    if (rest == 0 || all % rest != 0) return;
    y[*free] = all / rest;
  } else if (rest != all) {
    return;
  }
  n.set(y, n.type(0));
  keep(n);
}

void flatten(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const std::int64_t axis = n.node.integer("axis", 1);
  const auto rank = static_cast<std::int64_t>(x.size());
  if (axis < -rank || axis > rank) return;
  const auto cut = x.begin() + (axis < 0 ? axis + rank : axis);
  n.set({product({x.begin(), cut}), product({cut, x.end()})}, n.type(0));
  keep(n);
}

void transpose(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const auto order = n.node.integers("perm");
  Shape y;
  std::vector<std::size_t> side_of;  // [y]
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::int64_t from = at_or(order, i, static_cast<std::int64_t>(x.size() - 1 - i));
    if (from < 0 || from >= static_cast<std::int64_t>(x.size())) return;
    side_of.push_back(static_cast<std::size_t>(from));
    y.push_back(x[side_of.back()]);
  }
  n.set(y, n.type(0));
  n.take(0, [&](const Shape& place) {
    Shape source(place.size());
    for (std::size_t i = 0; i < place.size(); ++i) source[side_of[i]] = place[i];
    return source;
  });
}

void squeeze(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  if (n.hidden("axes", 1)) return;
  const auto axes = n.list("axes", 1);
  std::vector<bool> removed(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) removed[i] = !axes && x[i] == 1;
  for (const std::int64_t a : axes.value_or(Integers{}))
    if (const auto axis = axis_of(a, x.size())) removed[*axis] = true;
  Shape y;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!removed[i]) y.push_back(x[i]);
  n.set(y, n.type(0));
  keep(n);
}

void unsqueeze(Inference& n) {
  const auto axes = n.list("axes", 1);
  if (n.shape(0) == nullptr || !axes) return;
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
  keep(n);
}

namespace {

/// Sets the elements of Concat: for each row, the row of each input.
void join(Inference& n, std::size_t axis) {
  std::size_t rows = 1, count = 0;
  for (std::size_t i = 0; i < n.in.size(); ++i) {
    if (n.values(i) == nullptr) return;
    count += n.values(i)->size();
  }
  if (count > most_values) return;
  for (std::size_t i = 0; i < axis; ++i) rows *= static_cast<std::size_t>((*n.shape(0))[i]);
  Values joined;
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < n.in.size(); ++i) {
      const std::size_t length = n.values(i)->size() / rows;
      const auto begin = n.values(i)->begin() + static_cast<std::ptrdiff_t>(row * length);
      joined.insert(joined.end(), begin, begin + static_cast<std::ptrdiff_t>(length));
    }
  n.set_values(std::move(joined));
}

}  // namespace

void concat(Inference& n) {
  if (n.in.empty() || n.shape(0) == nullptr) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", 1), y.size());
  if (!axis) return;
  for (std::size_t i = 1; i < n.in.size(); ++i) {
    if (n.shape(i) == nullptr || n.shape(i)->size() != y.size()) return;
    y[*axis] += (*n.shape(i))[*axis];
    if (y[*axis] > most_dim) return;
  }
  n.set(y, n.type(0));
  join(n, *axis);
}

void split(Inference& n) {
  if (n.shape(0) == nullptr || n.out.empty()) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", 0), y.size());
  if (!axis) return;
  if (n.hidden("split", 1)) return;
  const auto parts = n.list("split", 1);
  const auto count = static_cast<std::int64_t>(n.out.size());
  const std::int64_t length = y[*axis], part = (length + count - 1) / count;
  for (std::size_t i = 0; i < n.out.size(); ++i) {
    const std::int64_t before = part * static_cast<std::int64_t>(i);
    y[*axis] = at_or(parts, i, std::clamp<std::int64_t>(length - before, 0, part));
    n.set(y, n.type(0), i);
  }
}
void slice(Inference& n) {
  if (n.shape(0) == nullptr) return;
  Shape y = *n.shape(0);
  const auto starts = n.list("starts", 1), ends = n.list("ends", 2);
  const auto axes = n.list("axes", 3), steps = n.list("steps", 4);
  if (!starts || !ends || starts->size() != ends->size()) return;
  if (n.hidden("axes", 3) || n.hidden("steps", 4)) return;
  Shape first(y.size()), step(y.size(), 1);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto axis = axis_of(at_or(axes, i, static_cast<std::int64_t>(i)), y.size());
    if (!axis || at_or(steps, i, 1) == 0) return;
    step[*axis] = at_or(steps, i, 1);
    first[*axis] = (*starts)[i];
    y[*axis] = sliced(first[*axis], (*ends)[i], step[*axis], y[*axis]);
  }
  n.set(y, n.type(0));
  n.take(0, [&](Shape place) {
    for (std::size_t i = 0; i < place.size(); ++i) place[i] = first[i] + place[i] * step[i];
    return place;
  });
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
  if (n.values(1) == nullptr) return;
  for (const double i : *n.values(1))
    if (!axis_of(whole(i), static_cast<std::size_t>(x[*axis]))) return;
  n.take(0, [&](const Shape& place) {
    const auto begin = place.begin() + cut;
    const auto end = begin + static_cast<std::ptrdiff_t>(indices.size());
    const std::int64_t index = whole((*n.values(1))[position(indices, {begin, end})]);
    Shape source(place.begin(), begin);
    source.push_back(index < 0 ? index + x[*axis] : index);
    source.insert(source.end(), end, place.end());
    return source;
  });
}

void gather_elements(Inference& n) {
  if (n.shape(1) != nullptr) n.set(*n.shape(1), n.type(0));
}

void gather_nd(Inference& n) {
  if (n.shape(0) == nullptr || n.shape(1) == nullptr || n.shape(1)->empty()) return;
  const Shape &x = *n.shape(0), &i = *n.shape(1);
  const std::int64_t batch = n.node.integer("batch_dims", 0);
  if (batch < 0 || i.back() > static_cast<std::int64_t>(x.size()) - batch) return;
  Shape y(i.begin(), i.end() - 1);
  y.insert(y.end(), x.begin() + static_cast<std::ptrdiff_t>(i.back() + batch), x.end());
  n.set(y, n.type(0));
}

void expand(Inference& n) {
  const auto dims = n.list("", 1);
  if (n.shape(0) == nullptr || !dims) return;
  const auto y = broadcast(*n.shape(0), *dims);
  if (!y) return;
  n.set(*y, n.type(0));
  n.take(0, [](const Shape& place) { return place; });
}

void tile(Inference& n) {
  const auto times = n.list("", 1);
  if (n.shape(0) == nullptr || !times) return;
  Shape y = *n.shape(0);
  if (times->size() != y.size()) return;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = product(Shape{y[i], (*times)[i]});
  n.set(y, n.type(0));
  n.take(0, [&](Shape place) {
    for (std::size_t i = 0; i < place.size(); ++i) place[i] %= (*n.shape(0))[i];
    return place;
  });
}

void pad(Inference& n) {
  const auto pads = n.list("pads", 1), axes = n.list("", 3);
  if (n.shape(0) == nullptr || !pads || n.hidden("", 3)) return;
  Shape y = *n.shape(0);
  const std::size_t count = axes ? axes->size() : y.size();
  if (pads->size() != 2 * count) return;
  for (std::size_t i = 0; i < count; ++i) {
    const auto axis = axis_of(at_or(axes, i, static_cast<std::int64_t>(i)), y.size());
    if (!axis) return;
    y[*axis] += at_or(pads, i, 0) + at_or(pads, i + count, 0);
  }
  n.set(y, n.type(0));
}

void resize(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  // Sizes or scales are given for all dimensions, or for those in `axes`. Opset 10 and Upsample
  // have no input `roi` before the scales, and Upsample of opset 7 has them as an attribute.
  const auto axes = n.node.integers("axes");
  const bool early = n.node.op_type == "Upsample" || n.opset < 11;
  const Attribute* stated = n.node.attribute("scales");
  const std::size_t count = axes ? axes->size() : x.size();
  const bool by_size = n.values(3) != nullptr && n.values(3)->size() == count;
  const Values* given = by_size             ? n.values(3)
                        : stated != nullptr ? &stated->floats
                                            : n.values(early ? 1 : 2);
  if (given == nullptr || given->size() != count || count == 0) return;
  std::vector<std::size_t> which;
  Values scales;  // [which]
  for (std::size_t i = 0; i < count; ++i) {
    const auto axis = axis_of(at_or(axes, i, static_cast<std::int64_t>(i)), x.size());
    if (!axis) return;
    which.push_back(*axis);
    scales.push_back((*given)[i] / (by_size ? static_cast<double>(x[*axis]) : 1.0));
  }
  const std::string_view policy = by_size ? n.node.text("keep_aspect_ratio_policy") : "";
  if (policy == "not_larger") scales.assign(count, *std::ranges::min_element(scales));
  if (policy == "not_smaller") scales.assign(count, *std::ranges::max_element(scales));
  Shape y = x;
  for (std::size_t i = 0; i < count; ++i) {
    const double dim =
        std::floor(static_cast<double>(x[which[i]]) * scales[i] + (by_size ? 0.5 : 0.0));
    if (!(std::abs(dim) <= static_cast<double>(most_dim))) return;
    y[which[i]] = static_cast<std::int64_t>(dim);
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
  const Values* count = n.values(1);  // before opset 10 an attribute
  if (n.shape(0) == nullptr || (count != nullptr ? count->size() != 1 : n.in.size() > 1)) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", -1), y.size());
  if (!axis) return;
  y[*axis] = count != nullptr ? whole(count->front()) : n.node.integer("k", -1);
  n.set(y, n.type(0));
  n.set(y, ElementType::int64, 1);
}

void one_hot(Inference& n) {
  if (n.shape(0) == nullptr || n.values(1) == nullptr || n.values(1)->size() != 1) return;
  Shape y = *n.shape(0);
  const auto axis = axis_of(n.node.integer("axis", -1), y.size() + 1);
  if (!axis) return;
  y.insert(y.begin() + static_cast<std::ptrdiff_t>(*axis), whole(n.values(1)->front()));
  n.set(y, n.type(2));
}

}  // namespace rules
}  // namespace baechi::onnx
