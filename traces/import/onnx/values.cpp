#include <cmath>

#include "traces/import/onnx/model.h"

namespace baechi::onnx {
namespace {

bool is_integer(ElementType type) {
  return type == ElementType::int64 || type == ElementType::int32;
}

/// `x` converted to `type`.
double as(ElementType type, double x) {
  if (is_integer(type)) return std::trunc(x);
  if (type == ElementType::boolean) return x != 0 ? 1 : 0;
  return type == ElementType::float32 ? static_cast<double>(static_cast<float>(x)) : x;
}

struct Unary {
  std::string_view op;
  double (*apply)(double);
};
constexpr Unary unary[] = {
    {"Identity", [](double x) { return x; }},
    {"Cast", [](double x) { return x; }},
    {"Dropout", [](double x) { return x; }},
    {"Neg", [](double x) { return -x; }},
    {"Abs", [](double x) { return std::abs(x); }},
    {"Floor", [](double x) { return std::floor(x); }},
    {"Ceil", [](double x) { return std::ceil(x); }},
    {"Round", [](double x) { return std::nearbyint(x); }},
    {"Sqrt", [](double x) { return std::sqrt(x); }},
    {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
};

/// ONNX's Mod has the sign of the divisor (with attribute fmod, of the dividend).
double modulo(double x, double y) {
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

struct Binary {
  std::string_view op;
  double (*apply)(double, double);
};
constexpr Binary binary[] = {
    {"Add", [](double x, double y) { return x + y; }},
    {"Sub", [](double x, double y) { return x - y; }},
    {"Mul", [](double x, double y) { return x * y; }},
    {"Div", [](double x, double y) { return x / y; }},
    {"Mod", modulo},
    {"Pow", [](double x, double y) { return std::pow(x, y); }},
    {"Min", [](double x, double y) { return std::min(x, y); }},
    {"Max", [](double x, double y) { return std::max(x, y); }},
    {"And", [](double x, double y) { return x != 0 && y != 0 ? 1.0 : 0.0; }},
    {"Or", [](double x, double y) { return x != 0 || y != 0 ? 1.0 : 0.0; }},
    {"Equal", [](double x, double y) { return x == y ? 1.0 : 0.0; }},
    {"Less", [](double x, double y) { return x < y ? 1.0 : 0.0; }},
    {"LessOrEqual", [](double x, double y) { return x <= y ? 1.0 : 0.0; }},
    {"Greater", [](double x, double y) { return x > y ? 1.0 : 0.0; }},
    {"GreaterOrEqual", [](double x, double y) { return x >= y ? 1.0 : 0.0; }},
};

/// Whether the first output has at most most_values elements.
bool writes_few(const Inference& n) {
  if (n.out.empty()) return false;
  const std::int64_t count = n.out[0].elements().value_or(-1);
  return count >= 0 && count <= static_cast<std::int64_t>(most_values);
}

}  // namespace

void each_value(Inference& n) {
  const auto* const row = std::ranges::find(unary, n.node.op_type, &Unary::op);
  if (row == std::end(unary) || n.values(0) == nullptr || n.out.empty()) return;
  Values results;
  for (const double x : *n.values(0)) {
    results.push_back(as(n.out[0].type, row->apply(x)));
    if (!std::isfinite(results.back())) return;
  }
  n.set_values(std::move(results));
}

void each_pair(Inference& n) {
  const auto* const row = std::ranges::find(binary, n.node.op_type, &Binary::op);
  const Values *a = n.values(0), *b = n.values(1);
  if (row == std::end(binary) || a == nullptr || b == nullptr || !writes_few(n)) return;
  if (n.node.integer("fmod", 0) != 0) return;
  Values results;
  bool finite = true;
  each_place(*n.out[0].shape, [&](const Shape& place) {
    const double x = (*a)[position(*n.shape(0), place)], y = (*b)[position(*n.shape(1), place)];
    results.push_back(as(n.out[0].type, row->apply(x, y)));
    finite = finite && std::isfinite(results.back());
  });
  if (finite) n.set_values(std::move(results));
}

void choose(Inference& n) {
  if (n.values(0) == nullptr || n.values(1) == nullptr || n.values(2) == nullptr || !writes_few(n))
    return;
  Values results;
  each_place(*n.out[0].shape, [&](const Shape& place) {
    const std::size_t which = (*n.values(0))[position(*n.shape(0), place)] != 0 ? 1 : 2;
    results.push_back((*n.values(which))[position(*n.shape(which), place)]);
  });
  n.set_values(std::move(results));
}

namespace rules {

void shape_of(Inference& n) {
  if (n.shape(0) == nullptr) return;
  const Shape& x = *n.shape(0);
  const auto rank = static_cast<std::int64_t>(x.size());
  std::int64_t start = n.node.integer("start", 0);
  const std::int64_t count = sliced(start, n.node.integer("end", rank), 1, rank);
  n.set({count}, ElementType::int64);
  n.set_values(Values(x.begin() + start, x.begin() + start + count));
}

void size_of(Inference& n) {
  n.set({}, ElementType::int64);
  if (n.shape(0) != nullptr && product(*n.shape(0)) >= 0)
    n.set_values({static_cast<double>(product(*n.shape(0)))});
}

void constant(Inference& n) {
  if (n.out.empty()) return;
  for (const auto& [name, a] : n.node.attributes) {
    if (name == "value" && a.tensor) n.out[0] = *a.tensor;
    if (!name.starts_with("value_")) continue;
    const bool real = name.starts_with("value_float");
    Values values = real ? a.floats : Values(a.ints.begin(), a.ints.end());
    if (name == "value_int") values = {static_cast<double>(a.i)};
    if (real || name.starts_with("value_int"))
      n.set(name.ends_with('s') ? Shape{static_cast<std::int64_t>(values.size())} : Shape{},
            real ? ElementType::float32 : ElementType::int64);
    n.set_values(std::move(values));
  }
}

void constant_of_shape(Inference& n) {
  const auto dims = n.list("", 0);
  if (!dims) return;
  const Attribute* given = n.node.attribute("value");
  const TensorInfo* value = given != nullptr && given->tensor ? &*given->tensor : nullptr;
  n.set(*dims, value != nullptr ? value->type : ElementType::float32);
  const bool known = value == nullptr || (value->values && value->values->size() == 1);
  const std::int64_t count = n.out.empty() ? -1 : n.out[0].elements().value_or(-1);
  if (known && count >= 0 && count <= static_cast<std::int64_t>(most_values))
    n.set_values(
        Values(static_cast<std::size_t>(count), value == nullptr ? 0 : value->values->front()));
}

void random(Inference& n) {
  const std::int64_t type = n.node.integer("dtype", 1);
  if (const auto dims = n.node.integers("shape"); dims && type > 0 && type < 32)
    n.set(*dims, static_cast<ElementType>(type));
}

void range(Inference& n) {
  for (std::size_t i = 0; i < 3; ++i)
    if (n.values(i) == nullptr || n.values(i)->size() != 1) return;
  const double first = n.values(0)->front(), step = n.values(2)->front();
  const double count = std::max(0.0, std::ceil((n.values(1)->front() - first) / step));
  if (!std::isfinite(count) || count > static_cast<double>(most_dim)) return;
  n.set({whole(count)}, n.type(0));
  if (count > static_cast<double>(most_values)) return;
  Values values;
  for (std::int64_t i = 0; i < whole(count); ++i)
    values.push_back(first + static_cast<double>(i) * step);
  n.set_values(std::move(values));
}

}  // namespace rules

}  // namespace baechi::onnx
