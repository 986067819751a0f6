#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>

#include "placers/search/chain.h"
#include "placers/search/portfolio.h"
#include "placers/search/trace.h"
#include "sim/error.h"

namespace baechi::search {
namespace {

using Clock = std::chrono::steady_clock;

struct ObjectiveChoice {
  std::string name;
  std::unique_ptr<Objective> objective;
};

/// A name, or {name: {options}}.
ObjectiveChoice read_objective(Options& o) {
  const Options::Value* given = o.raw("objective", "what to make small ('baechi list objectives')");
  if (given == nullptr) return {"step_time", make_objective("step_time", Options("step_time"))};
  std::string name = given->text;
  std::map<std::string, Options::Value> values;
  if (given->children.size() == 1 && !given->children.front().first.empty()) {
    name = given->children.front().first;
    for (const auto& [key, value] : given->children.front().second.children)
      values.emplace(key, value);
  }
  return {name, make_objective(name, Options(name, std::move(values)), given->where)};
}

/// Several chains that anneal side by side from the best answers of a portfolio. Now and then those
/// behind go on from where those ahead have been.
class Search final : public Placer {
 public:
  explicit Search(Options& o)
      : choice_(read_objective(o)),
        portfolio_(o, choice_.name),
        chains_(static_cast<std::size_t>(
            o.get("chains", std::int64_t{4}, "walks side by side, whatever the threads", 1))),
        evaluations_(static_cast<std::size_t>(
            o.get("evaluations", std::int64_t{20'000}, "of the objective, over all chains"))),
        seconds_(
            o.get("seconds", 0.0,
                  "of real time, the portfolio's included, instead of evaluations: not repeatable; "
                  "0: no limit")),
        trace_(o.path("trace", "write each placement better than all before here, as CSV")) {
    constexpr std::size_t most_chains = 1024;
    if (chains_ > most_chains) o.mistake("chains", fmt::format("more than {}", most_chains));
  }

  bool can_stop() const override { return true; }

  Placement place(const Problem& p, std::uint64_t seed) const override {
    return place_watched(p, seed, {});
  }

  Placement place_watched(const Problem& p, std::uint64_t seed,
                          const Watcher& watcher) const override {
    // Isolated: while it waits for its own threads, this one takes up no other work.
    return oneapi::tbb::this_task_arena::isolate([&] { return find(p, seed, watcher); });
  }

 private:
  static constexpr std::size_t most_seeds = 2;
  static constexpr std::size_t rounds = 16;

  Placement find(const Problem& p, std::uint64_t seed, const Watcher& watcher) const {
    const auto start = Clock::now();
    const std::vector<Candidate> seeds = portfolio_.ask(p, *choice_.objective, seed);
    if (seeds.empty())
      throw InfeasibleError("search: no placer of the portfolio found a placement that fits");
    const SearchSpace space(p);
    std::deque<Chain> chains;
    if (!space.movable().empty()) {
      for (std::size_t c = 0; c < chains_; ++c) {
        const Candidate& from = seeds[c % std::min(seeds.size(), most_seeds)];
        chains.emplace_back(space, *choice_.objective, from.placement, seed * chains_ + c);
      }
      walk(chains, start, watcher);
    }
    return answer(seeds, chains);
  }

  void walk(std::deque<Chain>& chains, Clock::time_point start, const Watcher& watcher) const {
    Patience patience{.stop = watcher.stop};
    if (seconds_ > 0.0)
      patience.until = start + std::chrono::duration_cast<Clock::duration>(Seconds(seconds_));
    const auto begin = Clock::now();
    for (std::size_t round = 0; round < rounds && !patience.over(); ++round) {
      const std::size_t each = evaluations_of(round, chains, Clock::now() - begin, patience);
      oneapi::tbb::parallel_for(std::size_t{0}, chains.size(), [&](std::size_t c) {
        chains[c].walk(each, heat_of(round, c), patience);
      });
      catch_up(chains);
      if (watcher.progress)
        watcher.progress(fmt::format("round {} of {}: {}", round + 1, rounds,
                                     to_text(best_of(chains).best_score().value)));
    }
  }

  using Seconds = std::chrono::duration<double>;

  /// What each chain may do in a round.
  std::size_t evaluations_of(std::size_t round, const std::deque<Chain>& chains, Seconds used,
                             const Patience& patience) const {
    const std::size_t all = chains.size() * rounds;
    if (seconds_ <= 0.0) return evaluations_ * (round + 1) / all - evaluations_ * round / all;
    if (round == 0) return 32;  // to see how long they take
    const double rate = static_cast<double>(total(chains)) / used.count();
    const Seconds left = patience.until - Clock::now();
    const double each = rate * left.count() / static_cast<double>((rounds - round) * chains.size());
    return static_cast<std::size_t>(std::max(each, 1.0));
  }

  /// Some chains are hotter: they get out of where the others stay.
  static Heat heat_of(std::size_t round, std::size_t chain) {
    constexpr std::array hottest{0.005, 0.05, 0.01, 0.5};
    const double first = hottest[chain % hottest.size()];
    const auto before = [&](std::size_t r) {
      return first * std::pow(0.01, static_cast<double>(r) / static_cast<double>(rounds));
    };
    return {.begin = before(round), .end = before(round + 1)};
  }

  static std::size_t total(const std::deque<Chain>& chains) {
    std::size_t sum = 0;
    for (const Chain& chain : chains) sum += chain.evaluations();
    return sum;
  }

  static const Chain& best_of(const std::deque<Chain>& chains) {
    return *std::ranges::min_element(chains, std::less<>(), &Chain::best_score);
  }

  /// The worse half of the chains goes on from where the better half has been best.
  static void catch_up(std::deque<Chain>& chains) {
    std::vector<Chain*> order;
    for (Chain& chain : chains) order.push_back(&chain);
    std::ranges::stable_sort(order, std::less<>(), &Chain::best_score);
    const std::size_t ahead = (order.size() + 1) / 2;
    for (std::size_t i = ahead; i < order.size(); ++i) order[i]->jump(order[i - ahead]->best());
  }

  /// What all chains found, as if they had taken turns.
  static std::vector<SearchStep> steps(const Candidate& seed, const std::deque<Chain>& chains) {
    std::vector<SearchStep> all;
    for (std::size_t c = 0; c < chains.size(); ++c)
      for (const Chain::Improvement& i : chains[c].improvements())
        all.push_back({(i.evaluation - 1) * chains.size() + c + 1, i.score, i.move});
    std::ranges::sort(all, {}, &SearchStep::evaluation);
    std::vector<SearchStep> better{{0, seed.score, seed.placer}};
    for (const SearchStep& step : all)
      if (step.score < better.back().score) better.push_back(step);
    return better;
  }

  Placement answer(const std::vector<Candidate>& seeds, const std::deque<Chain>& chains) const {
    const Candidate& seed = seeds.front();
    const std::vector<SearchStep> found = steps(seed, chains);
    if (!trace_.empty()) write_search_trace(trace_, found);
    const Score& score = found.back().score;
    if (!score.feasible())
      throw InfeasibleError(
          fmt::format("search: nothing fits of {} answers and {} placements near them",
                      seeds.size(), total(chains)));
    Placement result = found.size() > 1 ? best_of(chains).best() : seed.placement;
    result.facts = {{"evaluations", static_cast<double>(total(chains))},
                    {"improvements", static_cast<double>(found.size() - 1)},
                    {"portfolio_us", seed.score.feasible() ? to_us(seed.score.value) : -1.0},
                    {"found_us", to_us(score.value)}};
    const std::string begin = seed.score.feasible()
                                  ? fmt::format("{} by {}", to_text(seed.score.value), seed.placer)
                                  : "no placement of the portfolio fits";
    result.detail =
        fmt::format("{}, {} after {} evaluations", begin, to_text(score.value), total(chains));
    return result;
  }

  ObjectiveChoice choice_;
  Portfolio portfolio_;
  std::size_t chains_, evaluations_;
  double seconds_;
  std::string trace_;
};

}  // namespace

}  // namespace baechi::search

namespace baechi {

std::unique_ptr<Placer> make_search(Options& o) {
  return std::make_unique<search::Search>(o);
}

}  // namespace baechi
