/// A table of comma-separated values with column names in the first line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baechi {

/// Fields may be quoted with "; inside quotes "" is one quote, and line ends belong to the field.
/// Empty lines are skipped.
class CsvTable {
 public:
  /// Throws InputError, up to 20 mistakes at once, each "path:line:column: what", if `text` has no
  /// header, or a line has more or fewer fields than the header.
  /// `malformed_rows`, if given, receives one message per such line; these lines are skipped.
  CsvTable(std::string_view text, std::string path,
           std::vector<std::string>* malformed_rows = nullptr);

  std::size_t num_rows() const { return rows_.size(); }
  /// The position of the first column of that name. Throws InputError if there is none.
  std::size_t column(std::string_view name) const;
  bool has(std::string_view name) const;
  std::size_t num_columns() const { return header_.fields.size(); }
  const std::string& name(std::size_t column) const { return header_.fields[column].text; }

  const std::string& text(std::size_t row, std::size_t column) const {
    return rows_[row].fields[column].text;
  }
  /// Throw InputError if the field is not a number, or below `least`.
  double number(std::size_t row, std::size_t column, double least = 0.0) const;
  std::int64_t whole(std::size_t row, std::size_t column, std::int64_t least = 0) const;

  /// "path:line:column", the place of a field.
  std::string where(std::size_t row, std::size_t column) const {
    return at_place(rows_[row].fields[column]);
  }

 private:
  struct Field {
    std::string text{};
    std::size_t line = 1, column = 1;  // in bytes
  };
  struct Row {
    std::vector<Field> fields{};
  };
  std::string at_place(const Field& field) const;

  std::string path_;
  Row header_;
  std::vector<Row> rows_;
};

}  // namespace baechi
