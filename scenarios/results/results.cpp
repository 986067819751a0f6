#include "scenarios/results/results.h"

#include <array>

#include "scenarios/results/sqlite.h"

namespace baechi {

EachRow each_row(const Results& results) {
  return [&results](const VisitRow& visit) {
    for (const RunResult& row : results.rows) visit(row);
  };
}

Results read_results(const std::string& folder) {
  return read_sqlite(folder + "/results.sqlite");
}

}  // namespace baechi
