#include "placers/search/annealing.h"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/processor_time.h"

namespace baechi::search {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t rounds = 16;

/// Some chains are hotter, to escape from local minima.
Temperature temperature_of(std::size_t round, std::size_t chain, double leaves) {
  constexpr std::array hottest{0.005, 0.05, 0.01, 0.5};
  const double first = hottest[chain % hottest.size()];
  const auto before = [&](std::size_t r) {
    return first * std::pow(0.01, static_cast<double>(r) / static_cast<double>(rounds));
  };
  return {.begin = before(round), .end = before(round + 1), .leaves = leaves};
}

}  // namespace

Annealing::Annealing(const SearchSpace& space, const Objective& objective,
                     std::span<const Placement> starts, std::size_t chains, std::uint64_t seed,
                     double leaves)
    : leaves_(leaves) {
  if (space.movable().empty()) return;
  for (std::size_t c = 0; c < chains; ++c)
    chains_.emplace_back(space, objective, starts[c % starts.size()], seed * chains + c);
}

void Annealing::run(std::size_t evaluations, const ChainLimits& limits, const Watcher& watcher) {
  if (chains_.empty()) return;
  const auto begin = Clock::now();
  for (std::size_t round = 0; round < rounds && !limits.reached(); ++round) {
    const std::size_t each = evaluations_of(round, evaluations, Clock::now() - begin, limits);
    oneapi::tbb::parallel_for(std::size_t{0}, chains_.size(), part_of_this_task([&](std::size_t c) {
                                chains_[c].run(each, temperature_of(round, c, leaves_), limits);
                              }));
    restart_worst();
    if (watcher.progress)
      watcher.progress(fmt::format("round {} of {}: best {}", round + 1, rounds,
                                   to_text(best().best_score().value)),
                       static_cast<double>(round + 1) / static_cast<double>(rounds));
  }
}

/// The evaluations of each chain in a round.
std::size_t Annealing::evaluations_of(std::size_t round, std::size_t all, Seconds used,
                                      const ChainLimits& limits) const {
  const std::size_t parts = chains_.size() * rounds;
  if (limits.until == Clock::time_point::max())
    return all * (round + 1) / parts - all * round / parts;
  if (round == 0) return 32;  // to measure how long they take
  const double rate = static_cast<double>(evaluations()) / used.count();
  const Seconds left = limits.until - Clock::now();
  const double each = rate * left.count() / static_cast<double>((rounds - round) * chains_.size());
  return static_cast<std::size_t>(std::max(each, 1.0));
}

const Chain& Annealing::best() const {
  return *std::ranges::min_element(chains_, std::less<>(), &Chain::best_score);
}

std::size_t Annealing::evaluations() const {
  std::size_t sum = 0;
  for (const Chain& chain : chains_) sum += chain.evaluations();
  return sum;
}

/// The worse half of the chains continues from the best placements of the better half.
void Annealing::restart_worst() {
  std::vector<Chain*> order;
  for (Chain& chain : chains_) order.push_back(&chain);
  std::ranges::stable_sort(order, std::less<>(), &Chain::best_score);
  const std::size_t ahead = (order.size() + 1) / 2;
  for (std::size_t i = ahead; i < order.size(); ++i)
    order[i]->restart_from(order[i - ahead]->best());
}

}  // namespace baechi::search
