#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "placers/interface/objective_choice.h"
#include "placers/interface/placer.h"
#include "placers/interface/registry.h"
#include "placers/search/chain.h"
#include "sim/options.h"

namespace baechi {
namespace {

using search::Chain;
using search::SearchSpace;

/// The best placement of the quick placers, then a short annealing chain from it at low
/// temperature, restricted to placements that fit.
class Refine final : public Placer {
 public:
  explicit Refine(Options& o)
      : quick_(quick_answers(o.get("fallback", true, fallback_help))),
        evaluations_(static_cast<std::size_t>(o.get(
            "evaluations", std::int64_t{most}, "of the step; fewer on graphs of many ops", 0))) {}

  Placement place(const Problem& p, std::uint64_t seed) const override {
    Placement quick = quick_->place(p, seed);
    const SearchSpace space(p);
    if (space.movable().empty()) return quick;
    const auto step = make_objective("step_time", Options("step_time"));
    Chain chain(space, *step, quick, seed);
    const Duration before = chain.best_score().value;
    const std::size_t tries = std::min(evaluations_, std::max(least, most_ops / p.graph.num_ops()));
    chain.run(tries, {.begin = 0.001, .end = 0.0005, .leaves = 0.0}, {});
    const Duration after = chain.best_score().value;
    std::string from = fmt::format("{} by {}", to_text(before), quick.placed_by);
    quick.facts = {{"evaluations", static_cast<double>(chain.evaluations())},
                   {"quick_us", to_us(before)}};
    if (chain.improvements().empty()) {
      quick.detail =
          fmt::format("{}, nothing better after {} evaluations", from, chain.evaluations());
      return quick;
    }
    Placement result = chain.best();
    result.facts = std::move(quick.facts);
    result.placed_by.clear();
    result.detail =
        fmt::format("{}, {} after {} evaluations", from, to_text(after), chain.evaluations());
    return result;
  }

 private:
  static constexpr std::size_t most = 256, least = 16;
  static constexpr std::size_t most_ops = 50'000;  // over all evaluations

  static std::unique_ptr<Placer> quick_answers(bool fallback) {
    return make_placer("auto",
                       Options("auto", {{"fallback", {fallback ? "true" : "false", {}, {}}}}));
  }

  std::unique_ptr<Placer> quick_;  // caches solutions of m_sct's program
  std::size_t evaluations_;
};

}  // namespace

std::unique_ptr<Placer> make_refine(Options& o) {
  return std::make_unique<Refine>(o);
}

}  // namespace baechi
