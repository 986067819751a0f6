/// The runs of a sweep, each independent of the others.
#pragma once
#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "scenarios/run/sweep.h"

namespace baechi {

/// The step of a run, once more. Its placement is the row's where that says all, else the placer's,
/// made anew. The row must be one whose step was simulated.
ExperimentStep step_of(const Sweep& sweep, const RunResult& row);

/// Places and simulates. A placer's InfeasibleError becomes Status::infeasible, any other exception
/// Status::error.
RunResult run_one(const Sweep& sweep, std::size_t id);

std::vector<std::size_t> all_runs(const Sweep& sweep);

/// The ids of the `shard`-th of `shards` (from 1), ascending: points are dealt in turn, in an order
/// without pattern that depends on what they are alone. All runs of a point are in one shard.
std::vector<std::size_t> shard_runs(const Sweep& sweep, std::size_t shard, std::size_t shards);

/// The next run to begin, nothing if there is none; called by several threads at once.
using NextRun = std::function<std::optional<std::size_t>()>;
/// Takes finished runs; called by one thread at a time.
using TakeRows = std::function<void(std::span<const RunResult>)>;

/// Runs what `next` says on `threads` threads, and gives what is finished to `take`, some at a time
/// but within a tenth of a second of the next's end. What `take` throws ends the work and is
/// thrown.
void run_each(const Sweep& sweep, std::size_t threads, const NextRun& next, const TakeRows& take);

/// `ids`, one after the other; none once `stop` (null: never) is set.
NextRun each_of(std::span<const std::size_t> ids, std::atomic<std::size_t>& begun,
                const std::atomic<bool>* stop);

struct RunSettings {
  std::size_t threads = 1;
  const std::atomic<bool>* stop = nullptr;   ///< once set, no further run begins
  std::atomic<std::size_t>* done = nullptr;  ///< counts runs as they end
};

/// Runs `ids`. The rows by id; if stopped, those that ended.
Results run(const Sweep& sweep, std::span<const std::size_t> ids, const RunSettings& settings);

}  // namespace baechi
