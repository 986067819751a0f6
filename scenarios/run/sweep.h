/// What is to be run, read and checked before anything runs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "placers/placer.h"
#include "scenarios/run/prepared_graph.h"
#include "scenarios/results/results.h"
#include "scenarios/read/scenario.h"
#include "sim/error.h"

namespace baechi {

/// A graph on a cluster: what several runs share.
struct PlannedProblem {
  Cluster cluster;
  std::unique_ptr<CostModel> costs, placed_costs;  ///< of the step, of what placers see
  Duration lower_bound{};                          ///< of the step
};

struct PlannedRun {
  std::size_t file = 0, point = 0;  ///< into Plan::files, and a number of its points
  std::size_t graph = 0;            ///< into Plan::graphs
  std::size_t problem = 0;          ///< runs that have it equal share a PlannedProblem
  std::size_t placer = 0;           ///< into Plan::placers
  std::size_t choice = 0;           ///< into ScenarioFile::placers
  std::uint64_t seed = 0;
};

template <class T>
class Recent;

/// All that runs need, checked. Graphs are read and rewritten once each; a problem is made when a
/// run wants it, and kept while its neighbours do. Runs are numbered by file, point, placer, seed.
/// Const use is safe from several threads.
class Plan {
 public:
  Plan();
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  std::vector<ScenarioFile> files;
  std::vector<PreparedGraph> graphs;
  std::vector<std::size_t> graph_record;  ///< of each of `graphs`, into Results::graphs
  std::vector<std::unique_ptr<const Placer>> placers;
  Results header;                     ///< all but the rows
  std::vector<std::string> warnings;  ///< lines: of sizes that a calibration does not cover

  std::size_t num_runs() const { return header.planned; }
  std::size_t num_points() const;
  PlannedRun run(std::size_t id) const;
  /// The ids of a point's runs, one after the other; points are numbered through all files.
  struct Ids {
    std::size_t begin, end;
  };
  Ids runs_of(std::size_t point) const;
  std::shared_ptr<const PlannedProblem> problem(const PlannedRun& run) const;

  /// A hash of all that decides what the run finds: the version, the graph's content, cluster,
  /// engine, profile, placer and seed; not where it stands in the sweep. What files hold that a
  /// placer's options name is not in it.
  std::uint64_t key(std::size_t id) const;
  /// What is known of a run before it runs.
  RunResult row(std::size_t id) const;

 private:
  friend class Planner;
  /// Where a file's things begin.
  struct File {
    std::size_t point = 0, run = 0, graph = 0, problem = 0, placer = 0;
    std::vector<std::size_t> kinds;  // [clusters]: equal where graphs are timed alike
    std::size_t num_kinds = 0;
  };
  const File& file_of(std::size_t& number, std::size_t File::* begin, std::size_t& file) const;

  std::vector<File> begins_;               // [files]
  std::vector<std::uint64_t> graph_hash_;  // [graphs]: of the step and its transforms
  std::unique_ptr<Recent<PlannedProblem>> problems_;
  std::unique_ptr<Recent<Duration>> lower_bounds_;  // links and memory do not matter to them
};

/// Reads and transforms each distinct graph once, on up to `threads` threads, and makes placers;
/// every cluster is checked with every graph. What is wrong with any of them is added to
/// `mistakes`; then the plan is not to be run.
Plan make_plan(std::vector<ScenarioFile> files, std::size_t threads, Mistakes& mistakes);

}  // namespace baechi
