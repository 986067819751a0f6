/// A hash that is the same on every machine: FNV-1a, 64 bits (Fowler, Noll, Vo).
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace baechi {

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
