#include "placers/refine.h"

#include "placers/feasible.h"
#include "placers/offload.h"
#include "placers/search/chain.h"

namespace baechi {
namespace {

using search::Chain;
using search::SearchSpace;

constexpr RefineBudget refine_budget{.most = 1024, .least = 16, .ops = 50'000};

/// The number of placements, or 2^32 or more.
std::size_t num_all(const SearchSpace& space) {
  std::size_t count = 1;
  for (const UnitId u : space.movable())
    count = std::min(count * space.able(u).size(), std::size_t{1} << 32);
  return count;
}

class Refined final : public Placer {
 public:
  Refined(std::unique_ptr<Placer> start, RefineBudget budget)
      : start_(std::move(start)), budget_(budget) {}

  Placement place(const Problem& p, std::uint64_t seed) const override {
    Placement quick = start_->place(p, seed);
    if (budget_.most == 0) return quick;
    const SearchSpace space(p);
    if (space.movable().empty()) return quick;
    const auto step = make_objective("step_time", Options("step_time"));
    std::size_t tries =
        std::min(budget_.most, std::max(budget_.least, budget_.ops / p.graph.num_ops()));
    const Score quick_score = step->score(p, quick);
    const Duration before = quick_score.value;
    if (before <= lower_bounds(p.graph, p.cluster, p.costs).best()) return quick;
    if (auto best = all_placements(space, *step, 2 * budget_.ops / p.graph.num_ops()))
      return better(std::move(quick), before, std::move(best->first), best->second, num_all(space));
    std::size_t before_this = 0;
    if (const auto searched = quick.facts.find(searched_fact); searched != quick.facts.end())
      before_this = static_cast<std::size_t>(searched->second);
    tries -= std::min(tries, before_this);
    if (budget_.anneals) {
      std::pair best{quick_score, std::move(quick)};
      for (std::size_t round = std::max(tries / 16, std::size_t{1}); round <= tries; round *= 2) {
        search::Annealing annealing(space, *step, std::span(&best.second, 1), 4, seed++);
        annealing.run(round, {});
        if (const Chain& chain = annealing.best(); chain.best_score() < best.first)
          best = {chain.best_score(), chain.best()};
      }
      return best.second;
    }
    Chain chain(space, *step, quick, seed);
    chain.run(tries, {.begin = 0.001, .end = 0.0005, .leaves = 0.0}, {});
    return better(std::move(quick), before, chain.best(), chain.best_score().value,
                  before_this + chain.evaluations());
  }

 private:
  static Placement better(Placement quick, Duration before, Placement found, Duration after,
                          std::size_t evaluations) {
    const std::string from = fmt::format("{} by {}", to_text(before),
                                         quick.placed_by.empty() ? "auto" : quick.placed_by);
    std::map<std::string, double> facts{{"evaluations", static_cast<double>(evaluations)},
                                        {"quick_us", to_us(before)}};
    if (after >= before) {
      quick.facts = std::move(facts);
      quick.detail = fmt::format("{}, nothing better after {} evaluations", from, evaluations);
      return quick;
    }
    found.facts = std::move(facts);
    found.placed_by.clear();
    found.detail = fmt::format("{}, {} after {} evaluations", from, to_text(after), evaluations);
    return found;
  }

  /// The best of all placements, if there are at most `most`; the first in the order of counting.
  static std::optional<std::pair<Placement, Duration>> all_placements(const SearchSpace& space,
                                                                      const Objective& step,
                                                                      std::size_t most) {
    const std::size_t count = num_all(space);
    if (count > most) return std::nullopt;
    const Problem& p = space.problem();
    const auto evaluator = step.on(p);
    Placement at{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    for (const UnitId u : space.units().units())
      for (const OpId v : space.units().members(u))
        at.device[v] = space.able(u).empty() ? DeviceId{0} : space.able(u).front();
    std::optional<std::pair<Placement, Duration>> best;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t rest = i;
      for (const UnitId u : space.movable()) {
        const auto able = space.able(u);
        for (const OpId v : space.units().members(u)) at.device[v] = able[rest % able.size()];
        rest /= able.size();
      }
      const Score score = evaluator->score(at);
      if (score.feasible() && (!best || score.value < best->second)) best = {at, score.value};
    }
    return best;
  }

  std::unique_ptr<Placer> start_;  // caches solutions of m_sct's program
  RefineBudget budget_;
};

}  // namespace

bool tries_all_placements(const Problem& p) {
  return num_all(SearchSpace(p)) <= 2 * refined_ops / p.graph.num_ops();
}

std::unique_ptr<Placer> refined(std::unique_ptr<Placer> start, Options& options,
                                RefineBudget budget) {
  return std::make_unique<Refined>(with_fallback(std::move(start), placer_entry("auto"), options),
                                   budget);
}

std::unique_ptr<Placer> search_from(Placement start) {
  constexpr RefineBudget second{.most = 20'000, .ops = 20'000'000, .anneals = true};
  Options options("refine", {{"fallback", {"true", {}, {}}}});
  auto given = placer_of(
      [placement = std::move(start)](const Problem&, std::uint64_t) { return placement; });
  return with_offload(refined(std::move(given), options, second), placer_entry("refine"), options);
}

std::unique_ptr<Placer> make_refine(Options& o) {
  RefineBudget budget = refine_budget;
  budget.most =
      static_cast<std::size_t>(o.get("evaluations", static_cast<std::int64_t>(budget.most),
                                     "of the step; fewer on graphs of many ops", 0));
  const bool fallback = o.get("fallback", true, fallback_help);
  Options options("auto", {{"fallback", {fallback ? "true" : "false", {}, {}}}});
  return refined(placer_entry("auto").make(options), o, budget);
}

}  // namespace baechi
