#include "placers/learned/adam.h"

#include <cmath>
#include <utility>

namespace baechi::learned {

Adam::Adam(std::vector<double> begin)
    : weights(std::move(begin)), first(weights.size(), 0.0), second(weights.size(), 0.0) {}

void Adam::step(std::span<const double> gradient, double rate, double longest) {
  constexpr double beta_first = 0.9, beta_second = 0.999, epsilon = 1e-8;
  double sum = 0.0;
  for (const double g : gradient) sum += g * g;
  const double norm = std::sqrt(sum);
  const double scale = norm > longest ? longest / norm : 1.0;
  decay_first *= beta_first;
  decay_second *= beta_second;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double g = scale * gradient[i];
    first[i] = beta_first * first[i] + (1.0 - beta_first) * g;
    second[i] = beta_second * second[i] + (1.0 - beta_second) * g * g;
    weights[i] -= rate * (first[i] / (1.0 - decay_first)) /
                  (std::sqrt(second[i] / (1.0 - decay_second)) + epsilon);
  }
}

}  // namespace baechi::learned
