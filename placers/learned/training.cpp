#include "placers/learned/training.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "placers/learned/arithmetic.h"
#include "sim/processor_time.h"

namespace baechi::learned {

Random random_of(std::uint64_t seed, std::size_t update, std::size_t episode) {
  Random mixed(seed * 0x9e3779b97f4a7c15U + update);
  return Random(mixed.next() + episode);
}

std::vector<double> advantages_of(std::span<const double> values) {
  const double share = 1.0 / static_cast<double>(values.size());
  double mean = 0.0, variance = 0.0;
  for (const double v : values) mean += share * v;
  for (const double v : values) variance += share * (v - mean) * (v - mean);
  const double deviation = std::sqrt(variance);
  std::vector<double> all;
  for (const double v : values)
    all.push_back(deviation > 1e-6 * mean ? (mean - v) / deviation : 0.0);
  return all;
}

/// What an episode of a batch works with.
struct Training::Worker {
  Worker(const Environment& environment, const Network& network)
      : episode(environment, network),
        evaluator(environment.objective().on(environment.problem())) {}

  Episode episode;
  std::unique_ptr<Evaluator> evaluator;
  Score score{};
  double value = 0.0;
  BundleDevices devices;
  std::vector<double> gradient, keys;
};

Training::Training(std::vector<const Environment*> environments, const TrainingSettings& settings,
                   std::optional<std::vector<double>> begin)
    : environments_(std::move(environments)),
      pace_(environments_.size() == 1 ? Pace{batch, 2e-3, first_entropy} : Pace{16, 1e-3, 0.03}),
      settings_(settings),
      begun_elsewhere_(begin.has_value()),
      network_(list_network()),
      samples_(environments_.size()) {
  if (begin)
    state_.adam = Adam(std::move(*begin));
  else
    state_.adam = Adam(
        network_.initial(settings.seed, settings.imitate ? list_rule() : std::vector<double>{}));
}

Training::~Training() = default;

std::size_t Training::imitation_updates() const {
  return !settings_.imitate || begun_elsewhere_ ? 0 : imitations + 60 * environments_.size();
}

void Training::update() {
  const std::size_t which = state_.updates % environments_.size();
  const Environment& environment = *environments_[which];
  network_.embed(weights(), environment.graph(), embedding_);
  gradient_.assign(network_.num_weights(), 0.0);
  keys_.assign(embedding_.keys.size(), 0.0);
  if (which != workers_of_) workers_.clear();
  workers_of_ = which;
  const bool imitates = state_.updates < imitation_updates();
  while (workers_.size() < (imitates ? 1 : pace_.batch))
    workers_.push_back(std::make_unique<Worker>(environment, network_));
  if (imitates)
    imitate(environment);
  else
    reinforce(environment, which);
  ++state_.updates;
}

void Training::imitate(const Environment& environment) {
  if (environment.teacher().empty()) return;
  Episode& episode = workers_.front()->episode;
  episode.follow(weights(), embedding_, environment.teacher());
  episode.gradient(weights(), embedding_, 1.0, 0.0, gradient_, keys_);
  network_.embed_gradient(weights(), environment.graph(), embedding_, keys_, gradient_);
  const double progress =
      static_cast<double>(state_.updates) / static_cast<double>(imitation_updates());
  state_.adam.step(gradient_, pace_.rate * exponential(progress * logarithm(0.3)));
}

void Training::reinforce(const Environment& environment, std::size_t which) {
  const std::size_t count = std::min(pace_.batch, settings_.evaluations - state_.evaluations);
  oneapi::tbb::parallel_for(std::size_t{0}, count, part_of_this_task([&](std::size_t i) {
                              Worker& w = *workers_[i];
                              Random random = random_of(settings_.seed, state_.updates, i);
                              w.devices = w.episode.act(weights(), embedding_, &random);
                              w.score = w.evaluator->score(environment.placement(w.devices));
                              w.value = environment.value(w.score);
                            }));
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(workers_[i]->value);
  const std::vector<double> advantages = advantages_of(values);
  const double progress =
      static_cast<double>(state_.evaluations) / static_cast<double>(settings_.evaluations);
  const double entropy = pace_.entropy * (1.0 - progress);
  oneapi::tbb::parallel_for(std::size_t{0}, count, part_of_this_task([&](std::size_t i) {
                              Worker& w = *workers_[i];
                              w.gradient.assign(gradient_.size(), 0.0);
                              w.keys.assign(keys_.size(), 0.0);
                              w.episode.gradient(weights(), embedding_, advantages[i], entropy,
                                                 w.gradient, w.keys);
                            }));
  const double share = 1.0 / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) {  // in this order, whoever was first
    const Worker& w = *workers_[i];
    for (std::size_t k = 0; k < gradient_.size(); ++k) gradient_[k] += share * w.gradient[k];
    for (std::size_t k = 0; k < keys_.size(); ++k) keys_[k] += share * w.keys[k];
    take(which, w.devices, w.score, w.value);
    ++state_.evaluations;
  }
  network_.embed_gradient(weights(), environment.graph(), embedding_, keys_, gradient_);
  state_.adam.step(gradient_, pace_.rate * exponential(progress * logarithm(0.1)));
}

void Training::take(std::size_t which, const BundleDevices& devices, const Score& score,
                    double value) {
  Samples& s = samples_[which];
  const double ratio = value / environments_[which]->reference();
  ++s.count;
  s.sum += ratio;
  const bool better = s.devices.empty() ? s.best == 0.0 || ratio < s.best : score < s.score;
  if (!better) return;
  s.best = ratio;
  s.improvements.push_back({state_.evaluations + 1, value});
  s.devices = devices;
  s.score = score;
}

CurveRow Training::curve_row(double seconds) {
  CurveRow row{.evaluations = state_.evaluations, .seconds = seconds};
  double count = 0.0, seen = 0.0, logs = 0.0;
  for (Samples& s : samples_) {
    if (s.best > 0.0) {
      logs += logarithm(s.best);
      seen += 1.0;
    }
    if (s.count > 0) {
      row.mean += s.sum / static_cast<double>(s.count);
      count += 1.0;
    }
    s.count = 0;
    s.sum = 0.0;
  }
  if (count > 0.0) row.mean /= count;
  if (seen > 0.0) row.best = exponential(logs / seen);
  return row;
}

}  // namespace baechi::learned
