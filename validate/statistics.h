/// Lines through samples, intervals by resampling, and correlations of ranks.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/cluster/calibration.h"
#include "validate/plan/timeline.h"

namespace baechi::validate {

/// y = fixed + slope x, minimising relative residuals, those of outliers (over 2 robust standard
/// deviations) with less weight (Huber, by reweighted least squares). Needs y > 0. With one
/// distinct x the line goes through the origin.
struct Line {
  double fixed = 0.0, slope = 0.0;
  double operator()(double x) const { return fixed + slope * x; }
};
Line relative_line(std::span<const double> x, std::span<const double> y);

/// The statistic of `groups` of samples, and the 2.5 and 97.5 % quantiles of it over `rounds`
/// resamplings of each group with replacement. The same for the same input.
Estimate bootstrap(const std::vector<Samples>& groups,
                   const std::function<double(const std::vector<Samples>&)>& statistic,
                   int rounds = 400);
Estimate bootstrap(const Samples& samples, const std::function<double(Samples)>& statistic,
                   int rounds = 400);

/// Correlation of ranks, ties sharing the mean of theirs; NaN if one side is constant.
double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace baechi::validate
