#include "scenarios/results/statistics.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>

#include "sim/random.h"

namespace baechi {
namespace {

constexpr std::size_t most_exact = 50;

/// Twice the rank of each value by size; equal values share the mean rank. [values.size()]
std::vector<std::size_t> doubled_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size = [&](std::size_t i) { return std::abs(values[i]); };
  std::ranges::sort(order, {}, size);
  std::vector<std::size_t> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && size(order[end]) == size(order[first])) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = first + 1 + end;
    first = end;
  }
  return ranks;
}

/// The probability that the doubled ranks with a plus sum to at most `sum`, if every sign is
/// random.
double chance_up_to(const std::vector<std::size_t>& doubled, std::size_t sum) {
  const std::size_t all = std::accumulate(doubled.begin(), doubled.end(), std::size_t{0});
  std::vector<double> chance(all + 1, 0.0);
  chance[0] = 1.0;
  for (const std::size_t rank : doubled) {
    for (std::size_t s = all + 1; s-- > 0;)
      chance[s] = 0.5 * (chance[s] + (s >= rank ? chance[s - rank] : 0.0));
  }
  return std::accumulate(chance.begin(), chance.begin() + static_cast<std::ptrdiff_t>(sum) + 1,
                         0.0);
}

/// The same by a normal distribution of equal mean and variance.
double normal_chance_up_to(const std::vector<std::size_t>& doubled, std::size_t sum) {
  double mean = 0.0, variance = 0.0;
  for (const std::size_t rank : doubled) {
    const double r = static_cast<double>(rank) / 2.0;
    mean += r / 2.0;
    variance += r * r / 4.0;
  }
  const double continuity = 0.5;
  const double z = (static_cast<double>(sum) / 2.0 + continuity - mean) / std::sqrt(variance);
  return boost::math::cdf(boost::math::normal(), z);
}

}  // namespace

double signed_rank_p(std::span<const double> differences) {
  std::vector<double> values;
  std::ranges::copy_if(differences, std::back_inserter(values), [](double d) { return d != 0.0; });
  if (values.empty()) return 1.0;
  const std::vector<std::size_t> ranks = doubled_ranks(values);
  std::size_t plus = 0, minus = 0;
  for (std::size_t i = 0; i < values.size(); ++i) (values[i] > 0.0 ? plus : minus) += ranks[i];
  const std::size_t smaller = std::min(plus, minus);
  const double one_sided = values.size() <= most_exact ? chance_up_to(ranks, smaller)
                                                       : normal_chance_up_to(ranks, smaller);
  return std::min(1.0, 2.0 * one_sided);
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> corrected(p.size());
  double before = 0.0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    before = std::max(before, std::min(1.0, p[order[k]] * static_cast<double>(p.size() - k)));
    corrected[order[k]] = before;
  }
  return corrected;
}

std::optional<Interval> bootstrap_interval(std::span<const LogSum> graphs) {
  std::vector<LogSum> known;
  std::ranges::copy_if(graphs, std::back_inserter(known),
                       [](const LogSum& g) { return g.count > 0; });
  if (known.size() < 2) return std::nullopt;
  const std::size_t draws = std::clamp<std::size_t>(2'000'000 / known.size(), 200, 2000);
  Random random(1);
  std::vector<double> means(draws);
  for (double& mean : means) {
    LogSum drawn;
    for (std::size_t i = 0; i < known.size(); ++i) {
      const LogSum& graph = known[random.below(static_cast<std::uint32_t>(known.size()))];
      drawn.sum += graph.sum;
      drawn.count += graph.count;
    }
    mean = drawn.sum / static_cast<double>(drawn.count);
  }
  std::ranges::sort(means);
  return Interval{std::exp(means[draws / 40]), std::exp(means[draws - 1 - draws / 40])};
}

}  // namespace baechi
