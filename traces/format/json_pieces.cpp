#include "traces/format/json_pieces.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>

#include "sim/error.h"

namespace baechi {
namespace {

constexpr std::string_view blank = " \t\r\n";

constexpr std::size_t block = 64;  // bytes processed at a time

/// One bit per byte of a block: quotes, backslashes and brackets.
struct Marks {
  std::uint64_t quotes = 0, backslashes = 0, brackets = 0;
};

#ifdef __SSE2__
Marks marks(const char* text) {
  Marks all;
  for (std::size_t i = 0; i < block; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + i));
    const __m128i lower =
        _mm_or_si128(bytes, _mm_set1_epi8(0x20));  // turns '[' and ']' into braces
    const auto where = [&](__m128i equal) {
      return static_cast<std::uint64_t>(_mm_movemask_epi8(equal)) << i;
    };
    all.quotes |= where(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
    all.backslashes |= where(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    all.brackets |= where(_mm_or_si128(_mm_cmpeq_epi8(lower, _mm_set1_epi8('{')),
                                       _mm_cmpeq_epi8(lower, _mm_set1_epi8('}'))));
  }
  return all;
}
#else
Marks marks(const char* text) {
  Marks all;
  for (std::size_t i = 0; i < block; ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if (text[i] == '"') all.quotes |= bit;
    if (text[i] == '\\') all.backslashes |= bit;
    if (std::string_view("[]{}").find(text[i]) != std::string_view::npos) all.brackets |= bit;
  }
  return all;
}
#endif

/// Prefix XOR: bit i is the parity of bits 0 to i.
std::uint64_t prefix_xor(std::uint64_t bits) {
  for (unsigned step = 1; step < block; step *= 2) bits ^= bits << step;
  return bits;
}

}  // namespace

JsonPlace advance(JsonPlace from, std::string_view text) {
  const auto starts_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  };
  std::size_t end = text.find('\n');
  while (end != std::string_view::npos) {
    text.remove_prefix(end + 1);
    from = {.line = from.line + 1};
    end = text.find('\n');
  }
  from.column += static_cast<std::size_t>(std::ranges::count_if(text, starts_character));
  return from;
}

bool JsonPieces::may_cut_at(std::size_t at) {
  const std::size_t comma = text_.find_last_not_of(blank, at - 1);
  if (text_[comma] != ',') return false;
  const std::size_t end = text_.find_last_not_of(blank, comma - 1);
  if (text_[end] != '}' && text_[end] != ']') return false;
  cut_end_ = end + 1;
  cut_begin_ = at;
  return true;
}

/// The escaped bytes of a block of `size` bytes.
std::uint64_t JsonPieces::escaped(std::uint64_t backslashes, std::size_t size) {
  std::uint64_t escaped = std::exchange(escaped_, false) ? 1 : 0;
  for (; backslashes != 0; backslashes &= backslashes - 1) {
    const auto at = static_cast<std::size_t>(std::countr_zero(backslashes));
    if ((escaped >> at & 1U) != 0) continue;
    if (at + 1 == size)
      escaped_ = true;
    else
      escaped |= std::uint64_t{2} << at;
  }
  return escaped;
}

/// The brackets outside strings in the next block of `size` bytes.
std::uint64_t JsonPieces::brackets(std::size_t size) {
  const char* text = text_.data() + at_;
  std::array<char, block> end{};
  if (size < block) text = std::copy_n(text, size, end.data()) - size;
  const Marks found = marks(text);
  std::uint64_t quotes = found.quotes;
  if (found.backslashes != 0 || escaped_) quotes &= ~escaped(found.backslashes, size);
  const std::uint64_t inside = prefix_xor(quotes) ^ (inside_string_ ? ~std::uint64_t{0} : 0);
  inside_string_ = inside >> (block - 1) != 0;
  return found.brackets & ~inside;
}

bool JsonPieces::scan() {
  while (at_ < text_.size()) {
    const std::size_t begin = at_;
    const std::size_t size = std::min(block, text_.size() - begin);
    std::uint64_t found = brackets(size);
    at_ += size;
    for (; found != 0; found &= found - 1)
      if (visit(begin + static_cast<std::size_t>(std::countr_zero(found)))) return true;
  }
  return false;
}

/// Updates the state by the bracket at `at`. True if the piece ends before it.
bool JsonPieces::visit(std::size_t at) {
  const char c = text_[at];
  if (c == '{' || c == '[') {
    if (depth_ == 0) in_object_ = c == '{' && !ended_;
    if (depth_ == 1) {
      in_list_ = in_object_ && c == '[';
      list_ = key_before(at);
    }
    if (depth_ == 2 && in_list_ && at >= least_ && may_cut_at(at)) return true;
    ++depth_;
  } else if (depth_ > 0) {
    --depth_;
    ended_ = ended_ || depth_ == 0;
  }
  return false;
}

/// The key of the value at `at`, with its quotes; "" if there is none.
std::string JsonPieces::key_before(std::size_t at) const {
  const auto before = [&](std::size_t place) {  // position of the previous non-blank byte
    return place == 0 ? std::string::npos : text_.find_last_not_of(blank, place - 1);
  };
  const std::size_t colon = before(at);
  if (colon == std::string::npos || text_[colon] != ':') return "";
  const std::size_t end = before(colon);
  if (end == std::string::npos || text_[end] != '"' || end == 0) return "";
  std::size_t begin = end;
  const auto is_escaped = [&] {
    const std::size_t other = text_.find_last_not_of('\\', begin - 1);
    return (begin - other) % 2 == 0;
  };
  do {
    begin = text_.rfind('"', begin - 1);
    if (begin == std::string::npos || begin == 0) return "";
  } while (is_escaped());
  return text_.substr(begin, end + 1 - begin);
}

bool JsonPieces::next(JsonPiece& piece) {
  if (done_) return false;
  bool more = true;
  while (more && !scan()) {
    if (text_.size() > most)
      throw InputError(fmt::format("{}: a value of over {} GiB", file_.path(), most >> 30U));
    more = file_.read(text_);
  }
  const JsonPlace place = place_;
  piece.text.clear();
  if (more) {
    piece.text += '{';
    piece.text += list_;
    piece.text += ":[";
    const std::size_t opening = piece.text.size();
    piece.text += std::string_view(text_).substr(cut_begin_);
    place_ = advance(place_, std::string_view(text_).substr(opening_, cut_begin_ - opening_));
    text_.resize(cut_end_);
    text_ += "]}";
    piece.opening = std::exchange(opening_, opening);
    at_ = opening_;
    inside_string_ = escaped_ = false;  // the state at the cut
  } else {
    piece.opening = opening_;
    done_ = true;
  }
  piece.text.swap(text_);
  piece.closing = more ? 2 : 0;
  piece.place = place;
  return true;
}

}  // namespace baechi
