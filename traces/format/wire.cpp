#include "traces/format/wire.h"

#include <bit>

#include "sim/error.h"
#include "sim/text.h"
#include "sim/units.h"
#include "traces/format/json_pieces.h"

namespace baechi {
namespace {

constexpr int most_depth = 100;
constexpr std::size_t kept = std::size_t{1}
                             << 20U;  // read bytes that are kept before they are discarded

}  // namespace

void Wire::broken(std::string_view what) const {
  throw InputError(fmt::format("{}: byte {}: {}", file_.path(), position() + 1, what));
}

/// Reads the file until buffer_ has `bytes` unread bytes; false if it ends before.
bool Wire::has(std::size_t bytes) {
  while (buffer_.size() - at_ < bytes) {
    if (at_ > kept) {
      buffer_.erase(0, at_);
      base_ += at_;
      at_ = 0;
    }
    if (!file_.read(buffer_)) return false;
  }
  return true;
}

bool Wire::at_end() {
  if (position() < limit_) return limit_ == no_limit && !has(1);
  return true;
}

std::uint8_t Wire::next_byte() {
  if (position() >= limit_) broken("a value extends beyond the end of its message");
  if (!has(1)) broken("the file is cut short");
  return static_cast<std::uint8_t>(buffer_[at_++]);
}

std::uint64_t Wire::raw_varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t byte = next_byte();
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  broken("a number of more than 64 bits: not protocol buffers");
}

std::uint32_t Wire::next_field() {
  const std::uint64_t tag = raw_varint();
  type_ = static_cast<unsigned>(tag & 7U);
  const std::uint64_t number = tag >> 3U;
  if (number == 0 || number >= (std::uint64_t{1} << 29U) || type_ == 3 || type_ == 4 || type_ > 5)
    broken("not a field: not protocol buffers, or not of this format");
  length_ = type_ == 2 ? raw_varint() : 0;
  if (type_ == 2 && limit_ != no_limit && length_ > limit_ - position())
    broken("a value extends beyond the end of its message");
  read_ = false;
  return static_cast<std::uint32_t>(number);
}

void Wire::take(unsigned type) {
  if (type_ != type) broken("a value of the wrong type for this field");
  read_ = true;
}

std::uint64_t Wire::varint() {
  take(0);
  return raw_varint();
}

std::int64_t Wire::zigzag() {
  const std::uint64_t n = varint();
  return static_cast<std::int64_t>((n >> 1U) ^ (~(n & 1U) + 1));
}

std::uint64_t Wire::fixed(int bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= std::uint64_t{next_byte()} << (8U * static_cast<unsigned>(i));
  return value;
}

double Wire::real() {
  if (type_ == 1) {
    take(1);
    return std::bit_cast<double>(fixed(8));
  }
  take(5);
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(fixed(4))));
}

std::string Wire::bytes(std::size_t most) {
  take(2);
  if (length_ > most)
    broken(fmt::format("a text of {} bytes, where at most {} are expected", length_, most));
  const auto length = static_cast<std::size_t>(length_);
  if (!has(length)) broken("the file is cut short");
  std::string value = buffer_.substr(at_, length);
  at_ += length;
  return value;
}

std::string Wire::text() { return plain_text(bytes()); }

void Wire::skip(std::uint64_t bytes) {
  while (bytes > buffer_.size() - at_) {
    bytes -= buffer_.size() - at_;
    base_ += buffer_.size();
    buffer_.clear();
    at_ = 0;
    if (!file_.read(buffer_)) broken("the file is cut short");
  }
  at_ += static_cast<std::size_t>(bytes);
}

void Wire::skip_value() {
  read_ = true;
  if (type_ == 0)
    raw_varint();
  else if (type_ == 1)
    fixed(8);
  else if (type_ == 5)
    fixed(4);
  else
    skip(length_);
}

std::uint64_t Wire::enter() {
  take(2);
  return enter(length_);
}

std::uint64_t Wire::enter(std::uint64_t length) {
  if (++depth_ > most_depth) broken(fmt::format("messages nested more than {} deep", most_depth));
  if (length > no_limit / 2 || (limit_ != no_limit && length > limit_ - position()))
    broken("a message extends beyond the end of its enclosing message");
  const std::uint64_t outer = limit_;
  limit_ = position() + length;
  return outer;
}

void Wire::leave(std::uint64_t outer) {
  --depth_;
  limit_ = outer;
  read_ = true;
}

