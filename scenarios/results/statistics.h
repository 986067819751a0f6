/// The statistics of a comparison: rank tests, their correction, and intervals by resampling.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

}  // namespace baechi
