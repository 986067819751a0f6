/// Lets a placer compete in the arena: on the committed instances beside the known placers, or on
/// hidden instances beside its rivals.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/arena/known.h"
#include "sim/watch.h"

namespace baechi {

struct Competition {
  std::string placer;  ///< as `baechi place --placer` has it; "": no placer competes
  std::string folder;  ///< with instances/*.yaml and known.json
  /// Instances that this seed draws instead of those of `folder`; the rivals run on them, too.
  std::optional<std::uint64_t> hidden{};
  std::string output{};      ///< folder for the scenario files of hidden instances; "": none
  bool update_best = false;  ///< known.json gets the placer's values
  std::size_t threads = 1;
  const std::atomic<bool>* stop = nullptr;  ///< once set, no further run begins
};

/// The ranking of all placers, and what became of the runs of the one that competed.
struct CompetitionResult {
  std::vector<ArenaScore> ranking;  ///< the best first
  std::size_t instances = 0;        ///< of the ranking
  std::size_t rank = 0;             ///< of the placer, from 1; 0: no placer competed
  ArenaOutcome outcome{};           ///< of the placer's runs
  /// Instances whose best value is new; none of hidden ones, of which nothing was known.
  std::vector<std::string> improved{};
  std::string unguarded{};  ///< what a program was not kept from; "" if that is nothing
  std::size_t missing = 0;  ///< runs that did not begin; the rest is of the instances without them

  const ArenaScore& score() const { return ranking.at(rank - 1); }
};

/// Runs the placer, and on hidden instances its rivals, with an empty folder as the working folder.
/// A placer that is a program can neither read nor write known.json, nor signal the arena, where
/// the kernel has Landlock. If stopped, known.json stays as it is. Throws InputError.
CompetitionResult compete(const Competition& competition, const Watch& making = {},
                          const Watch& running = {});

}  // namespace baechi
