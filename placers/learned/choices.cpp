#include "placers/learned/choices.h"

#include <algorithm>
#include <utility>

#include "placers/learned/arithmetic.h"

namespace baechi::learned {
namespace {

constexpr double least_chance = 1e-30;  // below, a chance adds nothing to the entropy

}  // namespace

void chances_of(std::span<const double> scores, std::span<double> chances) {
  const double most = *std::ranges::max_element(scores);
  double sum = 0.0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    chances[i] = exponential(scores[i] - most);
    sum += chances[i];
  }
  for (double& chance : chances) chance /= sum;
}

std::size_t drawn(std::span<const double> chances, Random& random) {
  double left = random.uniform();
  for (std::size_t i = 0; i + 1 < chances.size(); ++i) {
    left -= chances[i];
    if (left < 0.0) return i;
  }
  return chances.size() - 1;
}

std::size_t drawn_elsewhere(std::span<const double> chances, std::size_t not_this, Random& random) {
  double sum = 0.0;
  for (std::size_t i = 0; i < chances.size(); ++i) sum += i == not_this ? 0.0 : chances[i];
  double left = random.uniform() * sum;
  std::size_t last = 0;
  for (std::size_t i = 0; i < chances.size(); ++i) {
    if (i == not_this) continue;
    left -= chances[i];
    last = i;
    if (left < 0.0) break;
  }
  return last;
}

void choice_gradient(std::span<const double> chances, std::size_t choice, double advantage,
                     double entropy, double scale, std::span<double> scores,
                     std::vector<double>& logs) {
  for (std::size_t i = 0; i < chances.size(); ++i)
    scores[i] += scale * advantage * (chances[i] - (i == choice ? 1.0 : 0.0));
  if (entropy <= 0.0) return;
  logs.resize(chances.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < chances.size(); ++i) {
    if (chances[i] <= least_chance) continue;
    logs[i] = logarithm(chances[i]);
    sum -= chances[i] * logs[i];
  }
  for (std::size_t i = 0; i < chances.size(); ++i)
    if (chances[i] > least_chance) scores[i] += scale * entropy * chances[i] * (logs[i] + sum);
}

Choices::Choices(Network network) : network_(std::move(network)) {}

void Choices::clear() {
  all_.clear();
  chances_.clear();
  features_.clear();
}

std::span<const double> Choices::features_of(const Choice& c) const {
  const std::size_t width = network_.shape().device_features;
  return std::span(features_).subspan(c.first * width, c.devices * width);
}

std::span<double> Choices::find_chances(const Choice& c, std::span<const double> weights,
                                        const Embedding& embedding) {
  scores_.resize(c.devices);
  network_.score(weights, embedding, c.unit, features_of(c), scores_);
  const auto chances = std::span(chances_).subspan(c.first, c.devices);
  chances_of(scores_, chances);
  return chances;
}

std::span<const double> Choices::offer(std::span<const double> weights, const Embedding& embedding,
                                       std::size_t unit, std::span<const double> features) {
  const Choice c{.unit = static_cast<std::uint32_t>(unit),
                 .taken = 0,
                 .first = chances_.size(),
                 .devices = features.size() / network_.shape().device_features};
  all_.push_back(c);
  chances_.resize(c.first + c.devices);
  features_.insert(features_.end(), features.begin(), features.end());
  return find_chances(c, weights, embedding);
}

void Choices::score_again(std::size_t i, std::span<const double> weights,
                          const Embedding& embedding) {
  find_chances(all_[i], weights, embedding);
}

double Choices::surprise(std::size_t i) const {
  return -logarithm(std::max(chances_[all_[i].first + all_[i].taken], 1e-300));
}

double Choices::entropy(std::size_t i) const {
  double sum = 0.0;
  for (const double p : std::span(chances_).subspan(all_[i].first, all_[i].devices))
    if (p > least_chance) sum -= p * logarithm(p);
  return sum;
}

void Choices::add_gradient(std::size_t i, std::span<const double> weights,
                           const Embedding& embedding, double advantage, double entropy,
                           double scale, std::span<double> gradient, std::span<double> keys) {
  const Choice& c = all_[i];
  scores_.assign(c.devices, 0.0);
  choice_gradient(std::span(chances_).subspan(c.first, c.devices), c.taken, advantage, entropy,
                  scale, scores_, logs_);
  network_.score_gradient(weights, embedding, c.unit, features_of(c), scores_, gradient, keys);
}

}  // namespace baechi::learned
