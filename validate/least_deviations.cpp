#include "validate/least_deviations.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/error.h"

namespace baechi::validate {
namespace {

constexpr int rounds = 60;
constexpr double least_deviation = 1e-5;  // below it a row weighs no more

/// Solves a x = b; `a` is [n, n] with the right side as its column n.
std::vector<double> solved(std::vector<std::vector<double>> a) {
  const std::size_t n = a.size();
  for (std::size_t i = 0; i < n; ++i) {
    const auto pivot =
        std::ranges::max_element(a.begin() + static_cast<std::ptrdiff_t>(i), a.end(), {},
                                 [i](const std::vector<double>& row) { return std::abs(row[i]); });
    std::swap(a[i], *pivot);
    if (!(std::abs(a[i][i]) > 1e-30)) throw InputError("the rows do not determine the fit");
    for (std::size_t k = i + 1; k < n; ++k) {
      const double factor = a[k][i] / a[i][i];
      for (std::size_t j = i; j <= n; ++j) a[k][j] -= factor * a[i][j];
    }
  }
  std::vector<double> x(n, 0.0);
  for (std::size_t i = n; i-- > 0;) {
    double rest = a[i][n];
    for (std::size_t j = i + 1; j < n; ++j) rest -= a[i][j] * x[j];
    x[i] = rest / a[i][i];
  }
  return x;
}

}  // namespace

std::vector<double> least_relative_deviations(std::span<const FitRow> rows) {
  BAECHI_CHECK(!rows.empty(), "no rows to fit");
  const std::size_t n = rows.front().features.size();
  // Features of very different sizes are brought to one.
  std::vector<double> scale(n, 0.0);
  for (const FitRow& row : rows)
    for (std::size_t i = 0; i < n; ++i)
      scale[i] = std::max(scale[i], std::abs(row.features[i]) / row.measured);
  for (double& s : scale) s = s > 0.0 ? s : 1.0;
  std::vector<double> weight(rows.size(), 1.0), x;
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::vector<double>> normal(n, std::vector<double>(n + 1, 0.0));
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const FitRow& row = rows[r];
      for (std::size_t i = 0; i < n; ++i) {
        const double f = row.features[i] / row.measured / scale[i];
        normal[i][n] += weight[r] * f;
        for (std::size_t j = 0; j < n; ++j)
          normal[i][j] += weight[r] * f * row.features[j] / row.measured / scale[j];
      }
    }
    x = solved(std::move(normal));
    for (std::size_t i = 0; i < n; ++i) x[i] /= scale[i];
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double value = std::inner_product(x.begin(), x.end(), rows[r].features.begin(), 0.0);
      weight[r] = 1.0 / std::max(least_deviation, std::abs(value / rows[r].measured - 1.0));
    }
  }
  return x;
}

}  // namespace baechi::validate
