/// Draws the steps of selected runs, which are simulated again for this.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "scenarios/run/runner.h"

namespace baechi {

/// Selects the points whose runs the report draws: of `points` points with `per_point` runs each,
/// as many as possible, evenly spaced, with at most `most` runs in total. All runs of a point are
/// drawn if `most` >= `per_point`, else the fastest. Independent of the results, so that shards
/// agree.
std::vector<std::size_t> points_to_draw(std::size_t points, std::size_t per_point,
                                        std::size_t most);

using RowById = std::function<std::optional<RunResult>(std::size_t)>;

struct DrawnSteps {
  std::map<std::size_t, std::string> pictures;  ///< by id of the run
  std::size_t files = 0;                        ///< timelines written
};

/// Draws pictures, and writes ID.PLACER.trace.json.gz into `folder` (created if needed), as each
/// scenario's section `report` requests, for the runs that have rows. Removes the timelines of
/// other runs from `folder`. `row` must be thread-safe. `stop`: as in RunSettings. Throws
/// std::runtime_error if a file cannot be written.
DrawnSteps draw_steps(const Sweep& sweep, const RowById& row, const std::string& folder,
                      std::size_t threads, const std::atomic<bool>* stop = nullptr);

/// The same for all rows, to which the pictures are added. Returns the number of files written.
std::size_t draw_steps(Results& results, const Sweep& sweep, const std::string& folder,
                       std::size_t threads);

}  // namespace baechi
