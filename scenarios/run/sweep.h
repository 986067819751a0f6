/// All runs of one or more scenarios, which are read and checked before the first run begins.
#pragma once

#include "scenarios/results/results.h"
#include "scenarios/run/experiment.h"

namespace baechi {

struct SweepParts;

/// A graph of a sweep on devices of certain types, after certain transforms.
struct SweepGraph {
  std::shared_ptr<const PreparedGraph> prepared;
  std::uint64_t hash = 0;  ///< of the step and of the transforms' texts
  std::size_t record = 0;  ///< into ResultsHeader::graphs
};

struct PlacerAnswer {
  std::optional<Placement> placement{};  ///< nothing: see `failure` and `why`
  Status failure = Status::infeasible;
  std::string why{};
  std::chrono::nanoseconds took{};       ///< wall clock
  std::chrono::nanoseconds processor{};  ///< processor time, of all threads
};

/// One run of a sweep: a placer on a point with a seed, and a measure. Refers to the sweep, which
/// must outlive it.
struct Run {
  std::size_t id = 0;        ///< among all runs of the sweep
  std::size_t scenario = 0;  ///< into Sweep::files()
  std::size_t point = 0;     ///< among the points of `file`
  const ScenarioFile& file;
  const SweepGraph& graph;
  const ClusterChoice& cluster;
  const EngineOptions& engine;
  const ProfileChoice& profile;
  const PlacerChoice& placer;
  std::uint64_t seed = 0;
  const MeasureChoice& measure;
  std::size_t placed = 0;      ///< runs with equal values share a placement
  std::size_t costed = 0;      ///< runs with equal values share a CostedGraph
  std::uint64_t bound_of = 0;  ///< runs with equal values share a lower bound
};

/// The runs, numbered by file, point, placer, seed, measure. Each graph is read and transformed
/// once; its costs on a cluster are computed on demand and kept for neighbouring runs. Const use is
/// thread-safe.
class Sweep {
 public:
  /// For make_sweep(). Sets header.hash.
  explicit Sweep(SweepParts parts);
  Sweep(Sweep&&) noexcept;
  Sweep& operator=(Sweep&&) noexcept;
  ~Sweep();

  std::span<const ScenarioFile> files() const;
  const ResultsHeader& header() const;
  /// Messages for the user: sizes that a calibration does not cover.
  std::span<const std::string> warnings() const;

  std::size_t num_runs() const { return header().planned; }
  std::size_t num_points() const;
  Run run(std::size_t id) const;
  /// The ids [begin, end) of a point's runs; points are numbered through all files.
  struct Ids {
    std::size_t begin, end;
  };
  Ids runs_of(std::size_t point) const;

  Experiment experiment(const Run& run) const;
  /// Bounds of the run's graph on its cluster, before transforms change the placed step.
  LowerBounds lower_bounds(const Run& run) const;

  /// The answer of `place` for the run's placer, seed and point. Runs that differ only in their
  /// measures share it: `place` is called once for neighbouring runs.
  std::shared_ptr<const PlacerAnswer> answer(const Run& run,
                                             const std::function<PlacerAnswer()>& place) const;

  /// A hash of everything that determines the results of the run: the program's version,
  /// hash_of_point(), placer, seed and measure. Excludes the run's id and the content of files that
  /// a placer's options name.
  std::uint64_t key(const Run& run) const;
  /// A row with the columns that are known before the run.
  RunResult row(const Run& run) const;

 private:
  std::string hash_of_runs() const;
  std::unique_ptr<SweepParts> parts_;
};

/// Reads and transforms each distinct graph once, on up to `threads` threads, and checks every
/// graph on every cluster. All mistakes are added to `mistakes`; if there are any, the sweep has no
/// runs.
Sweep make_sweep(std::vector<ScenarioFile> files, std::size_t threads, Mistakes& mistakes);

}  // namespace baechi
