/// The positions of the values of a swept key on the axis of a chart.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baechi {

struct AxisScale {
  enum class Kind : std::uint8_t { linear, logarithmic, words };
  Kind kind = Kind::words;
  std::vector<double> at{};  ///< [values.size()]; 0, 1, 2, ... for words
};

/// The scale of `values`, which are distinct. Numbers, or quantities of one unit (sizes, times,
/// bandwidths), are numeric, in any swept order. They are logarithmic if the largest is at least 8
/// times the smallest and their ratios are more uniform than their differences. Other values are
/// words, without an order.
AxisScale axis_scale(std::span<const std::string> values);

/// Short, distinct texts of swept values: paths without folders and extensions, mappings and lists
/// without brackets. [values.size()]
std::vector<std::string> short_values(std::span<const std::string> values);

}  // namespace baechi
