/// What a block of the score board makes of its files: rows that it scores, and rows that it
/// cannot.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/csv_table.h"
#include "sim/error.h"

namespace baechi::validate {

/// One measurement and the simulated value of the same thing, in one unit.
struct PublishedRow {
  std::string what{};   ///< which row it is, for people: "4 GPUs, 1 MiB"
  std::string group{};  ///< rows of a group are also scored together: "4 GPUs"; "" for none
  double measured = 0.0, simulated = 0.0;
  /// What the baseline multiplies: flops, bytes, parameters; 0: the row has no baseline. Rows that
  /// are `alike` (a machine, a number format) have one rate.
  double work = 0.0;
  std::string alike{};
  /// What is trained, on which machine: rows that share it differ in their plans. "": none do.
  std::string race{};
  double size = 0.0;                 ///< bytes or ops, where rows differ in it alone; else 0
  bool refused = false;              ///< a training that ran, and is said not to fit
  std::vector<std::string> lines{};  ///< of files that it was read from, as line_of() has them

  double error() const { return simulated / measured - 1.0; }
};

/// The place of a row, "path:line:1".
inline std::string line_of(const CsvTable& table, std::size_t row) {
  return table.where(row, 0);
}

/// Rows of files that a block did not score, and the files.
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
  void throw_if_any() const;
};

struct Comparison {
  std::vector<PublishedRow> rows{};
  Leftovers left{};

  /// The rows of further files.
  void add(Comparison&& other) {
    std::ranges::move(other.rows, std::back_inserter(rows));
    std::ranges::move(other.left.skipped, std::back_inserter(left.skipped));
    left.files.merge(other.left.files);
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
