/// The runs of a sweep, each independent of the others.
#pragma once

#include "scenarios/run/sweep.h"

namespace baechi {

/// Calls work(0), ..., work(count - 1), each once, on up to `threads` threads; an idle thread takes
/// the next number. Once `*stop` (if given) is set, no further number is taken. `work` must not
/// throw.
void for_each_in_parallel(std::size_t count, std::size_t threads, const std::atomic<bool>* stop,
                          const std::function<void(std::size_t)>& work);

/// The sweep of `results`, read again from the scenarios in them, whose paths start from the
/// working directory as they did. Throws InputError if its runs are others now, as where a file
/// changed.
Sweep sweep_again(const Results& results);

/// The step of a run, rebuilt. Its placement is the row's if the row has a complete one, otherwise
/// it is placed again. The row's step must have been simulated.
ExperimentStep step_of(const Sweep& sweep, const RunResult& row);

struct ReplayedRun {
  std::string name;  ///< "run 3, m_etf", or a file's
  Experiment experiment;
  ExperimentStep step;
};
/// The steps of the runs `ids` of the results in a folder. Throws InputError, as of the flag --run.
std::vector<ReplayedRun> runs_again(const std::string& folder, std::span<const std::string> ids);

/// Places and simulates. A placer's InfeasibleError gives Status::infeasible, any other exception
/// Status::error.
RunResult run_one(const Sweep& sweep, std::size_t id);

std::vector<std::size_t> all_runs(const Sweep& sweep);

/// The ids of shard number `shard` of `shards` (counted from 1), ascending. Points are sorted by
/// hash and assigned in turn, so that equal points of two sweeps tend to be in the same shard, and
/// every shard has points of all sizes. All runs of a point are in one shard.
std::vector<std::size_t> shard_runs(const Sweep& sweep, std::size_t shard, std::size_t shards);

/// Returns the next run to begin, nothing if there is none; called by several threads at once.
using NextRun = std::function<std::optional<std::size_t>()>;
/// Receives finished runs; called by one thread at a time.
using TakeRows = std::function<void(std::span<const RunResult>)>;

/// Runs the ids that `next` returns, on `threads` threads, until it returns nothing. Finished rows
/// go to `take` in batches, at the latest with the first run that ends a tenth of a second after
/// the last batch. If `take` throws, no further run begins and the exception is thrown.
void run_each(const Sweep& sweep, std::size_t threads, const NextRun& next, const TakeRows& take);

/// Returns `ids` one after the other, and nothing once `*stop` is set (null: never).
NextRun each_of(std::span<const std::size_t> ids, std::atomic<std::size_t>& begun,
                const std::atomic<bool>* stop);

struct RunSettings {
  std::size_t threads = 1;
  const std::atomic<bool>* stop = nullptr;   ///< once set, no further run begins
  std::atomic<std::size_t>* done = nullptr;  ///< counts runs as they end
};

/// Runs `ids`. Rows are sorted by id; if stopped, only finished runs have rows.
Results run(const Sweep& sweep, std::span<const std::size_t> ids, const RunSettings& settings);

}  // namespace baechi
