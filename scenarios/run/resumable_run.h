/// Runs a sweep into a folder and stores each row as soon as it is finished.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scenarios/run/journal.h"
#include "scenarios/run/runner.h"

namespace baechi {

/// DIR/runs.journal contains every finished run until DIR/results.* do. Memory use does not grow
/// with the rows.
class ResumableRun {
 public:
  /// Runs `ids`. With `resume`, keeps the runs that an earlier process finished in this folder;
  /// `wait` is how long to wait for a process that is still ending. Throws InputError as Journal
  /// does, if DIR/results.sqlite cannot be read, or if it has runs of another sweep; then the
  /// folder is unchanged.
  ResumableRun(std::string folder, const Sweep& sweep, std::vector<std::size_t> ids, bool resume,
               std::chrono::milliseconds wait = {});

  /// The ids that have no row yet.
  std::vector<std::size_t> remaining() const;
  Journal& journal() { return journal_; }

  /// Runs `ids` in this process.
  void run(std::span<const std::size_t> ids, const RunSettings& settings);

  struct Outcome {
    std::size_t rows = 0, failed = 0;
    std::size_t timelines = 0;  ///< files
    std::string first_failure;  ///< "run 7 (m_etf): why"
  };
  /// Draws steps, writes the results to the disk, and then removes the journal. `shard` is the name
  /// of the ids among all runs, such as "2/8"; "" if they are all runs.
  Outcome finish(const RunSettings& settings, const std::string& shard = "");
  /// All rows, also after finish(), and then with their pictures.
  EachRow rows() const;

 private:
  void take_over_results();

  const std::string folder_;
  const Sweep& sweep_;
  const std::vector<std::size_t> ids_;
  Journal journal_;
  std::map<std::size_t, std::string> pictures_;  // by id
};

}  // namespace baechi
