/// Gradients written by hand, held against differences.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace baechi::testing {

/// The largest difference between `gradient` and central differences of `loss`, over the largest
/// component of the gradient.
inline double worst(std::vector<double>& weights, const std::vector<double>& gradient,
                    const std::function<double()>& loss) {
  constexpr double step = 1e-5;
  double largest = 0.0, difference = 0.0;
  for (const double g : gradient) largest = std::max(largest, std::abs(g));
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double kept = weights[i];
    weights[i] = kept + step;
    const double above = loss();
    weights[i] = kept - step;
    const double below = loss();
    weights[i] = kept;
    difference = std::max(difference, std::abs((above - below) / (2 * step) - gradient[i]));
  }
  return difference / largest;
}

}  // namespace baechi::testing
