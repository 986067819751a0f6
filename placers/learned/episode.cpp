#include "placers/learned/episode.h"

#include <algorithm>

#include "placers/learned/arithmetic.h"

namespace baechi::learned {

Network list_network() {
  return Network(
      {.unit_features = unit_feature_names.size(), .device_features = device_feature_names.size()});
}

std::vector<double> list_rule() {
  std::vector<double> rule(device_feature_names.size(), 0.0);
  rule[static_cast<std::size_t>(std::ranges::find(device_feature_names, "finish_gap") -
                                device_feature_names.begin())] = -4.0;
  return rule;
}

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

void choice_gradient(std::span<const double> chances, std::size_t choice, double advantage,
                     double entropy, double scale, std::span<double> scores) {
  constexpr double least = 1e-30;  // below, a chance adds nothing to the entropy
  double sum = 0.0;
  if (entropy > 0.0)
    for (const double p : chances)
      if (p > least) sum -= p * logarithm(p);
  for (std::size_t i = 0; i < chances.size(); ++i) {
    const double p = chances[i];
    scores[i] += scale * advantage * (p - (i == choice ? 1.0 : 0.0));
    if (entropy > 0.0 && p > least) scores[i] += scale * entropy * p * (logarithm(p) + sum);
  }
}

Episode::Episode(const Environment& environment, const Network& network)
    : network_(network), walk_(environment) {}

const BlockDevices& Episode::act(std::span<const double> weights, const Embedding& embedding,
                                 Random* random) {
  pass(weights, embedding, random, nullptr);
  return walk_.devices();
}

const BlockDevices& Episode::follow(std::span<const double> weights, const Embedding& embedding,
                                    const BlockDevices& teacher) {
  pass(weights, embedding, nullptr, &teacher);
  return walk_.devices();
}

void Episode::pass(std::span<const double> weights, const Embedding& embedding, Random* random,
                   const BlockDevices* teacher) {
  walk_.clear();
  choices_.clear();
  chances_.clear();
  features_.clear();
  while (walk_.advance()) {
    const std::size_t block = walk_.block();
    const DeviceId told = teacher != nullptr ? walk_.stands_for((*teacher)[block]) : Plan::nowhere;
    const auto able = walk_.choices(told);
    const auto features = walk_.features(able);
    const std::size_t begin = chances_.size();
    chances_.resize(begin + able.size());
    const std::span<double> chances = std::span(chances_).subspan(begin);
    scores_.resize(able.size());
    network_.score(weights, embedding, block, features, scores_);
    chances_of(scores_, chances);
    std::size_t choice = 0;
    if (teacher != nullptr)
      choice = static_cast<std::size_t>(std::ranges::find(able, told) - able.begin());
    else if (random != nullptr)
      choice = drawn(chances, *random);
    else
      choice = static_cast<std::size_t>(std::ranges::max_element(chances) - chances.begin());
    features_.insert(features_.end(), features.begin(), features.end());
    choices_.push_back({.block = static_cast<std::uint32_t>(block),
                        .choice = static_cast<std::uint32_t>(choice),
                        .first_device = begin,
                        .devices = able.size()});
    walk_.choose(able[choice]);
  }
}

void Episode::gradient(std::span<const double> weights, const Embedding& embedding,
                       double advantage, double entropy, std::span<double> gradient,
                       std::span<double> keys) const {
  const double scale = 1.0 / static_cast<double>(choices_.size());
  const std::size_t width = network_.shape().device_features;
  std::vector<double> scores;
  for (const Choice& c : choices_) {
    scores.assign(c.devices, 0.0);
    choice_gradient(std::span(chances_).subspan(c.first_device, c.devices), c.choice, advantage,
                    entropy, scale, scores);
    network_.score_gradient(weights, embedding, c.block,
                            std::span(features_).subspan(c.first_device * width, c.devices * width),
                            scores, gradient, keys);
  }
}

double Episode::surprise() const {
  double sum = 0.0;
  for (const Choice& c : choices_)
    sum -= logarithm(std::max(chances_[c.first_device + c.choice], 1e-30));
  return choices_.empty() ? 0.0 : sum / static_cast<double>(choices_.size());
}

}  // namespace baechi::learned
