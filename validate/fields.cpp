#include "validate/fields.h"

#include <algorithm>

namespace baechi {

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
  return fmt::format("{}:{}:{}: ", path_, std::max<std::size_t>(number_, 1), column);
}

void Lines::mistake(std::size_t column, std::string_view what) {
  if (mistakes_ < most_mistakes) messages_.add(where(column) + std::string(what));
  if (++mistakes_ == most_mistakes)
    messages_.add(fmt::format("{}: there may be more mistakes", path_));
}

std::optional<std::int64_t> Lines::whole(const Field& field, std::string_view what,
                                         std::int64_t least, std::int64_t most) {
  const auto value = parse_number<std::int64_t>(field.text);
  if (value && *value >= least && *value <= most) return value;
  const std::string_view found = field.text.substr(0, 40);
  mistake(field.column, least == most ? fmt::format("{} is {}, not '{}'", what, least, found)
                                      : fmt::format("{} '{}' is not a whole number in [{}, {}]",
                                                    what, found, least, most));
  return std::nullopt;
}

}  // namespace baechi
