/// Looks for the instance on which one placer loses most to another.
/// Source: PISA of SAGA (Coleman and Krishnamachari, "PISA: An Adversarial Approach To Comparing
/// Task Graph Scheduling Algorithms", 2024). Differs: memory is part of an instance, and what is
/// found is made small.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "placers/interface/placer.h"
#include "sim/cluster/cluster.h"
#include "sim/watch.h"

namespace baechi {

/// An op of a small graph, and what it reads: smaller positions in DuelInstance::ops.
struct DuelOp {
  Duration compute{};
  Bytes output{}, persistent{};
  std::vector<std::size_t> reads{};  ///< ascending, each once
};

/// A graph and a cluster whose links are equal, small enough to be read.
struct DuelInstance {
  std::vector<DuelOp> ops;
  std::vector<double> speed;  ///< of each device
  Bytes memory{};             ///< of each device
  Link link{};

  OpGraph graph() const;    ///< ops "op0", "op1", ...
  Cluster cluster() const;  ///< devices "gpu0", "gpu1", ...
};

/// The step times of both placers, or nothing where a placer finds nothing or its step runs out of
/// memory.
struct DuelSteps {
  std::optional<Duration> loser{}, winner{};
  /// loser / winner. Where only the loser fails: 10 if `failures` count, else 0. Where the winner
  /// fails: 0.
  double ratio(bool failures) const;
};
DuelSteps duel_steps(const DuelInstance& instance, const Placer& loser, const Placer& winner);

struct DuelOptions {
  std::size_t evaluations = 1000;  ///< of both placers, to find; making it small takes more
  std::uint64_t seed = 1;
  bool failures = false;                    ///< a failure counts as a step 10 times as long
  const std::atomic<bool>* stop = nullptr;  ///< once set, what was found so far is the result
};

struct DuelResult {
  DuelInstance found, small;  ///< the worst one found, and what is left of it
  double found_ratio = 0.0, small_ratio = 0.0;
  std::size_t evaluations = 0;
};

/// Anneals four times from random instances: times, sizes, edges, ops, memory, link, devices and
/// their speeds. Then removes ops, edges, devices and weights as long as the loss stays within a
/// hundredth. Same arguments, same result, unless stopped. `watch` counts evaluations to find.
DuelResult duel(const Placer& loser, const Placer& winner, const DuelOptions& options,
                const Watch& watch = {});

}  // namespace baechi
