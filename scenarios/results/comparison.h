/// Comparison of placers: the result of each at every point, and statistics.
#pragma once

#include "scenarios/results/results.h"

namespace baechi {

/// The two-sided p of Wilcoxon's signed-rank test (Wilcoxon, Biometrics Bulletin 1945). Differences
/// of 0 are excluded; equal ones share the mean of their ranks. Exact up to 50 differences, by the
/// permutations of the signs; with more, the normal approximation with corrections for continuity
/// and ties. 1 if no difference is left.
double signed_rank_p(std::span<const double> differences);

/// The p values corrected for the number of tests: the probability of any false positive is at most
/// the corrected p (Holm, Scandinavian Journal of Statistics 1979). [p.size()]
std::vector<double> holm(std::span<const double> p);

/// The sum and number of the logarithms of a graph's ratios.
struct LogSum {
  double sum = 0.0;
  std::size_t count = 0;
};

struct Interval {
  double low = 0.0, high = 0.0;
};

/// The 95 % interval of the geometric mean of the ratios by a percentile bootstrap over graphs
/// (2000 resamples, fewer for more than 1000 graphs). Nothing if fewer than two graphs have a
/// ratio. Deterministic.
std::optional<Interval> bootstrap_interval(std::span<const LogSum> graphs);

/// One choice of graph, cluster and engine, and the result of each placer.
struct ContestPoint {
  /// A placer's median run: its seeds ordered by step time, failures last; of an even number the
  /// slower median. So seeds do not compete with each other.
  struct Entry {
    std::uint32_t placer = 0;  ///< into Contest::placers
    Status status{};
    std::optional<Duration> step_time{};  ///< or another measure's value; if ok
    std::chrono::nanoseconds
        placing{};           ///< median over its seeds, in whole microseconds as in files
    bool fell_back = false;  ///< RunResult::fell_back()
  };
  std::uint32_t unit = 0;  ///< index of the graph in the statistics
  Duration bound{};
  std::vector<Entry>
      entries{};  ///< in the order of placers; a placer that was not run has no entry
};

/// All points of some results for one measure, that of the first run: different measures are not
/// compared.
struct Contest {
  std::string measure{};
  std::vector<std::string> placers{};
  std::vector<ContestPoint> points{};
};

/// Builds a contest from runs that are grouped by point, as those of a sweep are.
class ContestBuilder {
 public:
  void add(const RunResult& row);
  /// The contest of all runs so far. More may be added.
  Contest contest() const;

 private:
  void close(Contest& contest) const;  // adds the last point

  Contest contest_;
  std::vector<ContestPoint::Entry> runs_;  // of the current point, one per seed
  Duration bound_{};                       // of the current point, as the following members
  std::size_t scenario_ = 0, graph_ = 0;
  std::vector<std::string> at_;
};

/// The contest of the runs in several folders: points of equal graph, cluster size, memory, swept
/// values, scenario name and bound are one point. A placer that occurs in several folders is one
/// placer per folder: "m_etf (old)". `replicate`: a swept key of graphs, such as "graph.seed";
/// graphs that differ only in it count as one graph. Throws InputError if no folder sweeps it.
Contest joined_contest(std::span<const Results> folders, std::span<const std::string> names,
                       const std::string& replicate);

/// The least ratio of a failure in a mean of ratios; it counts as much as the largest ratio of any
/// placer.
inline constexpr double failure_ratio = 10.0;

/// The ranking of placers in compare, report and arena: placers without failures, then those with
/// some, then those that solve nothing; within each by the mean ratio, in which a failure counts
/// failure_ratio. So a failure costs more than any success. Points that no placer solves are
/// excluded.
struct Rank {
  Rank(std::size_t solved, std::size_t failures, double mean)
      : tier(solved == 0    ? 2
             : failures > 0 ? 1
                            : 0),
        ratio(mean) {}
  int tier;
  double ratio;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

struct MeanRatio {
  std::size_t points = 0;
  double mean = 0.0;                   ///< 0 if there are no points
  std::optional<Interval> interval{};  ///< over graphs; nothing if there are fewer than two
};

struct PlacerScore {
  std::string placer;
  std::size_t solved = 0, oom = 0, infeasible = 0, error = 0;  ///< points
  std::size_t best = 0;       ///< points where no placer was faster
  std::size_t failures = 0;   ///< points that another placer solves and this one does not
  std::size_t fell_back = 0;  ///< points that the option `fallback` solved
  /// Step time relative to the fastest placer and to the lower bound, over points where every
  /// placer has a step time.
  MeanRatio to_best{}, to_bound{};
  /// The same over points where any placer has one; a failure counts failure_ratio. A placer that
  /// solves nothing has no points.
  MeanRatio to_best_or_worst{}, to_bound_or_worst{};
  std::chrono::nanoseconds placing{};  ///< the median of its points
};

/// `a` against `b`, over points at which both were run.
struct Duel {
  std::size_t a = 0, b = 0;                    ///< into Comparison::placers
  std::size_t wins = 0, ties = 0, losses = 0;  ///< of `a`; both without a step time: a tie
  MeanRatio ratio{};             ///< a's step time relative to b's, where both have one
  std::size_t graphs = 0;        ///< graphs with a difference between the two
  double p = 1.0, p_holm = 1.0;  ///< signed ranks of the graphs' mean log ratios
};

struct Comparison {
  std::string measure{};  ///< Contest::measure
  double tolerance = 0.0;
  std::size_t points = 0;         ///< where any placer has a step time
  std::size_t solved_by_all = 0;  ///< where every placer has one
  std::size_t graphs = 0;
  std::vector<PlacerScore> placers{};  ///< by Rank, then solved, then first run
  std::vector<Duel> duels{};           ///< every pair, in the order of placers
};

/// The entries of a point: of `runs`, one per seed, each placer's median run.
std::vector<ContestPoint::Entry> middle_runs(std::vector<ContestPoint::Entry> runs);

/// Step times within `tolerance` (a fraction) of each other are a tie.
Comparison compare(const Contest& contest, double tolerance);

/// A performance profile (Dolan and More, Mathematical Programming 2002): the fraction of the
/// points at which a placer's cost is at most `ratio` times the least of all placers.
struct Profile {
  std::string placer;
  std::size_t number = 0;  ///< of the placer, into Contest::placers: its colour and mark in charts
  std::vector<double> ratios{};        ///< ascending, one per point with a step time
  std::size_t points = 0;              ///< all points included
  double share(std::size_t i) const {  ///< of points with a ratio of at most ratios[i]
    return static_cast<double>(i + 1) / static_cast<double>(points);
  }
};
/// Profiles of step times, or of the placing times of placements that have a step time, in the
/// order of Comparison::placers.
std::vector<Profile> step_profiles(const Contest& contest, const Comparison& comparison);
std::vector<Profile> placing_profiles(const Contest& contest, const Comparison& comparison);

/// The default tolerance: step times that differ by at most this fraction are a tie.
inline constexpr double usual_tolerance = 0.001;
/// "0.5 %" or "0.005"; usual_tolerance for "". Throws InputError, as of the flag --tolerance.
double read_tolerance(std::string text);

/// The folders' last path components, or the whole paths if two components are equal.
std::vector<std::string> short_names(const std::vector<std::string>& folders);

}  // namespace baechi
