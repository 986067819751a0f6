/// Rows of `adjusters`: repaired placements of a run without groups.
#pragma once
#include "tests/golden/replay.h"

namespace baechi::golden {

/// All rows of a results file; they start from its run of m-ETF without groups and limit.
void check_adjusters(const json& rows, Workload& workload, const std::string& file, Report& report);

}  // namespace baechi::golden
