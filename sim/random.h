/// Random numbers and hashes that are the same on every machine and with every library: SplitMix64
/// (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), and FNV-1a,
/// 64 bits (Fowler, Noll, Vo).
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

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

class Hash {
 public:
  void add(std::string_view text) {  ///< With a terminator: "ab", "c" and "a", "bc" differ.
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  void add(std::int64_t n) {  ///< Eight bytes, the lowest first.
    auto rest = static_cast<std::uint64_t>(n);
    std::size_t zeros = 8;  // leading zero bytes: each only multiplies by `factor`
    for (; rest != 0; rest >>= 8U, --zeros) add_byte(static_cast<unsigned char>(rest));
    state_ *= powers[zeros];
  }
  void add(double x) { add(std::bit_cast<std::int64_t>(x)); }
  std::uint64_t value() const { return state_; }

 private:
  static constexpr std::uint64_t factor = 0x100000001b3U;
  static constexpr std::array<std::uint64_t, 9> powers = [] {  // powers[i] = factor^i
    std::array<std::uint64_t, 9> all{1};
    for (std::size_t i = 1; i < all.size(); ++i) all[i] = all[i - 1] * factor;
    return all;
  }();

  void add_byte(unsigned char b) { state_ = (state_ ^ b) * factor; }
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

}  // namespace baechi
