#include "validate/cuda/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace replay {

double quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return std::nan("");
  std::ranges::sort(samples);
  const double at = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return std::lerp(samples[below], samples[above], at - std::floor(at));
}

double median(const std::vector<double>& samples) {
  return quantile(samples, 0.5);
}

double trimmed_mean(std::vector<double> samples) {
  if (samples.empty()) return std::nan("");
  std::ranges::sort(samples);
  const auto cut = static_cast<std::ptrdiff_t>(samples.size() / 10);
  const double sum = std::accumulate(samples.begin() + cut, samples.end() - cut, 0.0);
  return sum / static_cast<double>(static_cast<std::ptrdiff_t>(samples.size()) - 2 * cut);
}

}  // namespace replay
