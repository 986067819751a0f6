/// Lines of text split into fields, each with its place for messages.
#pragma once
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/error.h"
#include "sim/units.h"

namespace baechi {

/// The largest number in a file of a validation run: sums of some thousands stay in 63 bits.
inline constexpr std::int64_t most_number = std::int64_t{1} << 50;

struct Field {
  std::string_view text;
  std::size_t column = 1;  ///< in bytes
};

/// `line` at its separators. At ' ' several count as one; at ',' empty fields are kept.
std::vector<Field> split(std::string_view line, char separator);

/// The lines of a text, the last with or without its '\n'.
class Lines {
 public:
  Lines(std::string_view text, std::string_view path) : rest_(text), path_(path) {}

  bool next();  ///< false at the end
  std::string_view line() const { return line_; }
  std::size_t number() const { return number_; }  ///< of line(), from 1

  /// "path:line:column: "
  std::string where(std::size_t column = 1) const;
  /// The mistake is kept; so is that there are more than one cares to read.
  void mistake(std::size_t column, std::string_view what);
  bool too_many() const { return mistakes_ >= most_mistakes; }
  bool any_mistake() const { return mistakes_ != 0; }
  /// Throws InputError with all mistakes, if there are any.
  void finish() const { messages_.throw_if_any(); }

  /// `field` as a whole number in [least, most]; a mistake that names `what`, and nothing, if not.
  std::optional<std::int64_t> whole(const Field& field, std::string_view what,
                                    std::int64_t least = 0, std::int64_t most = most_number);

 private:
  static constexpr std::size_t most_mistakes = 20;

  std::string_view rest_, path_, line_;
  std::size_t number_ = 0;
  std::size_t mistakes_ = 0;
  Mistakes messages_;
};

}  // namespace baechi
