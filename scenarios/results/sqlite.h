/// Results as an SQLite file. Tables: meta, scenarios, graphs, axes, results (as results.csv), runs
/// (keys, and the scenario and graph of each row), run_axes (the swept values), facts, placements
/// and pictures.
#pragma once
#include <memory>
#include <string>

#include "scenarios/results/results.h"

namespace baechi {

/// Writes a new file row by row, replacing an existing one. Throws std::runtime_error on any error.
/// end() adds a checksum of the content, and another of the placing times; without them the file is
/// invalid.
class SqliteRows {
 public:
  SqliteRows(const std::string& path, const ResultsHeader& header);
  ~SqliteRows();
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;
  void add(const RunResult& row,
           const std::vector<std::string>& cells);  ///< cells of result_cells()
  void end();

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

/// Throws InputError, naming the file, if it does not exist, is damaged (by its checksum), or was
/// not written by SqliteRows.
Results read_sqlite(const std::string& path);

}  // namespace baechi
