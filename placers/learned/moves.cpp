#include "placers/learned/moves.h"

#include <algorithm>
#include <cmath>

#include "placers/interface/memory_floor.h"
#include "placers/learned/arithmetic.h"

namespace baechi::learned {
namespace {

constexpr std::size_t move_unit_width = unit_feature_names.size() + move_unit_features.size();
constexpr std::size_t move_device_width = move_device_features.size();

}  // namespace

MovingEpisode::MovingEpisode(const Environment& environment, std::size_t refresh)
    : environment_(environment),
      refresh_(refresh),
      limit_(memory_limits(environment.problem())),
      graph_(environment.graph()),
      schedule_(environment),
      choices_(Network({.unit_features = move_unit_width, .device_features = move_device_width})) {}

void MovingEpisode::begin(const BundleDevices& start) {
  const std::size_t devices = environment_.problem().cluster.num_devices();
  at_ = start;
  load_.assign(devices, 0.0);
  weights_.assign(devices, Bytes{});
  for (std::size_t b = 0; b < at_.size(); ++b) {
    load_[at_[b]] += environment_.time(b, at_[b]);
    weights_[at_[b]] += environment_.needs(b).persistent;
  }
  refreshed_.clear();
  choices_.clear();
}

bool MovingEpisode::move(std::span<const double> weights, Random& random) {
  const std::size_t bundle = choices_.size();
  if (bundle % refresh_ == 0) {
    add_unit_features();
    network().embed(weights, graph_, embedding_);
  }
  find_able(bundle);
  find_device_features(bundle);
  const std::size_t choice = drawn(choices_.offer(weights, embedding_, bundle, features_), random);
  choices_.take(choice);
  const DeviceId from = at_[bundle], to = able_[choice];
  if (from == to) return false;
  load_[from] -= environment_.time(bundle, from);
  load_[to] += environment_.time(bundle, to);
  weights_[from] -= environment_.needs(bundle).persistent;
  weights_[to] += environment_.needs(bundle).persistent;
  at_[bundle] = to;
  return true;
}

/// Where it fits by what the others on the device need; where it is, if it fits nowhere.
void MovingEpisode::find_able(std::size_t bundle) {
  const UnitNeeds& needs = environment_.needs(bundle);
  able_.clear();
  for (const DeviceId d : environment_.able(bundle)) {
    const Bytes others = d == at_[bundle] ? weights_[d] - needs.persistent : weights_[d];
    if (others + needs.persistent + needs.working <= limit_[d]) able_.push_back(d);
  }
  if (able_.empty()) able_.push_back(at_[bundle]);
}

/// The share of `neighbours` that is on `d`; 0 if there are none.
double MovingEpisode::share_on(std::span<const std::uint32_t> neighbours, DeviceId d) const {
  double there = 0.0;
  for (const std::uint32_t b : neighbours) there += at_[b] == d ? 1.0 : 0.0;
  return neighbours.empty() ? 0.0 : there / static_cast<double>(neighbours.size());
}

/// To refreshed_, and to graph_.
void MovingEpisode::add_unit_features() {
  schedule_.clear();
  while (const std::optional<OpId> v = schedule_.next())
    schedule_.put(*v, at_[environment_.bundle(*v)]);
  const std::vector<double>& fixed = environment_.graph().features;
  const std::size_t width = unit_feature_names.size();
  std::vector<double>& all = graph_.features;
  all.clear();
  const double end = in_ns(schedule_.end().time_since_epoch());
  for (std::size_t b = 0; b < at_.size(); ++b) {
    const auto own = std::span(fixed).subspan(b * width, width);
    all.insert(all.end(), own.begin(), own.end());
    const OpId first = environment_.members(b).front();
    const TimePoint begin =
        schedule_.end(first) - environment_.problem().costs.compute(first, at_[b]);
    all.push_back(b < choices_.size() ? 1.0 : 0.0);
    all.push_back(end > 0.0 ? in_ns(begin.time_since_epoch()) / end : 0.0);
    all.push_back(squashed(0.5 * load_[at_[b]] / environment_.mean_load()));
    all.push_back(share_on(graph_.parents.at(b), at_[b]));
    all.push_back(share_on(graph_.children.at(b), at_[b]));
  }
  refreshed_.insert(refreshed_.end(), all.begin(), all.end());
}

/// For the devices in able_.
void MovingEpisode::find_device_features(std::size_t bundle) {
  std::vector<double>& all = features_;
  all.clear();
  const UnitNeeds& needs = environment_.needs(bundle);
  const auto others = [&](DeviceId d) {
    return d == at_[bundle] ? load_[d] - environment_.time(bundle, d) : load_[d];
  };
  double least = 1e300, fastest = 1e300;
  for (const DeviceId d : able_) {
    least = std::min(least, others(d));
    fastest = std::min(fastest, environment_.time(bundle, d));
  }
  const double scale = 1.0 / (0.25 * environment_.mean_load() + fastest);
  for (const DeviceId d : able_) {
    const Bytes held = d == at_[bundle] ? weights_[d] - needs.persistent : weights_[d];
    const double limit = static_cast<double>(limit_[d].count), time = environment_.time(bundle, d);
    all.push_back(d == at_[bundle] ? 1.0 : 0.0);
    all.push_back(squashed((others(d) - least) * scale));
    all.push_back(share_on(graph_.parents.at(bundle), d));
    all.push_back(share_on(graph_.children.at(bundle), d));
    all.push_back(limit > 0.0 ? std::clamp(1.0 - static_cast<double>(held.count) / limit, 0.0, 1.0)
                              : 0.0);
    all.push_back(time > 0.0 ? fastest / time : 1.0);
    all.push_back(others(d) > 0.0 ? 0.0 : 1.0);
  }
}

void MovingEpisode::replay(std::span<const double> weights, const auto& visit) {
  const std::size_t each = at_.size() * move_unit_width;
  for (std::size_t b = 0; b < choices_.size(); ++b) {
    if (b % refresh_ == 0) {
      const auto then = std::span(refreshed_).subspan(b / refresh_ * each, each);
      graph_.features.assign(then.begin(), then.end());
      network().embed(weights, graph_, embedding_);
    }
    visit(b);
  }
}

double MovingEpisode::loss(std::span<const double> weights, std::span<const double> advantages,
                           double entropy) {
  double sum = 0.0;
  replay(weights, [&](std::size_t bundle) {
    choices_.score_again(bundle, weights, embedding_);
    sum += advantages[bundle] * choices_.surprise(bundle) - entropy * choices_.entropy(bundle);
  });
  return sum / static_cast<double>(choices_.size());
}

void MovingEpisode::gradient(std::span<const double> weights, std::span<const double> advantages,
                             double entropy, std::span<double> gradient) {
  const double scale = 1.0 / static_cast<double>(choices_.size());
  std::vector<double> keys(embedding_.keys.size(), 0.0);
  replay(weights, [&](std::size_t bundle) {
    choices_.add_gradient(bundle, weights, embedding_, advantages[bundle], entropy, scale, gradient,
                          keys);
    if ((bundle + 1) % refresh_ != 0 && bundle + 1 != choices_.size()) return;
    network().embed_gradient(weights, graph_, embedding_, keys, gradient);
    std::ranges::fill(keys, 0.0);
  });
}

Found learn_moves(const Environment& environment, const TrainingSettings& settings,
                  std::size_t refresh, const std::atomic<bool>* stop) {
  constexpr double first_rate = 1e-3, last_rate = 1e-4, longest = 1.25;
  constexpr std::size_t remembered = 10;  // episodes
  const std::size_t bundles = environment.num_bundles();
  MovingEpisode episode(environment, refresh);
  Adam adam(episode.network().initial(settings.seed));
  const auto evaluator = environment.objective().on(environment.problem());
  Keeper keeper(environment);
  const auto over = [&] { return keeper.over(settings.evaluations, stop); };
  BundleDevices start = settings.imitate ? environment.teacher() : BundleDevices{};
  if (start.empty())
    for (std::size_t b = 0; b < bundles; ++b) start.push_back(environment.able(b).front());
  const auto evaluate = [&](const BundleDevices& devices) {
    const Score score = evaluator->score(environment.placement(devices));
    keeper.take(devices, score);
    return environment.value(score) / environment.reference();
  };
  if (over()) return keeper.found();
  const double value_of_start = evaluate(start);
  std::vector<std::vector<double>> before;  // returns of the last episodes
  for (std::size_t number = 0; !over(); ++number) {
    const double progress =
        static_cast<double>(keeper.evaluations()) / static_cast<double>(settings.evaluations);
    Random random = random_of(settings.seed, number, 0);
    episode.begin(start);
    std::vector<double> returns;  // first the rewards
    double value = value_of_start;
    bool moved = false;
    while (!episode.done() && !over()) {
      const double old = value;
      if (episode.move(adam.weights, random)) {
        value = evaluate(episode.devices());
        moved = true;
      }
      returns.push_back(old - value);
    }
    if (!episode.done()) break;
    for (std::size_t b = bundles - 1; b-- > 0;) returns[b] += returns[b + 1];
    std::vector<double> advantages = returns;
    double squares = 0.0;
    for (std::size_t b = 0; b < bundles; ++b) {
      for (const auto& r : before) advantages[b] -= r[b] / static_cast<double>(before.size());
      squares += advantages[b] * advantages[b] / static_cast<double>(bundles);
    }
    if (squares > 1e-12)
      for (double& a : advantages) a /= std::sqrt(squares);
    if (before.size() == remembered) before.erase(before.begin());
    before.push_back(std::move(returns));
    if (!moved) evaluate(start);  // else an episode without moves would go on for ever
    std::vector<double> gradient(adam.weights.size(), 0.0);
    episode.gradient(adam.weights, advantages, Training::first_entropy * (1.0 - progress),
                     gradient);
    adam.step(gradient, first_rate * exponential(progress * logarithm(last_rate / first_rate)),
              longest);
  }
  return keeper.found();
}

}  // namespace baechi::learned
