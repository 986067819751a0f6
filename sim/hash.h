/// A hash that is the same on every machine: FNV-1a, 64 bits (Fowler, Noll, Vo).
#pragma once
#include <bit>
#include <cstdint>
#include <string_view>

namespace baechi {

class Hash {
 public:
  void add(std::string_view text) {  ///< The end of the text counts: "ab", "c" is not "a", "bc".
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  void add(std::int64_t n) {
    for (int i = 0; i < 8; ++i) add_byte(static_cast<unsigned char>(n >> (8 * i)));
  }
  void add(double x) { add(std::bit_cast<std::int64_t>(x)); }
  std::uint64_t value() const { return state_; }

 private:
  void add_byte(unsigned char b) { state_ = (state_ ^ b) * 0x100000001b3U; }
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

}  // namespace baechi
