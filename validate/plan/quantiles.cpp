#include "validate/plan/quantiles.h"

#include <algorithm>
#include <numeric>

namespace baechi::validate {

double quantile(Samples samples, double q) {
  if (samples.empty()) return 0.0;
  std::ranges::sort(samples);
  const double at = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (at - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double median(Samples samples) {
  return quantile(std::move(samples), 0.5);
}

double trimmed_mean(Samples samples) {
  if (samples.empty()) return 0.0;
  std::ranges::sort(samples);
  const auto cut = static_cast<std::ptrdiff_t>(samples.size() / 10);
  const double sum = std::accumulate(samples.begin() + cut, samples.end() - cut, 0.0);
  return sum / static_cast<double>(samples.end() - samples.begin() - 2 * cut);
}

}  // namespace baechi::validate