namespace {

constexpr int most_nesting = 100;

void add_varint(std::string& bytes, std::uint64_t n) {
  for (; n >= 128; n >>= 7U) bytes += static_cast<char>((n & 127U) | 128U);
  bytes += static_cast<char>(n);
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ';';
}
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '+' || c == '/';
}

class TextReader {
 public:
  TextReader(std::string_view text, std::string_view path, std::span<const WireField> schema,
             std::uint64_t (*number_of)(std::string_view))
      : text_(text), path_(path), schema_(schema), number_of_(number_of) {}

  /// The encoded fields of message `wanted` ("": skips all) up to `end` ('\0': the end of the
  /// text).
  std::string fields(std::string_view wanted, char end) {
    if (++depth_ > most_nesting) broken("messages are nested more than 100 deep");
    std::string bytes;
    for (;;) {
      skip_space();
      if (at_ == text_.size()) {
        if (end != '\0') broken("the text ends within a message");
        break;
      }
      if (text_[at_] == end) {
        ++at_;
        break;
      }
      read_field(wanted, bytes);
    }
    --depth_;
    return bytes;
  }

 private:
  [[noreturn]] void broken(std::string_view what) const {
    const JsonPlace place = advance({}, text_.substr(0, at_));
    throw InputError(fmt::format("{}:{}:{}: {}", path_, place.line, place.column, what));
  }
  void skip_space(bool separators = true) {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#') &&
           (separators || text_[at_] != ','))
      at_ = text_[at_] == '#' ? std::min(text_.find('\n', at_), text_.size()) : at_ + 1;
  }
  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == begin) broken("a name or value is expected");
    return text_.substr(begin, at_ - begin);
  }
  std::string quoted() {
    const char quote = text_[at_++];
    std::string value;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') broken("a text without its closing quote");
      if (text_[at_] == '\\' && at_ + 1 < text_.size())
        ++at_;  // other escapes do not occur in names
      value += text_[at_++];
    }
    if (at_ == text_.size()) broken("a text without its closing quote");
    ++at_;
    return value;
  }
  const WireField* find(std::string_view message, std::string_view field) const {
    if (!message.empty())
      for (const WireField& f : schema_)
        if (f.message == message && f.field == field) return &f;
    return nullptr;
  }
  void read_field(std::string_view message, std::string& bytes) {
    if (text_[at_] == '[') at_ = std::min(text_.find(']', at_), text_.size() - 1) + 1;
    const std::string_view name = at_ < text_.size() && is_word(text_[at_]) ? word() : "";
    const WireField* field = find(message, name);
    skip_space();
    if (at_ < text_.size() && text_[at_] == ':') ++at_;
    skip_space();
    if (at_ == text_.size()) broken("a field without a value");
    const bool list = text_[at_] == '[';
    if (list) ++at_;
    for (;;) {
      skip_space();
      if (at_ == text_.size()) broken("a field without a value");
      if (list && text_[at_] == ']') {
        ++at_;
        return;
      }
      read_value(field, bytes);
      if (!list) return;
    }
  }
  void read_value(const WireField* field, std::string& bytes) {
    const char c = text_[at_];
    if (c == '{' || c == '<') {
      ++at_;
      const bool wanted = field != nullptr && field->type == WireType::message;
      add_text(wanted ? field : nullptr, fields(wanted ? field->inner : "", c == '{' ? '}' : '>'),
               bytes);
    } else if (c == '"' || c == '\'') {
      std::string value = quoted();
      for (skip_space(false); at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
           skip_space(false))
        value += quoted();
      add_text(field != nullptr && field->type == WireType::text ? field : nullptr, value, bytes);
    } else {
      const std::string_view value = word();
      if (field == nullptr || field->type != WireType::whole) return;
      const auto number = parse_number<std::int64_t>(value);
      add_varint(bytes, std::uint64_t{field->number} << 3U);
      add_varint(bytes, number ? static_cast<std::uint64_t>(*number) : number_of_(value));
    }
  }
  static void add_text(const WireField* field, std::string_view value, std::string& bytes) {
    if (field == nullptr) return;
    add_varint(bytes, std::uint64_t{field->number} << 3U | 2U);
    add_varint(bytes, value.size());
    bytes += value;
  }

  std::string_view text_, path_;
  std::span<const WireField> schema_;
  std::uint64_t (*number_of_)(std::string_view);
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string bytes_of_text(std::string_view text, std::string_view path, std::string_view message,
                          std::span<const WireField> schema,
                          std::uint64_t (*word)(std::string_view)) {
  return TextReader(text, path, schema, word).fields(message, '\0');
}

}  // namespace baechi
