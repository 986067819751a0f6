/// Time, data and rate as distinct types. A `double` never carries a unit across a function call.
#pragma once
#include <charconv>
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baechi {

using Duration =
    std::chrono::duration<std::int64_t, std::nano>;  ///< simulated ns; exact, so sums do not drift
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

/// Time to push `size` through `bw`, rounded up to a whole nanosecond.
Duration operator/(Bytes size, Bandwidth bw);

/// Text to quantity: a number and a unit, "8 GiB", "2.4 GB", "134 us", "5.7 GB/s", "4.7 TFLOP/s".
/// Binary and decimal prefixes are distinct. Only 0 may stand without a unit. Nothing, if the text
/// is not such a quantity, is negative, not finite, or too large for 63 bits of bytes or
/// nanoseconds.
std::optional<Bytes> parse_bytes(std::string_view text);
std::optional<Duration> parse_duration(std::string_view text);
std::optional<Bandwidth> parse_bandwidth(std::string_view text);
std::optional<FlopRate> parse_flop_rate(std::string_view text);

/// Quantity to text, for people: "7.50 GiB", "1.234 ms", "5.70 GB/s", "4.70 TFLOP/s".
std::string to_text(Bytes size);
std::string to_text(Duration time);
std::string to_text(Bandwidth rate);
std::string to_text(FlopRate rate);

/// Microseconds, as files carry them, to exact nanoseconds (rounded half up), and back.
/// Nothing if negative, not finite, or over 146 years.
std::optional<Duration> from_us(double us);
double to_us(Duration time);

/// The whole of `text` as a number, whatever the locale; nothing if it is not one.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return {static_cast<std::int64_t>(n)};
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return {static_cast<std::int64_t>(n) << 20};
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return {static_cast<std::int64_t>(n) << 30};
}
constexpr Bandwidth operator""_GBps(long double n) {
  return {static_cast<double>(n) * 1e9};
}
}  // namespace literals
}  // namespace baechi
