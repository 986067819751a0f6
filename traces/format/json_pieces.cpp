#include "traces/format/json_pieces.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "sim/error.h"

namespace baechi {
namespace {

constexpr std::string_view blank = " \t\r\n";

/// Marks structural bytes: sets the highest bit of each byte of `word` that is a quote, a bracket,
/// a backslash or a bar.
std::uint64_t structure(std::uint64_t word) {
  constexpr std::uint64_t each = 0x0101'0101'0101'0101, low = 0x7f * each;
  const std::uint64_t quote = word ^ '"' * each;  // a byte is 0 if it was a quote
  const std::uint64_t other = ((quote & low) + low) | quote;
  // '[', '\\' and ']' are '{', '|' and '}' without the bit 0x20: 0x7b to 0x7d.
  const std::uint64_t c = (word | 0x20 * each) & low;
  const std::uint64_t bracket = (c + 0x05 * each) & ~(c + 0x02 * each) & ~word;
  return (bracket | ~other) & ~low;
}

}  // namespace

JsonPlace behind(JsonPlace from, std::string_view text) {
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

bool JsonPieces::walk() {
  static_assert(std::endian::native == std::endian::little);
  const std::size_t size = text_.size();
  for (std::size_t begin = at_; begin < size; begin += 8) {
    std::uint64_t word = 0;
    if (size - begin >= 8)
      std::memcpy(&word, text_.data() + begin, 8);
    else
      std::memcpy(&word, text_.data() + begin, size - begin);
    for (std::uint64_t found = structure(word); found != 0; found &= found - 1) {
      const std::size_t at = begin + static_cast<std::size_t>(std::countr_zero(found)) / 8;
      if (at < at_) continue;  // escaped by a backslash
      if (look(at)) return true;
    }
  }
  at_ = std::max(at_, size);
  return false;
}

bool JsonPieces::look(std::size_t at) {
  const char c = text_[at];
  at_ = at + 1;
  if (inside_string_) {
    if (c == '\\') ++at_;
    if (c != '"') return false;
    inside_string_ = false;
    if (depth_ == 1) key_end_ = at + 1;
  } else if (c == '"') {
    inside_string_ = true;
    if (depth_ == 1) key_ = at;
  } else if (c == '{' || c == '[') {
    if (depth_ == 0) in_object_ = c == '{' && !ended_;
    if (depth_ == 1) {
      in_list_ = in_object_ && c == '[';
      list_ = text_.substr(key_, key_end_ - key_);
    }
    if (depth_ == 2 && in_list_ && at >= least_ && may_cut_at(at)) return true;
    ++depth_;
  } else if ((c == '}' || c == ']') && depth_ > 0) {
    --depth_;
    ended_ = ended_ || depth_ == 0;
  }
  return false;
}

bool JsonPieces::next(JsonPiece& piece) {
  if (done_) return false;
  bool more = true;
  while (more && !walk()) {
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
    place_ = behind(place_, std::string_view(text_).substr(opening_, cut_begin_ - opening_));
    text_.resize(cut_end_);
    text_ += "]}";
    piece.opening = std::exchange(opening_, opening);
    at_ = opening_;
    key_ = key_end_ = 0;  // a list without a key (broken JSON) gets an empty one
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
