#include "sim/text.h"

#include <algorithm>
#include <optional>

namespace baechi {
namespace {

constexpr char32_t broken = 0xFFFD, escape = 0x1B, bell = 0x07;

/// Decodes and removes the first UTF-8 character of `text`, which is not empty. Returns `broken`
/// after one byte for invalid input: overlong forms, surrogates, code points above U+10FFFF.
char32_t next_character(std::string_view& text) {
  const auto byte = [&text](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t lead = byte(0);
  std::size_t length = 1;
  char32_t least = 0, character = lead;
  if (lead >= 0xF0 && lead < 0xF8) {
    length = 4, least = 0x10000, character = lead & 0x07U;
  } else if (lead >= 0xE0) {
    length = 3, least = 0x800, character = lead & 0x0FU;
  } else if (lead >= 0xC0) {
    length = 2, least = 0x80, character = lead & 0x1FU;
  }
  bool valid = lead < 0x80 || (lead >= 0xC0 && lead < 0xF8);
  for (std::size_t i = 1; valid && i < length; ++i) {
    valid = i < text.size() && (byte(i) & 0xC0U) == 0x80;
    if (valid) character = character << 6U | (byte(i) & 0x3FU);
  }
  valid = valid && character >= least && character <= 0x10FFFF &&
          (character < 0xD800 || character > 0xDFFF);
  text.remove_prefix(valid ? length : 1);
  return valid ? character : broken;
}

/// Removes the rest of a control string (after ESC ], P, X, ^ or _) up to its terminator: BEL,
/// ESC \, or the end of the line, which stays.
void skip_string(std::string_view& text) {
  while (!text.empty() && text.front() != '\n') {
    const char32_t c = next_character(text);
    if (c == bell || c == 0x9C) return;
    if (c == escape && text.starts_with('\\')) return text.remove_prefix(1);
  }
}

/// Removes the rest of a control sequence (after ESC [): parameters and a final letter.
void skip_sequence(std::string_view& text) {
  const auto parameter = [](char c) { return c >= 0x20 && c < 0x40; };
  while (!text.empty() && parameter(text.front())) text.remove_prefix(1);
  if (!text.empty() && text.front() >= 0x40 && text.front() < 0x7F) text.remove_prefix(1);
}

/// Removes the rest of an escape sequence; `kind` is the character after ESC.
void skip_escape(char32_t kind, std::string_view& text) {
  if (kind == U'[') return skip_sequence(text);
  if (std::u32string_view(U"]PX^_").find(kind) != std::u32string_view::npos)
    return skip_string(text);
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  const auto is_printed = [](char c) { return c >= 0x20 && c < 0x7F; };
  while (!text.empty()) {
    const auto printed = static_cast<std::size_t>(std::ranges::find_if_not(text, is_printed) -
                                                  text.begin());  // usually all of the text
    plain += text.substr(0, printed);
    text.remove_prefix(printed);
    if (text.empty()) break;
    const std::string_view before = text;
    const char32_t c = next_character(text);
    if (c == broken && !before.starts_with("\xEF\xBF\xBD")) {
      plain += "\xEF\xBF\xBD";
    } else if (c == escape) {
      const auto intermediate = [](char i) { return i >= 0x20 && i < 0x30; };
      while (!text.empty() && intermediate(text.front())) text.remove_prefix(1);
      if (text.empty() || text.front() < 0x30 || text.front() > 0x7E) continue;
      const auto kind = static_cast<char32_t>(text.front());
      text.remove_prefix(1);
      skip_escape(kind, text);
    } else if (c >= 0x80 && c <= 0x9F) {
      skip_escape(c - 0x40, text);
    } else if (c == U'\n' || c == U'\t' || (c >= 0x20 && c != 0x7F)) {
      plain += before.substr(0, before.size() - text.size());
    }
  }
  return plain;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;  // in any locale
  });
  return all;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return text.substr(0, 0);
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

bool Wildcard::matches(std::string_view text) const {
  std::size_t p = 0, t = 0;
  std::optional<std::size_t> star;  // position of the last '*' seen
  std::size_t run_end = 0;          // end in `text` of the run that it matches
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      run_end = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star) {
      p = *star + 1;
      t = ++run_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace baechi
