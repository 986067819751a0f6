#include "scenarios/results/results.h"

#include <array>

#include "scenarios/results/sqlite.h"

namespace baechi {

std::string_view to_text(Status status) {
  constexpr std::array<std::string_view, 4> names{"ok", "oom", "infeasible", "error"};
  return names[static_cast<std::size_t>(status)];
}

std::string_view to_text(Transfers transfers) {
  constexpr std::array<std::string_view, 5> names{"sequential", "parallel", "duplex", "shared",
                                                  "staged"};
  return names[static_cast<std::size_t>(transfers)];
}

EachRow each_row(const Results& results) {
  return [&results](const VisitRow& visit) {
    for (const RunResult& row : results.rows) visit(row);
  };
}

Results read_results(const std::string& folder) {
  return read_sqlite(folder + "/results.sqlite");
}

}  // namespace baechi
