/// Runs a sweep into a folder, stores each row as soon as it is finished, and draws selected steps.
#pragma once

#include "scenarios/run/journal.h"
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
