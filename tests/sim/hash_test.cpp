#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "sim/random.h"

using namespace baechi;

namespace {

/// FNV-1a of the eight bytes of `n`, the lowest first, one after the other.
std::uint64_t byte_by_byte(std::int64_t n) {
  std::uint64_t state = 0xcbf29ce484222325U;
  for (unsigned i = 0; i < 8; ++i)
    state = (state ^ (static_cast<std::uint64_t>(n) >> (8 * i) & 0xffU)) * 0x100000001b3U;
  return state;
}

std::uint64_t hash_of(auto value) {
  Hash hash;
  hash.add(value);
  return hash.value();
}

}  // namespace

TEST_SUITE("hash") {
  TEST_CASE("a number's hash is that of its eight bytes, however many are zero") {
    constexpr std::int64_t one = 1;
    for (const std::int64_t n : {0 * one, one, 255 * one, 256 * one, 0xff00 * one, one << 32,
                                 (one << 56) + 3, -one, std::numeric_limits<std::int64_t>::min()})
      CHECK(hash_of(n) == byte_by_byte(n));
    CHECK(hash_of(1.5) == byte_by_byte(0x3ff8000000000000));  // its bits
  }

  TEST_CASE("a text's hash is FNV-1a of its bytes and of its end") {
    // FNV-1a of "a" is 0xaf63dc4c8601ec8c; the end is a byte more, 0, which multiplies.
    CHECK(hash_of(std::string_view("a")) == 0xaf63dc4c8601ec8cU * 0x100000001b3U);
    // "a" and six zero bytes, with its end, are the eight bytes of the number 'a'.
    constexpr char seven[] = {'a', 0, 0, 0, 0, 0, 0};
    CHECK(hash_of(std::string_view(seven, 7)) == hash_of(std::int64_t{'a'}));
  }
}
