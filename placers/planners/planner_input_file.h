/// Reads Piper's inputs: graphs with times and sizes per degree of tensor parallelism, in modes.
#pragma once
#include <string>

#include "placers/planners/staged_plan.h"

namespace baechi {
class TextFile;
}

namespace baechi::planners {

/// Reads the format of traces/import/piper_file.h with all degrees and modes. Times are taken as
/// seconds, whatever their unit. Throws InputError with path:line:column and all mistakes at once:
/// those of read_piper_file(), and a cycle.
PlannerInput read_planner_input(TextFile& file);
PlannerInput read_planner_input(const std::string& path);

}  // namespace baechi::planners
