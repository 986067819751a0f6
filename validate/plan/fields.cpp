#include "validate/plan/fields.h"

#include <algorithm>

namespace baechi::validate {

std::vector<Field> split(std::string_view line, char separator) {
  std::vector<Field> fields;
  std::size_t begin = 0;
  while (begin <= line.size()) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    if (separator != ' ' || end > begin)
      fields.push_back({line.substr(begin, end - begin), begin + 1});
    begin = end + 1;
  }
  return fields;
}

bool Lines::next() {
  if (rest_.empty()) return false;
  const std::size_t end = rest_.find('\n');
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  ++number_;
  return true;
}

std::string Lines::where(std::size_t column) const {
  return joined(path_, ':', std::max<std::size_t>(number_, 1), ':', column, ": ");
}

void Lines::mistake(std::size_t column, std::string_view what) {
  if (mistakes_ < most_mistakes) add(where(column) + std::string(what));
  if (++mistakes_ == most_mistakes) add(joined(path_, ": there may be more mistakes"));
}

void Lines::add(const std::string& message) {
  messages_ += messages_.empty() ? message : "\n" + message;
}

void Lines::finish() const {
  if (any_mistake()) throw BadInput(messages_);
}

std::optional<std::int64_t> Lines::whole(const Field& field, std::string_view what,
                                         std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = field.text.data() + field.text.size();
  const auto [read, error] = std::from_chars(field.text.data(), end, value);
  if (error == std::errc{} && read == end && value >= least && value <= most) return value;
  const std::string_view found = field.text.substr(0, 40);
  mistake(field.column, least == most ? joined(what, " is ", least, ", not '", found, "'")
                                      : joined(what, " '", found, "' is not a whole number in [",
                                               least, ", ", most, "]"));
  return std::nullopt;
}

}  // namespace baechi::validate
