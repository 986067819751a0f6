/// Lines of text split into fields, each with its place for messages.
#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace baechi::validate {

/// The largest number in a file of a validation run: sums of some thousands stay in 63 bits.
inline constexpr std::int64_t most_number = std::int64_t{1} << 50;

/// A file is not in the format of FORMATS.md: one line per mistake, each "path:line:column: what".
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Field {
  std::string_view text;
  std::size_t column = 1;  ///< in bytes
};

/// `line` at its separators. At ' ' several count as one; at ',' empty fields are kept.
std::vector<Field> split(std::string_view line, char separator);

/// The parts, one behind the other.
std::string joined(const auto&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

/// The lines of a text, the last with or without its '\n'.
class Lines {
 public:
  Lines(std::string_view text, std::string_view path) : rest_(text), path_(path) {}

  bool next();  ///< false at the end
  std::string_view line() const { return line_; }
  std::size_t number() const { return number_; }  ///< of line(), from 1

  /// "path:line:column: "
  std::string where(std::size_t column = 1) const;
  /// Keeps the first 20 mistakes, and then that there may be more.
  void mistake(std::size_t column, std::string_view what);
  bool too_many() const { return mistakes_ >= most_mistakes; }
  bool any_mistake() const { return mistakes_ != 0; }
  const std::string& mistakes() const { return messages_; }  ///< one per line
  /// Throws BadInput with all mistakes, if there are any.
  void finish() const;

  /// `field` as a whole number in [least, most]; otherwise a mistake that names `what`, and
  /// nothing.
  std::optional<std::int64_t> whole(const Field& field, std::string_view what,
                                    std::int64_t least = 0, std::int64_t most = most_number);

 private:
  static constexpr std::size_t most_mistakes = 20;
  void add(const std::string& message);

  std::string_view rest_, path_, line_;
  std::size_t number_ = 0;
  std::size_t mistakes_ = 0;
  std::string messages_;
};

}  // namespace baechi::validate
