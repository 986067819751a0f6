/// The folder of results that `baechi run` writes.
#pragma once
#include <string>

#include "scenarios/results/results.h"

namespace baechi {

/// Writes results.csv, results.sqlite and report.html into `folder`, which is created if needed,
/// each to a temporary file that is then renamed. Throws std::runtime_error on failure.
void write_results(const std::string& folder, const ResultsHeader& header, const EachRow& rows);
void write_results(const std::string& folder, const Results& results);

}  // namespace baechi
