/// Arithmetic on times and sizes that stops at a limit where it would overflow.
#pragma once
#include <cstdint>

#include "sim/units.h"

namespace baechi {

/// 2^62 ns are 146 years, 2^62 bytes are 4 EiB. check_limits() keeps a problem's total time below
/// this and its total size below a quarter, so two totals of times, or eight of sizes, add up in 64
/// bits.
inline constexpr std::int64_t count_limit = std::int64_t{1} << 62U;

/// `value` >= 0, truncated; the limit if it is larger or NaN.
constexpr std::int64_t saturated(double value) {
  return value < 0x1p62 ? static_cast<std::int64_t>(value) : count_limit;
}

/// a / b, rounded up. 0 <= a, 0 < b.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
/// a + b, at most the limit. 0 <= a <= the limit, 0 <= b.
constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return b < count_limit - a ? a + b : count_limit;
}
constexpr Duration saturated_sum(Duration a, Duration b) {
  return Duration{saturated_sum(a.count(), b.count())};
}
constexpr Bytes saturated_sum(Bytes a, Bytes b) {
  return {saturated_sum(a.count, b.count)};
}

/// count * each, at most the limit. Both are >= 0.
constexpr std::int64_t saturated_product(std::int64_t count, std::int64_t each) {
  return each != 0 && count > count_limit / each ? count_limit : count * each;
}
constexpr Duration saturated_product(std::int64_t count, Duration each) {
  return Duration{saturated_product(count, each.count())};
}

}  // namespace baechi
