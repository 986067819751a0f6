/// Texts: sanitised for terminals, HTML and SVG; patterns with wildcards, as scenarios and rules on
/// op names write them; and inline comparison and hash of short texts, which are faster than memcmp
/// and std::hash.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace baechi {

/// `text` as valid UTF-8 without terminal control: bytes that are not UTF-8 become U+FFFD; escape
/// sequences (ESC [ ..., ESC ] ..., and their one-character forms U+0080 to U+009F) and control
/// characters other than line breaks and tabs are removed.
std::string plain_text(std::string_view text);

/// `text` with the special characters of HTML and SVG escaped.
std::string escaped(std::string_view text);

/// `text` without the spaces, tabs and carriage returns at its ends.
std::string_view trimmed(std::string_view text);

/// `text` in lower case (ASCII).
std::string lower(std::string_view text);

/// '*' matches any run of characters, also an empty one, and '?' any one character.
struct Wildcard {
  std::string_view pattern;

  /// Whether the pattern matches all of `text`.
  bool matches(std::string_view text) const;
};

/// The 8 bytes at `text`.
inline std::uint64_t word_at(const char* text) {
  std::uint64_t word = 0;
  std::memcpy(&word, text, sizeof(word));
  return word;
}
inline std::uint32_t half_word_at(const char* text) {
  std::uint32_t half = 0;
  std::memcpy(&half, text, sizeof(half));
  return half;
}

/// Whether `size` bytes are the same. The last word compared may overlap the word before.
inline bool same_text(const char* a, const char* b, std::size_t size) {
  if (size >= 8) {
    for (std::size_t i = 0; i + 8 < size; i += 8)
      if (word_at(a + i) != word_at(b + i)) return false;
    return word_at(a + size - 8) == word_at(b + size - 8);
  }
  if (size >= 4)
    return half_word_at(a) == half_word_at(b) &&
           half_word_at(a + size - 4) == half_word_at(b + size - 4);
  for (std::size_t i = 0; i < size; ++i)
    if (a[i] != b[i]) return false;
  return true;
}
inline bool same_text(std::string_view a, std::string_view b) {
  return a.size() == b.size() && same_text(a.data(), b.data(), a.size());
}

/// A hash for tables in memory only: it depends on the byte order of the machine.
inline std::uint64_t hash_of_text(std::string_view text) {
  constexpr std::uint64_t multiplier = 0x9e37'79b9'7f4a'7c15;
  const char* const begin = text.data();
  const std::size_t size = text.size();
  std::uint64_t hash = size;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * multiplier;
    hash ^= hash >> 32U;
  };
  if (size >= 8) {
    for (std::size_t i = 0; i + 8 < size; i += 8) mix(word_at(begin + i));
    mix(word_at(begin + size - 8));
  } else if (size >= 4) {
    mix(std::uint64_t{half_word_at(begin)} << 32U | half_word_at(begin + size - 4));
  } else {
    std::uint64_t bytes = 0;
    for (const char c : text) bytes = bytes << 8U | static_cast<unsigned char>(c);
    mix(bytes);
  }
  mix(0);  // so that all bits depend on the last word
  return hash;
}

}  // namespace baechi
