#include "scenarios/report/write_results.h"

#include <filesystem>

#include "scenarios/report/html.h"
#include "scenarios/results/csv.h"
#include "scenarios/results/overview.h"
#include "scenarios/results/sqlite.h"
#include "sim/file_aside.h"

namespace baechi {

void write_results(const std::string& folder, const ResultsHeader& header, const EachRow& rows) {
  std::filesystem::create_directories(folder);
  const std::string database = folder + "/results.sqlite";
  AtomicFile csv_file(folder + "/results.csv");
  CsvRows csv(header, [&](std::string_view text) { csv_file.print(text); });
  Overview overview(header);
  {
    SqliteRows sqlite(database + ".part", header);
    rows([&](const RunResult& row) {
      const std::vector<std::string> cells = result_cells(header, row);
      csv.add(cells);
      sqlite.add(row, cells);
      overview.add(row);
    });
    sqlite.end();
  }
  csv.end();
  csv_file.take_name_durably();
  rename_durably(database + ".part", database);
  write_aside(folder + "/report.html", to_html(overview));
}

void write_results(const std::string& folder, const Results& results) {
  write_results(folder, results, each_row(results));
}

}  // namespace baechi
