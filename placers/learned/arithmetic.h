/// The few functions of real numbers that a policy needs, made of additions, products and quotients
/// alone: libraries differ in the last bit of theirs, and a policy would then act differently.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace baechi::learned {

/// e^x within a few units of the last place; 0 below -700, and as for 700 above 700.
inline double exponential(double x) {
  constexpr double most = 700.0, per_log_2 = 1.4426950408889634;
  // log 2 in two parts, so that k times the first is exact (Cody and Waite).
  constexpr double log_2 = 0.693147180369123816490, rest = 1.90821492927058770002e-10;
  if (x < -most) return 0.0;
  x = std::min(x, most);
  const double k = std::floor(x * per_log_2 + 0.5);
  const double r = (x - k * log_2) - k * rest;  // |r| < 0.35
  double sum = 1.0;
  for (int n = 14; n > 0; --n) sum = 1.0 + sum * r / n;
  const auto exponent = static_cast<std::uint64_t>(static_cast<std::int64_t>(k) + 1023);
  return sum * std::bit_cast<double>(exponent << 52U);
}

/// The natural logarithm of x > 0, x normal: Halley's steps towards e^y = x.
inline double logarithm(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  const double k = static_cast<double>(static_cast<std::int64_t>(bits >> 52U) - 1023);
  constexpr std::uint64_t mantissa = (std::uint64_t{1} << 52U) - 1;
  const double m = std::bit_cast<double>((bits & mantissa) | (std::uint64_t{1023} << 52U));
  double y = (m - 1.0) * 0.7;  // m is in [1, 2)
  for (int i = 0; i < 4; ++i) {
    const double e = exponential(y);
    y += 2.0 * (m - e) / (m + e);
  }
  return y + k * 0.693147180559945309417232;
}

/// The hyperbolic tangent.
inline double squashed(double x) {
  return 1.0 - 2.0 / (1.0 + exponential(2.0 * x));
}

}  // namespace baechi::learned
