/// Adam, the usual way to follow noisy gradients.
#pragma once
#include <span>
#include <vector>

namespace baechi::learned {

/// Weights, and the moments of their gradients.
/// Source: Kingma and Ba, "Adam", ICLR 2015, with their constants.
class Adam {
 public:
  Adam() = default;
  explicit Adam(std::vector<double> begin);

  /// A step against `gradient`, which is first cut to the norm `longest`.
  void step(std::span<const double> gradient, double rate, double longest = 1.0);

  std::vector<double> weights, first, second;
  double decay_first = 1.0, decay_second = 1.0;  ///< powers of the constants
};

}  // namespace baechi::learned
