/// Steps of chosen runs, simulated once more to be looked at.
#pragma once
#include <atomic>
#include <string>

#include "scenarios/run/runner.h"

namespace baechi {

/// Which rows the report draws, at most `most`: all that were simulated of as many points as that
/// makes, evenly chosen; of each but the fastest if there are more placers than that. Positions in
/// results.rows.
std::vector<std::size_t> rows_to_draw(const Results& results, std::size_t most);

/// Gives rows their pictures, and writes ID.PLACER.trace.json.gz into `folder` (made if need be),
/// as each scenario's report block says. `stop`: as RunSettings. Returns how many files were
/// written. Throws std::runtime_error if one cannot be.
std::size_t look_at_steps(Results& results, const Plan& plan, const std::string& folder,
                          std::size_t threads, const std::atomic<bool>* stop = nullptr);

}  // namespace baechi
