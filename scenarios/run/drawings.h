/// Steps of chosen runs, simulated once more to be looked at.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "scenarios/run/runner.h"

namespace baechi {

/// Which of `points` points of `per_point` runs the report draws, if it draws at most `most` runs:
/// as many as that makes, evenly chosen. All runs of a point if `most` has room for them, else its
/// fastest. Depends on nothing that was found, so that shards agree.
std::vector<std::size_t> points_to_draw(std::size_t points, std::size_t per_point,
                                        std::size_t most);

using RowById = std::function<std::optional<RunResult>(std::size_t)>;

struct DrawnSteps {
  std::map<std::size_t, std::string> pictures;  ///< by run
  std::size_t files = 0;                        ///< written
};

/// Draws those of the runs that there are, and writes ID.PLACER.trace.json.gz into `folder` (made
/// if need be), as each scenario's report block says. `row` has to be
/// safe from several threads. `stop`: as RunSettings. Throws std::runtime_error if a file cannot be
/// written.
DrawnSteps draw_steps(const Sweep& sweep, const RowById& row, const std::string& folder,
                      std::size_t threads, const std::atomic<bool>* stop = nullptr);

/// The same of all rows; gives them their pictures. Returns how many files were written.
std::size_t draw_steps(Results& results, const Sweep& sweep, const std::string& folder,
                       std::size_t threads);

}  // namespace baechi
