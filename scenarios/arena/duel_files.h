/// The result of a duel: both placers' steps on the instance found, and its files.
#pragma once

#include "scenarios/arena/duel.h"
#include "sim/report/timeline.h"

namespace baechi {

/// A placer's placement of the instance, simulated.
struct DuelStep {
  std::string placer;  ///< as in `baechi place --placer`
  std::optional<Placement> placement{};
  Timeline timeline{};
  StepResult result{};
  std::string why{};  ///< why there is no step; "" if there is one

  std::string text() const;  ///< the step time, or the reason why there is none
};

/// The placers of a duel and its options.
struct DuelNames {
  std::string loser, winner;
  DuelOptions options;
};

/// The steps of the loser and of the winner on the simplified instance.
std::array<DuelStep, 2> duel_steps(const DuelNames& names, const Placer& loser,
                                   const Placer& winner, const Problem& problem);

/// Writes duel.trace.json, duel.yaml (a scenario with both placers), and for each placer that has
/// an answer its placement and its step as CSV (a.*: the loser; b.*: the winner), which
/// tools/baechi_plot.py draws.
void write_duel(const std::string& folder, const DuelNames& names, const DuelResult& result,
                const Problem& problem, const std::array<DuelStep, 2>& steps);

}  // namespace baechi
