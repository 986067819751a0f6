/// A folder of results, as `baechi run` leaves it.
#pragma once
#include <string>

#include "scenarios/results/results.h"

namespace baechi {

/// results.csv, results.sqlite and report.html in `folder`, which is made if need be; each written
/// aside and renamed. Throws std::runtime_error where that fails.
void write_results(const std::string& folder, const ResultsHeader& header, const EachRow& rows);
void write_results(const std::string& folder, const Results& results);

}  // namespace baechi
