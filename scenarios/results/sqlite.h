/// Results as an SQLite file. Tables: meta, scenarios, graphs, axes, results (as results.csv), runs
/// (keys, and the scenario and graph of each row), run_axes (the swept values), facts, placements
/// and pictures.
#pragma once
#include <memory>
#include <string>

#include "scenarios/results/results.h"

namespace baechi {

/// A new file, row by row; one that is there is replaced. Throws std::runtime_error if anything
/// goes wrong. end() adds a checksum of the content, and another of the times of placing; without
/// them the file is not to be used.
class SqliteRows {
 public:
  SqliteRows(const std::string& path, const ResultsHeader& header);
  ~SqliteRows();
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;
  void add(const RunResult& row,
           const std::vector<std::string>& cells);  ///< as result_cells() gives
  void end();

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

/// Throws InputError, naming the file, if it is not there, is damaged (its checksum is another), or
/// is not as SqliteRows makes it.
Results read_sqlite(const std::string& path);

}  // namespace baechi
