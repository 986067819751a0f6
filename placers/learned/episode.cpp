#include "placers/learned/episode.h"

#include <algorithm>
#include <utility>

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

Episode::Episode(const Environment& environment, Network network)
    : walk_(environment), choices_(std::move(network)) {}

const BundleDevices& Episode::act(std::span<const double> weights, const Embedding& embedding,
                                  Random* random) {
  pass(weights, embedding, random, nullptr);
  return walk_.devices();
}

const BundleDevices& Episode::follow(std::span<const double> weights, const Embedding& embedding,
                                     const BundleDevices& teacher) {
  pass(weights, embedding, nullptr, &teacher);
  return walk_.devices();
}

void Episode::pass(std::span<const double> weights, const Embedding& embedding, Random* random,
                   const BundleDevices* teacher) {
  walk_.clear();
  choices_.clear();
  while (walk_.advance()) {
    const std::size_t bundle = walk_.bundle();
    const DeviceId told =
        teacher != nullptr ? walk_.stands_for((*teacher)[bundle]) : PartialSchedule::nowhere;
    const auto able = walk_.choices(told);
    const auto chances = choices_.offer(weights, embedding, bundle, walk_.features(able));
    std::size_t choice = 0;
    if (teacher != nullptr)
      choice = static_cast<std::size_t>(std::ranges::find(able, told) - able.begin());
    else if (random != nullptr)
      choice = drawn(chances, *random);
    else
      choice = static_cast<std::size_t>(std::ranges::max_element(chances) - chances.begin());
    choices_.take(choice);
    walk_.choose(able[choice]);
  }
}

const BundleDevices& Episode::redraw(std::span<const double> weights, const Embedding& embedding,
                                     const BundleDevices& base, std::size_t begin, std::size_t end,
                                     Random& random) {
  walk_.clear();
  choices_.clear();
  bool same = true;
  for (std::size_t turn = 0; walk_.advance(); ++turn) {
    const std::size_t bundle = walk_.bundle();
    DeviceId to = base[bundle];
    if (turn >= begin && turn < end) {
      const auto able = walk_.choices(to);
      const auto chances = choices_.offer(weights, embedding, bundle, walk_.features(able));
      const auto before = static_cast<std::size_t>(std::ranges::find(able, to) - able.begin());
      to = able[same && able.size() > 1 ? drawn_elsewhere(chances, before, random)
                                        : drawn(chances, random)];
      same = same && to == base[bundle];
    }
    walk_.choose(to);
  }
  choices_.clear();
  return walk_.devices();
}

void Episode::gradient(std::span<const double> weights, const Embedding& embedding,
                       double advantage, double entropy, std::span<double> gradient,
                       std::span<double> keys) {
  const double scale = 1.0 / static_cast<double>(choices_.size());
  for (std::size_t i = 0; i < choices_.size(); ++i)
    choices_.add_gradient(i, weights, embedding, advantage, entropy, scale, gradient, keys);
}

double Episode::surprise() const {
  double sum = 0.0;
  for (std::size_t i = 0; i < choices_.size(); ++i) sum += choices_.surprise(i);
  return choices_.size() == 0 ? 0.0 : sum / static_cast<double>(choices_.size());
}

}  // namespace baechi::learned
