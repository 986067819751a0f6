#include "traces/format/wire_text.h"

#include "sim/error.h"
#include "sim/units.h"
#include "traces/format/json_pieces.h"

namespace baechi {
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
  void skip_space() {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#'))
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
      for (skip_space(); at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'');
           skip_space())
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
