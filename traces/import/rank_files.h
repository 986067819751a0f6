/// The files of one job's ranks: recordings of several processes that belong together.
#pragma once
#include <string>
#include <vector>

#include "sim/options.h"

namespace baechi {

/// Declares the option `ranks`, a pattern such as "trace_*.json" for names in the folder of `path`,
/// and returns the paths that it describes, ordered by the numbers in their names; `path` alone if
/// it is not given. It is a mistake if the pattern does not describe `path`.
std::vector<std::string> rank_files(const std::string& path, Options& options);

/// The files that `pattern`, a path with * or ? in its last part, describes, ordered by the numbers
/// in their names.
std::vector<std::string> numbered_files(const std::string& pattern);

}  // namespace baechi
