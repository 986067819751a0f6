/// The statistics of a comparison: rank tests, their correction, and intervals by resampling.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace baechi {

/// The two-sided p of Wilcoxon's signed-rank test (Wilcoxon, Biometrics Bulletin 1945): how often
/// chance alone would be as one-sided as `differences`. Differences of 0 are left out; equal ones
/// share the mean of their ranks. Exact up to 50 differences, by the permutations of the signs; the
/// normal approximation with continuity and ties beyond. 1 if nothing is left.
double signed_rank_p(std::span<const double> differences);

/// The p of several tests, corrected for their number: the chance of any false finding is at most
/// the corrected p (Holm, Scandinavian Journal of Statistics 1979). [p.size()]
std::vector<double> holm(std::span<const double> p);

/// The logarithms of some ratios that belong to one graph, as their sum and number.
struct LogSum {
  double sum = 0.0;
  std::size_t count = 0;
};

struct Interval {
  double low = 0.0, high = 0.0;
};

/// Between which values the geometric mean of the ratios lies in 95 of 100 cases, if the graphs are
/// drawn anew with replacement (percentile bootstrap, 2000 draws, fewer of more than 1000 graphs).
/// Nothing if fewer than two graphs have a ratio. The draws are the same in every call.
std::optional<Interval> bootstrap_interval(std::span<const LogSum> graphs);

}  // namespace baechi
