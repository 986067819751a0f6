/// Linear fits that outliers hardly move.
#pragma once
#include <span>
#include <vector>

namespace baechi::validate {

/// The x for which the sum over the rows of |features . x / measured - 1| is least, by reweighted
/// least squares with a fixed number of rounds: the same for the same rows. Every row has as many
/// features, more rows than features; measured > 0. Throws InputError if the rows do not determine
/// x.
struct FitRow {
  std::vector<double> features;
  double measured = 0.0;
};
std::vector<double> least_relative_deviations(std::span<const FitRow> rows);

}  // namespace baechi::validate
