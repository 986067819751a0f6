/// Searches for the instance on which one placer loses most to another.
/// Source: PISA of SAGA (Coleman and Krishnamachari, "PISA: An Adversarial Approach To Comparing
/// Task Graph Scheduling Algorithms", 2024). Differs: memory is part of an instance, and the result
/// is simplified.
#pragma once
#include "placers/interface/placer.h"
#include "sim/processor_time.h"
#include "sim/report/timeline.h"

namespace baechi {

/// An op of a small graph and its inputs, as smaller indices into DuelInstance::ops.
struct DuelOp {
  Duration compute{};
  Bytes output{}, persistent{};
  std::vector<std::size_t> reads{};  ///< ascending, distinct
};

/// A graph and a cluster with equal links, small enough for people to read.
struct DuelInstance {
  std::vector<DuelOp> ops;
  std::vector<double> speed;  ///< of each device
  Bytes memory{};             ///< of each device
  Link link{};

  OpGraph graph() const;    ///< ops "op0", "op1", ...
  Cluster cluster() const;  ///< devices "gpu0", "gpu1", ...
};

/// The step times of both placers; nothing where a placer fails or its step runs out of memory.
struct DuelSteps {
  std::optional<Duration> loser{}, winner{};
  /// loser / winner. If only the loser fails: 10 if `failures` count, else 0. If the winner fails:
  /// 0.
  double ratio(bool failures) const;
};
DuelSteps duel_steps(const DuelInstance& instance, const Placer& loser, const Placer& winner);

struct DuelOptions {
  std::size_t evaluations = 1000;  ///< of both placers, in the search; simplifying takes more
  std::uint64_t seed = 1;
  bool failures = false;                    ///< a failure counts as a step 10 times as long
  const std::atomic<bool>* stop = nullptr;  ///< once set, the best result so far is returned
};

struct DuelResult {
  DuelInstance found, small;  ///< the worst instance found, and its simplification
  double found_ratio = 0.0, small_ratio = 0.0;
  std::size_t evaluations = 0;
};

/// Anneals four times from random instances, by changes of times, sizes, edges, ops, memory, link,
/// devices and their speeds. Then removes ops, edges, devices and weights as long as the ratio
/// stays within a hundredth. Deterministic unless stopped. `watch` counts evaluations of the
/// search.
DuelResult duel(const Placer& loser, const Placer& winner, const DuelOptions& options,
                const Watch& watch = {});

/// A placer's placement of the instance, simulated.
struct DuelStep {
  std::string placer;  ///< as in `baechi place --placer`
  std::optional<Placement> placement{};
  Timeline timeline{};
  StepResult result{};
  std::string why{};  ///< why there is no step; "" if there is one

  std::string text() const;  ///< the step time, or the reason why there is none
};

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
