/// Random numbers that are the same on every machine and with every library: SplitMix64 (Steele,
/// Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
#pragma once
#include <cmath>
#include <cstdint>

namespace baechi {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  /// Uniform in [0, n); n > 0. Bias below 2^-32.
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>(((next() >> 32U) * n) >> 32U);
  }
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }  ///< in [0, 1)
  /// Approximately standard normal (mean 0, deviation 1): the sum of 8 uniforms, centred, scaled.
  double gauss() {
    double sum = 0.0;
    for (int i = 0; i < 8; ++i) sum += uniform();
    return (sum - 4.0) * std::sqrt(12.0 / 8.0);
  }

 private:
  std::uint64_t state_;
};

}  // namespace baechi
