/// Results as an SQLite file: tables meta, scenarios, graphs, axes, results (as results.csv, with
/// the axes by number beside), facts, placements and pictures.
#pragma once
#include <string>

#include "scenarios/run/results.h"

namespace baechi {

/// A new file at `path`; one that is there is replaced. Throws std::runtime_error.
void write_sqlite(const std::string& path, const Results& results);

/// Throws InputError if the file is not there or is not as write_sqlite makes it.
Results read_sqlite(const std::string& path);

}  // namespace baechi
