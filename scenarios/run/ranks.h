/// Distributes runs over processes on several machines, by MPI.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/run/journal.h"
#include "scenarios/run/runner.h"

namespace baechi {

/// The processes that mpirun or srun started together, each with threads of its own. Rank 0 hands
/// out runs, writes the results, and runs some itself. Only the thread that made this may use it.
class Ranks {
 public:
  /// Joins the other processes, if there are any. Throws InputError if there are and this program
  /// is built without MPI.
  Ranks();
  ~Ranks();  ///< waits for the other processes
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Cores of this machine per rank on it, at least 1.
  std::size_t cores() const { return cores_; }

  /// Called by all ranks, each with the hash of its sweep (0: the rank could not make one). Returns
  /// the lowest rank whose hash is not rank 0's, or -1.
  int disagreeing(std::uint64_t sweep) const;

  /// Rank 0: hands out `ids` to all ranks, in chunks that get smaller towards the end, until all
  /// rows are in the journal or settings.stop is set. One of settings.threads hands out, the others
  /// run.
  void deal(const Sweep& sweep, std::span<const std::size_t> ids, const RunSettings& settings,
            Journal& journal) const;
  /// All other ranks: run the ids from rank 0 on `threads` threads, and send the rows to it at
  /// least five times a second.
  void work(const Sweep& sweep, std::size_t threads) const;

  /// Ends all ranks at once, this one with `code`.
  [[noreturn]] void abort(int code) const;

 private:
  int rank_ = 0, size_ = 1;
  std::size_t cores_ = 1;
};

}  // namespace baechi
