/// The columns of results: one table, from which the CSV, JSON and SQLite files derive.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/results/results.h"

namespace baechi {

enum class ColumnType : std::uint8_t { id, whole, real, text };  ///< id: whole, the primary key

/// A column that all results have.
struct Column {
  std::string_view name;
  ColumnType type;
  /// May be "".
  std::string (*cell)(const ResultsHeader&, const RunResult&);
  std::string_view shows_axis{};  ///< the swept key that this column replaces
};
std::span<const Column> fixed_columns();

/// A column of some results: the fixed ones first, then, as text, the axes that no fixed column
/// shows.
struct ResultColumn {
  std::string name;
  ColumnType type;
};
std::vector<ResultColumn> result_columns(const ResultsHeader& header);
/// One cell per column.
std::vector<std::string> result_cells(const ResultsHeader& header, const RunResult& row);

/// RunResult::point as 16 digits.
std::string point_text(std::uint64_t point);

/// Samples of the graph per second; nothing if the row has no step time, or the graph no batch.
std::optional<double> throughput(const ResultsHeader& header, const RunResult& row);

}  // namespace baechi
