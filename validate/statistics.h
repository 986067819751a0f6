/// Lines through samples, intervals by resampling and correlations of ranks; and how well a
/// calibration was fitted, and which of its numbers no machine can have.
#pragma once

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

/// A fitted number, or a fitted line or table.
struct Fit {
  std::string what;   ///< "graph link: occupancy"
  std::string value;  ///< "310 ns (290 to 330)", "4 sizes, 16384 to 1048576, a line"
  std::string
      error;  ///< "worst residual 2.1 %, size left out 3.0 %"; "" where the interval says it
  std::string wrong;  ///< why it makes no sense; "" if it does
};

/// A number makes no sense if its whole interval is below 0; a line, if it falls; a table, if an
/// entry is 1 ns or less; ops, if a size that was left out is off by more than a quarter.
std::vector<Fit> fits_of(const Calibration& calibration);

}  // namespace baechi::validate
