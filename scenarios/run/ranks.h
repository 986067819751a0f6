/// Distributes runs over processes on several machines, by MPI.
#pragma once

#include "scenarios/run/journal.h"
#include "scenarios/run/runner.h"

namespace baechi {

/// The processes that mpirun or srun started together, each with its own threads. Rank 0
/// distributes runs, writes the results, and runs some itself. Must be used by the constructing
/// thread only.
class Ranks {
 public:
  /// Joins the other processes, if there are any. Throws InputError if this needs MPI and the
  /// program is built without it.
  Ranks();
  ~Ranks();  ///< waits for the other processes
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Cores of this machine per rank on it, at least 1.
  std::size_t cores() const { return cores_; }

  /// Collective call with the hash of each rank's sweep (0: the rank has none). Returns the lowest
  /// rank whose hash differs from rank 0's, or -1.
  int disagreeing(std::uint64_t sweep) const;

  /// Rank 0: distributes `ids` to all ranks, in chunks that get smaller towards the end, until all
  /// rows are in the journal or settings.stop is set. One of settings.threads distributes, the
  /// others run.
  void deal(const Sweep& sweep, std::span<const std::size_t> ids, const RunSettings& settings,
            Journal& journal) const;
  /// Other ranks: run the ids from rank 0 on `threads` threads, and send the rows to it at least
  /// five times a second.
  void work(const Sweep& sweep, std::size_t threads) const;

  /// Ends all ranks immediately, this one with `code`.
  [[noreturn]] void abort(int code) const;

 private:
  int rank_ = 0, size_ = 1;
  std::size_t cores_ = 1;
};

}  // namespace baechi
