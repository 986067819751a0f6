/// The conversions of fp16 that the harness's check of kernels uses.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

struct __half {
  std::uint16_t bits;
};

/// Subnormal numbers become 0.
inline __half __float2half(float x) {
  if (std::abs(x) < 6.2e-5F) return {0};
  int exponent = 0;
  const float fraction = std::frexp(std::abs(x), &exponent);                     // in [0.5, 1)
  const auto mantissa = static_cast<unsigned>(std::lround(fraction * 2048.0F));  // 1024 to 2048
  const unsigned bits = (static_cast<unsigned>(exponent + 14) << 10U) + mantissa - 1024U;
  return {static_cast<std::uint16_t>(bits | (std::signbit(x) ? 0x8000U : 0U))};
}

inline float __half2float(__half h) {
  const std::uint32_t exponent = h.bits >> 10U & 31U;
  if (exponent == 0) return 0;
  // Sign, exponent of bias 127 instead of 15, fraction of 23 bits instead of 10.
  return std::bit_cast<float>((h.bits & 0x8000U) << 16U | (exponent + 112U) << 23U |
                              (h.bits & 1023U) << 13U);
}
