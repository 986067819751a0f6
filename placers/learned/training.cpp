#include "placers/learned/training.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "placers/learned/arithmetic.h"

namespace baechi::learned {
namespace {

/// A generator of its own for each episode, so that episodes may run in any order.
Random random_of(std::uint64_t seed, std::size_t update, std::size_t episode) {
  Random mixed(seed * 0x9e3779b97f4a7c15U + update);
  return Random(mixed.next() + episode);
}

}  // namespace

std::size_t settled_after(std::span<const Improvement> improvements) {
  for (const Improvement& i : improvements)
    if (i.value <= 1.01 * improvements.back().value) return i.evaluation;
  return 0;
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
  BlockDevices devices;
  std::vector<double> gradient, keys;
};

Training::Training(std::vector<const Environment*> environments, const TrainingPlan& plan,
                   std::optional<std::vector<double>> begin)
    : environments_(std::move(environments)),
      plan_(plan),
      begun_elsewhere_(begin.has_value()),
      network_(list_network()),
      samples_(environments_.size()),
      workers_(environments_.size()) {
  state_.adam = Adam(begin ? std::move(*begin) : network_.initial(plan.seed));
}

Training::~Training() = default;

std::size_t Training::imitation_updates() const {
  return !plan_.imitate || begun_elsewhere_ ? 0 : imitations + 10 * environments_.size();
}

void Training::update() {
  const std::size_t which = state_.updates % environments_.size();
  const Environment& environment = *environments_[which];
  network_.embed(weights(), environment.graph(), embedding_);
  gradient_.assign(network_.num_weights(), 0.0);
  keys_.assign(embedding_.keys.size(), 0.0);
  auto& workers = workers_[which];
  while (workers.size() < batch) workers.push_back(std::make_unique<Worker>(environment, network_));
  if (state_.updates < imitation_updates())
    imitate(environment, which);
  else
    reinforce(environment, which);
  ++state_.updates;
}

void Training::imitate(const Environment& environment, std::size_t which) {
  if (environment.teacher().empty()) return;
  Episode& episode = workers_[which].front()->episode;
  episode.follow(weights(), embedding_, environment.teacher());
  episode.gradient(weights(), embedding_, 1.0, 0.0, gradient_, keys_);
  network_.embed_gradient(weights(), environment.graph(), embedding_, keys_, gradient_);
  state_.adam.step(gradient_, first_rate);
}

void Training::reinforce(const Environment& environment, std::size_t which) {
  auto& workers = workers_[which];
  const std::size_t count = std::min(batch, plan_.evaluations - state_.evaluations);
  oneapi::tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
    Worker& w = *workers[i];
    Random random = random_of(plan_.seed, state_.updates, i);
    w.devices = w.episode.act(weights(), embedding_, &random);
    w.score = w.evaluator->score(environment.placement(w.devices));
    w.value = environment.value(w.score);
  });
  double mean = 0.0, variance = 0.0;
  for (std::size_t i = 0; i < count; ++i) mean += workers[i]->value / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i)
    variance +=
        (workers[i]->value - mean) * (workers[i]->value - mean) / static_cast<double>(count);
  const double deviation = std::sqrt(variance);
  const double progress =
      static_cast<double>(state_.evaluations) / static_cast<double>(plan_.evaluations);
  const double entropy = first_entropy * (1.0 - progress);
  oneapi::tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
    Worker& w = *workers[i];
    w.gradient.assign(gradient_.size(), 0.0);
    w.keys.assign(keys_.size(), 0.0);
    const double advantage = deviation > 1e-6 * mean ? (mean - w.value) / deviation : 0.0;
    w.episode.gradient(weights(), embedding_, advantage, entropy, w.gradient, w.keys);
  });
  const double share = 1.0 / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) {  // in this order, whoever was first
    const Worker& w = *workers[i];
    for (std::size_t k = 0; k < gradient_.size(); ++k) gradient_[k] += share * w.gradient[k];
    for (std::size_t k = 0; k < keys_.size(); ++k) keys_[k] += share * w.keys[k];
    take(which, w.devices, w.score, w.value);
    ++state_.evaluations;
  }
  network_.embed_gradient(weights(), environment.graph(), embedding_, keys_, gradient_);
  state_.adam.step(gradient_,
                   first_rate * exponential(progress * logarithm(last_rate / first_rate)));
}

void Training::take(std::size_t which, const BlockDevices& devices, const Score& score,
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
