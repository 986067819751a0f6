/// A plan run into a folder: what is found is kept as it is found.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scenarios/run/journal.h"
#include "scenarios/run/runner.h"

namespace baechi {

/// DIR/runs.journal has every finished run until DIR/results.* have them. Memory does not grow with
/// the rows.
class ResumableRun {
 public:
  /// With `resume`, the runs stay that the folder has from a run that ended, was interrupted or was
  /// killed; it may have no others. Throws InputError.
  ResumableRun(std::string folder, const Sweep& sweep, bool resume);

  /// Of `ids`, those that are still to be run.
  std::vector<std::size_t> remaining(std::vector<std::size_t> ids) const;
  Journal& journal() { return journal_; }

  /// Runs `ids` in this process.
  void run(std::span<const std::size_t> ids, const RunSettings& settings);

  struct Outcome {
    std::size_t rows = 0, failed = 0;
    std::size_t timelines = 0;  ///< files
    std::string first_failure;  ///< "run 7 (m_etf): why"
  };
  /// Draws steps, writes the results, and removes the journal.
  Outcome finish(const RunSettings& settings);
  /// All rows, also after finish(), with their pictures then.
  EachRow rows() const;

 private:
  void take_over_results();

  const std::string folder_;
  const Sweep& sweep_;
  Journal journal_;
  std::map<std::size_t, std::string> pictures_;  // by id
};

}  // namespace baechi
