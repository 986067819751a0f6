#include "scenarios/results/axis_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "scenarios/results/tables.h"
#include "sim/units.h"

namespace baechi {
namespace {

using Reader = std::function<std::optional<double>(const std::string&)>;

std::vector<Reader> readers() {
  return {
      [](const std::string& text) { return parse_number<double>(text); },
      [](const std::string& text) -> std::optional<double> {
        const auto size = parse_bytes(text);
        return size ? std::optional(static_cast<double>(size->count)) : std::nullopt;
      },
      [](const std::string& text) -> std::optional<double> {
        const auto time = parse_duration(text);
        return time ? std::optional(static_cast<double>(time->count())) : std::nullopt;
      },
      [](const std::string& text) -> std::optional<double> {
        const auto bandwidth = parse_bandwidth(text);
        return bandwidth ? std::optional(bandwidth->bytes_per_second) : std::nullopt;
      },
  };
}

/// The ratio of the largest to the smallest distance of neighbours.
double unevenness(const std::vector<double>& ascending) {
  double least = INFINITY, most = 0.0;
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    least = std::min(least, ascending[i] - ascending[i - 1]);
    most = std::max(most, ascending[i] - ascending[i - 1]);
  }
  return most / least;
}

AxisScale::Kind kind_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  if (numbers.front() <= 0.0 || numbers.back() < 8.0 * numbers.front())
    return AxisScale::Kind::linear;
  std::vector<double> logs;
  for (const double x : numbers) logs.push_back(std::log(x));
  const bool even = numbers.size() == 2 || unevenness(logs) < unevenness(numbers);
  return even ? AxisScale::Kind::logarithmic : AxisScale::Kind::linear;
}

}  // namespace

AxisScale axis_scale(std::span<const std::string> values) {
  AxisScale scale;
  for (const Reader& reader : readers()) {
    scale.at.clear();
    for (const std::string& value : values)
      if (const auto number = reader(value); number && std::isfinite(*number))
        scale.at.push_back(*number);
    const std::set<double> distinct(scale.at.begin(), scale.at.end());
    if (values.size() < 2 || distinct.size() != values.size()) continue;
    scale.kind = kind_of(scale.at);
    return scale;
  }
  scale.at.clear();
  for (std::size_t i = 0; i < values.size(); ++i) scale.at.push_back(static_cast<double>(i));
  return scale;
}

std::vector<std::string> short_values(std::span<const std::string> values) {
  std::vector<std::string> texts;
  std::map<std::string, std::string> known;  // equal values get equal texts
  std::set<std::string> seen;
  for (const std::string& value : values) {
    if (const auto it = known.find(value); it != known.end()) {
      texts.push_back(it->second);
      continue;
    }
    std::string text = short_value(value);
    for (std::size_t same = 2; !seen.insert(text).second; ++same)
      text = fmt::format("{} ({})", short_value(value), same);
    known[value] = text;
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace baechi
