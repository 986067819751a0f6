#include "placers/learned/tables.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <numeric>

#include "placers/learned/arithmetic.h"
#include "sim/processor_time.h"

namespace baechi::learned {
namespace {

/// Batches of placements drawn from chances per block.
class Sampler {
 public:
  Sampler(const Environment& environment, const TrainingPlan& plan, std::size_t batch)
      : environment_(environment), plan_(plan), draws_(batch), keeper_(environment) {
    for (std::size_t b = 0; b < environment.num_blocks(); ++b) {
      begin_.push_back(size_);
      size_ += environment.able(b).size();
    }
    for (Draw& draw : draws_) {
      draw.evaluator = environment.objective().on(environment.problem());
      draw.choice.resize(environment.num_blocks());
    }
  }

  struct Draw {
    std::unique_ptr<Evaluator> evaluator;
    std::vector<std::uint32_t> choice;  // [blocks]
    double value = 0.0;
    Score score{};
  };

  std::size_t size() const { return size_; }  ///< chances of all blocks
  std::size_t at(std::size_t block) const { return begin_[block]; }
  std::span<double> of(std::vector<double>& table, std::size_t block) const {
    return std::span(table).subspan(begin_[block], environment_.able(block).size());
  }

  /// So many as the plan has left, at most a batch.
  std::span<const Draw> draw(std::vector<double>& chances) {
    const std::size_t count = std::min(draws_.size(), plan_.evaluations - keeper_.evaluations());
    ++round_;
    oneapi::tbb::parallel_for(
        std::size_t{0}, count, part_of_this_task([&](std::size_t i) {
          Draw& d = draws_[i];
          Random random(plan_.seed * 0x9e3779b97f4a7c15U + round_ * draws_.size() + i);
          for (std::size_t b = 0; b < d.choice.size(); ++b)
            d.choice[b] = static_cast<std::uint32_t>(drawn(of(chances, b), random));
          d.score = d.evaluator->score(environment_.placement(devices(d)));
          d.value = environment_.value(d.score);
        }));
    for (std::size_t i = 0; i < count; ++i) keeper_.take(devices(draws_[i]), draws_[i].score);
    return {draws_.data(), count};
  }
  bool done(const std::atomic<bool>* stop) const { return keeper_.over(plan_.evaluations, stop); }
  Found found() const { return keeper_.found(); }

 private:
  BlockDevices devices(const Draw& d) const {
    BlockDevices all;
    for (std::size_t b = 0; b < d.choice.size(); ++b)
      all.push_back(environment_.able(b)[d.choice[b]]);
    return all;
  }

  const Environment& environment_;
  TrainingPlan plan_;
  std::vector<Draw> draws_;
  std::vector<std::size_t> begin_;
  std::size_t size_ = 0, round_ = 0;
  Keeper keeper_;
};

}  // namespace

Found learn_scores(const Environment& environment, const TrainingPlan& plan,
                   const std::atomic<bool>* stop) {
  constexpr double rate = 0.1;  // free scores have no network to share a step with
  Sampler sampler(environment, plan, Training::batch);
  Adam scores(std::vector<double>(sampler.size(), 0.0));
  std::vector<double> chances(sampler.size()), gradient, logs;
  while (!sampler.done(stop)) {
    for (std::size_t b = 0; b < environment.num_blocks(); ++b)
      chances_of(sampler.of(scores.weights, b), sampler.of(chances, b));
    const auto draws = sampler.draw(chances);
    std::vector<double> values;
    for (const auto& d : draws) values.push_back(d.value);
    const std::vector<double> advantages = advantages_of(values);
    gradient.assign(sampler.size(), 0.0);
    for (std::size_t i = 0; i < draws.size(); ++i)
      for (std::size_t b = 0; b < draws[i].choice.size(); ++b)
        choice_gradient(sampler.of(chances, b), draws[i].choice[b], advantages[i], 0.0,
                        1.0 / static_cast<double>(draws.size()), sampler.of(gradient, b), logs);
    scores.step(gradient, rate, 1e9);
  }
  return sampler.found();
}

Found cross_entropy(const Environment& environment, const TrainingPlan& plan,
                    const std::atomic<bool>* stop) {
  constexpr std::size_t samples = 100, elite = 10;
  constexpr double smoothing = 0.7;
  Sampler sampler(environment, plan, samples);
  std::vector<double> chances(sampler.size());
  for (std::size_t b = 0; b < environment.num_blocks(); ++b)
    for (double& chance : sampler.of(chances, b))
      chance = 1.0 / static_cast<double>(environment.able(b).size());
  while (!sampler.done(stop)) {
    const auto draws = sampler.draw(chances);
    std::vector<std::size_t> order(draws.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return draws[i].value; });
    order.resize(std::min(elite, order.size()));
    for (double& chance : chances) chance *= 1.0 - smoothing;
    for (const std::size_t i : order)
      for (std::size_t b = 0; b < environment.num_blocks(); ++b)
        chances[sampler.at(b) + draws[i].choice[b]] +=
            smoothing / static_cast<double>(order.size());
  }
  return sampler.found();
}

}  // namespace baechi::learned
