/// Quantities as distinct types: time, bytes, bytes per second, FLOP per second; a `double` never
/// carries a unit across a function call. And arithmetic on them that stops at a limit where it
/// would overflow.
#pragma once
#include <charconv>
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baechi {

/// Simulated time in whole nanoseconds, so that sums are exact.
using Duration = std::chrono::duration<std::int64_t, std::nano>;
/// The clock of a simulation: 0 is the beginning of the step.
struct SimClock {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<SimClock, Duration>;
  static constexpr bool is_steady = true;
};
using TimePoint = SimClock::time_point;

struct Bytes {
  std::int64_t count = 0;
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(int k, Bytes b) { return {k * b.count}; }
  friend constexpr Bytes operator*(double k, Bytes b) {
    return {static_cast<std::int64_t>(k * static_cast<double>(b.count))};
  }
  constexpr Bytes& operator+=(Bytes b) {
    count += b.count;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes b) {
    count -= b.count;
    return *this;
  }
};

struct Bandwidth {
  double bytes_per_second = 0.0;
  friend constexpr auto operator<=>(Bandwidth, Bandwidth) = default;
};

struct FlopRate {
  double flop_per_second = 0.0;
  friend constexpr auto operator<=>(FlopRate, FlopRate) = default;
};

/// Time to send `size` at the rate `bw`, rounded up to a whole nanosecond.
Duration operator/(Bytes size, Bandwidth bw);

/// Parse a number and a unit: "8 GiB", "2.4 GB", "134 us", "5.7 GB/s", "4.7 TFLOP/s". GiB is 2^30
/// bytes, GB is 10^9. Only 0 needs no unit. Return nothing if the text is no such quantity, or if
/// the quantity is negative, not finite, or above 2^63 - 1 bytes or nanoseconds.
std::optional<Bytes> parse_bytes(std::string_view text);
std::optional<Duration> parse_duration(std::string_view text);
std::optional<Bandwidth> parse_bandwidth(std::string_view text);
std::optional<FlopRate> parse_flop_rate(std::string_view text);
/// How a size (with the suffix "/s": a rate) that does not parse may have been meant: "; with its
/// unit: '24 GB' or '24 GiB'" of "24G", the bytes of bits; "" if unclear.
std::string unit_advice(std::string_view text, std::string_view suffix = {});

/// The quantity for people, rounded: "7.50 GiB", "1.234 ms", "5.70 GB/s", "4.70 TFLOP/s".
std::string to_text(Bytes size);
std::string to_text(Duration time);
std::string to_text(Bandwidth rate);
std::string to_text(FlopRate rate);

/// Files state times in microseconds. from_us() rounds to the nearest nanosecond, halves up; it
/// returns nothing if `us` is negative, not finite, or above 146 years.
std::optional<Duration> from_us(double us);
double to_us(Duration time);

/// `text` as a number, independent of the locale; nothing if any part of the text is no number.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// 2^62 ns are 146 years, 2^62 bytes are 4 EiB. check_limits() keeps a problem's total time below
/// this and its total size below a quarter, so two totals of times, or eight of sizes, add up in 64
/// bits.
inline constexpr std::int64_t count_limit = std::int64_t{1} << 62U;

/// `value` >= 0, truncated; the limit if it is larger or NaN.
constexpr std::int64_t saturated(double value) {
  return value < 0x1p62 ? static_cast<std::int64_t>(value) : count_limit;
}

/// a / b, rounded up. 0 <= a, 0 < b.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// a + b, at most the limit. 0 <= a <= the limit, 0 <= b.
constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return b < count_limit - a ? a + b : count_limit;
}
constexpr Duration saturated_sum(Duration a, Duration b) {
  return Duration{saturated_sum(a.count(), b.count())};
}
constexpr Bytes saturated_sum(Bytes a, Bytes b) { return {saturated_sum(a.count, b.count)}; }

/// count * each, at most the limit. Both are >= 0.
constexpr std::int64_t saturated_product(std::int64_t count, std::int64_t each) {
  return each != 0 && count > count_limit / each ? count_limit : count * each;
}
constexpr Duration saturated_product(std::int64_t count, Duration each) {
  return Duration{saturated_product(count, each.count())};
}

}  // namespace baechi
