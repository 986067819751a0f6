#include "placers/exact/proof.h"

#include "placers/search/chain.h"

namespace baechi::exact {

double Incumbent::gap() const {
  if (value - bound <= value / 1'000'000) return 0.0;
  return 1.0 - static_cast<double>(bound.count()) / static_cast<double>(value.count());
}

Placement Incumbent::report(std::string_view objective, std::string_view what,
                            std::string_view of) && {
  placement.facts = {{"start_us", start == unknown ? -1.0 : to_us(start)},
                     {fmt::format("{}_us", objective), to_us(value)},
                     {fmt::format("bound{}_us", of), to_us(bound)},
                     {fmt::format("gap{}", of), gap()},
                     {"nodes", static_cast<double>(nodes)}};
  placement.detail = fmt::format("{} {}, ", objective, to_text(value));
  if (gap() > 0.0)
    placement.detail += fmt::format("and no {} of a {} is below {}, {:.1f} % less", objective, what,
                                    to_text(bound), 100.0 * gap());
  else
    placement.detail += of.empty() ? fmt::format("the least that a {} can have", what)
                                   : fmt::format("and no {} has less", what);
  if (gap() > 0.0 && !limit.empty()) placement.detail += fmt::format("; {} was reached", limit);
  return std::move(placement);
}

Placement search_from(const Incumbent& best, const Problem& problem, const Objective& objective,
                      std::size_t evaluations, std::uint64_t seed) {
  constexpr std::size_t chains = 4, per_op = 200;
  constexpr std::size_t least_ops = 64;  // below, the integer program is quick
  const std::size_t num_ops = problem.graph.num_ops();
  Placement start = best.known()
                        ? best.placement
                        : Placement{.device = IdVector<OpId, DeviceId>(num_ops, DeviceId{0})};
  if (evaluations == 0 || num_ops < least_ops) return start;
  const search::SearchSpace space(problem);
  search::Annealing annealing(space, objective, {&start, 1}, chains, seed);
  annealing.run(std::min(evaluations, per_op * num_ops), {});
  return annealing.chains().empty() ? start : annealing.best().best();
}

namespace {

using Clock = std::chrono::steady_clock;

/// Subtracts from `limits` what one solution cost. False if nothing is left.
bool spend(solver::MixedLimits& limits, const solver::MixedOptimum& found, Duration time) {
  limits.nodes -= found.nodes;
  limits.iterations -= found.iterations;
  if (limits.time > Duration{}) {
    limits.time -= time;
    if (limits.time <= Duration{}) return false;
  }
  return limits.nodes > 0 && limits.iterations > 0;
}

}  // namespace

bool prove(Incumbent& best, PlacementProgram& program, const Question& question,
           solver::MixedLimits limits, const Offer& offer) {
  while (true) {
    const auto begin = Clock::now();
    const solver::MixedOptimum found = solver::solve(program.program, limits);
    best.nodes += found.nodes;
    best.finished = found.finished() && found.x.empty();
    best.limit = found.limit;
    if (found.bound == -solver::LinearProgram::infinity) return true;  // not started
    if (found.x.empty()) {
      const Duration bound = found.finished() ? question.below - question.step + Duration{1}
                                              : program.time(found.bound);
      best.bound = std::max(best.bound, std::min(best.value, bound));
      return true;
    }
    const bool accepted = offer(found.x);
    const auto time = std::chrono::duration_cast<Duration>(Clock::now() - begin);
    if (!accepted &&
        program.forbid_overloads(program.split(found.x), question.bundles, question.classes) &&
        spend(limits, found, time))
      continue;
    best.bound = std::max(best.bound, std::min(best.value, program.time(found.bound)));
    return best.value < question.below;
  }
}

}  // namespace baechi::exact
