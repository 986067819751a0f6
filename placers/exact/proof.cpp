#include "placers/exact/proof.h"

#include <algorithm>
#include <chrono>

namespace baechi::exact {
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
    best.finished = found.finished && found.x.empty();
    if (found.bound == -solver::LinearProgram::infinity) return true;  // not started
    if (found.x.empty()) {
      const Duration bound =
          found.finished ? question.below - question.step + Duration{1} : program.time(found.bound);
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
