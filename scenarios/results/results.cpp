#include "scenarios/results/results.h"

#include <array>
#include <filesystem>

#include "scenarios/results/sqlite.h"

namespace baechi {

EachRow each_row(const Results& results) {
  return [&results](const VisitRow& visit) {
    for (const RunResult& row : results.rows) visit(row);
  };
}

Results read_results(const std::string& folder) {
  if (std::error_code none; std::filesystem::is_regular_file(folder, none))
    throw InputError(fmt::format(
        "{}: is a file: name the folder with the results.sqlite that 'baechi run' wrote", folder));
  return read_sqlite(folder + "/results.sqlite");
}

}  // namespace baechi
