#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "sim/text.h"

using namespace baechi;

TEST_SUITE("short text") {
  TEST_CASE("texts of any size differ where one byte does, and so do their hashes") {
    for (std::size_t size = 0; size <= 40; ++size) {  // bytes, halves of words, words
      CAPTURE(size);
      const std::string text(size, 'a');
      CHECK(same_text(text, std::string(size, 'a')));
      CHECK_FALSE(same_text(text, text + 'a'));
      CHECK(hash_of_text(text) == hash_of_text(std::string(size, 'a')));
      CHECK(hash_of_text(text) != hash_of_text(text + 'a'));
      for (std::size_t i = 0; i < size; ++i) {
        std::string other = text;
        other[i] = 'b';
        CHECK_FALSE(same_text(text, other));
        CHECK(hash_of_text(text) != hash_of_text(other));
      }
    }
  }

  TEST_CASE("both halves of a hash tell names apart that differ in one byte") {
    // A table takes its place from the low half and a mark from the high half. Ten digits in any
    // byte of a name are ten marks, and 16 places hold at least three of them.
    for (std::size_t i = 0; i < 12; ++i) {
      CAPTURE(i);
      std::uint64_t places = 0;
      std::vector<std::uint64_t> marks;
      for (char digit = '0'; digit <= '9'; ++digit) {
        std::string name = "layer12.conv";
        name[i] = digit;
        const std::uint64_t hash = hash_of_text(name);
        places |= std::uint64_t{1} << (hash % 16);
        marks.push_back(hash >> 32U);
      }
      std::ranges::sort(marks);
      CHECK(std::ranges::adjacent_find(marks) == marks.end());
      CHECK(std::popcount(places) >= 3);
    }
  }
}
