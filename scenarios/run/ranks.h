/// Runs dealt to processes on several machines, by MPI.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/run/journal.h"
#include "scenarios/run/runner.h"

namespace baechi {

/// The processes that mpirun or srun started together, each one with threads of its own. Rank 0
/// deals out runs, writes what is found, and works too. Only the thread that made this may use it.
class Ranks {
 public:
  /// Joins the others, if it was started with others. Throws InputError if it was, and this program
  /// is built without MPI.
  Ranks();
  ~Ranks();  ///< waits for the others
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// Cores that each rank of this machine may have for itself, at least 1.
  std::size_t cores() const { return cores_; }

  /// Called by all ranks, each with the hash of its sweep (0: the rank could not make one). Returns
  /// the lowest rank whose hash is not rank 0's, or -1.
  int disagreeing(std::uint64_t sweep) const;

  /// Rank 0: deals `ids`, in chunks that get smaller towards the end, to all ranks, until all are
  /// done and in the journal, or settings.stop. Its own share it does on all of settings.threads
  /// but one, which deals.
  void deal(const Sweep& sweep, std::span<const std::size_t> ids, const RunSettings& settings,
            Journal& journal) const;
  /// All others: what they are dealt, on `threads` threads. What is found is sent at least five
  /// times a second.
  void work(const Sweep& sweep, std::size_t threads) const;

  /// Ends all ranks at once, this one with `code`.
  [[noreturn]] void abort(int code) const;

 private:
  int rank_ = 0, size_ = 1;
  std::size_t cores_ = 1;
};

}  // namespace baechi
