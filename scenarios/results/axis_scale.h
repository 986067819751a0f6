/// Where the values of a swept key stand on the axis of a chart.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace baechi {

struct AxisScale {
  enum class Kind : std::uint8_t { linear, logarithmic, words };
  Kind kind = Kind::words;
  std::vector<double> at{};  ///< [values.size()]; of words 0, 1, 2, ...
};

/// The scale of `values`, each once. Numbers, or quantities of one kind (sizes, times, bandwidths),
/// are numeric, in any swept order. They are logarithmic if the largest is at least 8 times the
/// smallest and their factors are more alike than their differences. Other values are words, which
/// have no order.
AxisScale axis_scale(std::span<const std::string> values);

/// A swept value where there is little room, and different values in different words: paths without
/// folders and endings, blocks without brackets. [values.size()]
std::vector<std::string> short_values(std::span<const std::string> values);

}  // namespace baechi
