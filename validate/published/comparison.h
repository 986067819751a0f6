/// Rows of files that a fit cannot read.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/csv_table.h"
#include "sim/error.h"

namespace baechi::validate {

/// The place of a row, "path:line:1".
inline std::string line_of(const CsvTable& table, std::size_t row) {
  return table.where(row, 0);
}

/// Rows of files that are not read, and the files.
struct Leftovers {
  struct Row {
    std::string line;  ///< as line_of() has it
    std::string why;   ///< for people, with its place
  };
  std::vector<Row> skipped{};
  std::map<std::string, std::size_t> files{};  ///< rows of each file, by its path

  /// `why` may begin with the place of a field of the line.
  void skip(const std::string& line, std::string_view why) {
    skipped.push_back({line, why.starts_with(line.substr(0, line.rfind(':') + 1))
                                 ? std::string(why)
                                 : fmt::format("{}: {}", line, why)});
  }
  /// Throws InputError with every row that was skipped: a fit leaves nothing out.
  void throw_if_any() const {
    Mistakes mistakes;
    for (const Row& row : skipped) mistakes.add(row.why);
    mistakes.throw_if_any();
  }
};

/// `read(row)` of each row of the table; a row that throws InputError is skipped.
void each_row(const CsvTable& table, Leftovers& left, const auto& read) {
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    try {
      read(row);
    } catch (const InputError& e) {
      left.skip(line_of(table, row), e.what());
    }
  }
}

}  // namespace baechi::validate
