/// Writes results as CSV and as JSON, row by row, without holding them all in memory.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/results/columns.h"

namespace baechi {

/// Receives text in pieces.
using Print = std::function<void(std::string_view)>;

/// The lines of results.csv.
class CsvRows {
 public:
  CsvRows(const ResultsHeader& header, Print print);
  void add(const std::vector<std::string>& cells);  ///< cells of result_cells()
  void end();

 private:
  static constexpr std::size_t piece = std::size_t{1} << 18U;  // bytes, printed at once
  void add_line(const std::vector<std::string>& cells);
  std::vector<ResultColumn> columns_;
  Print print_;
  std::string lines_;
};

/// A cell in CSV: quoted if needed. Text that a spreadsheet would run as a formula (it begins with
/// = + - @, a tab or a carriage return, and is no number) is prefixed by an apostrophe.
std::string csv_cell(const std::string& cell, ColumnType type);

void print_csv(const ResultsHeader& header, const EachRow& rows, const Print& print);
std::string to_csv(const Results& results);

/// An array of objects, one per row; the keys are the columns.
void print_json(const ResultsHeader& header, const EachRow& rows, const Print& print);

}  // namespace baechi
