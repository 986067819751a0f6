/// Runs a placer in the arena: on the committed instances, compared with the known placers, or on
/// hidden instances, compared with baselines that run, too.
#pragma once
#include "scenarios/arena/known.h"
#include "sim/processor_time.h"

namespace baechi {

struct Competition {
  std::string placer;  ///< as in `baechi place --placer`; "": only the ranking
  std::string folder;  ///< with instances/*.yaml and known.json
  /// Seed of instances that replace those of `folder`; the baselines run on them, too.
  std::optional<std::uint64_t> hidden{};
  std::string output{};      ///< folder for the scenario files of hidden instances; "": none
  bool update_best = false;  ///< whether known.json gets the placer's values
  std::size_t threads = 1;
  const std::atomic<bool>* stop = nullptr;  ///< once set, no further run begins
};

struct CompetitionResult {
  Arena arena{};                    ///< the known values and the placer's
  std::vector<ArenaScore> ranking;  ///< the best first
  std::size_t instances = 0;        ///< of the ranking
  std::size_t rank = 0;             ///< of the placer, from 1; 0: no placer competed
  ArenaOutcome outcome{};           ///< of the placer's runs
  /// Instances whose best value is new; none if hidden, because these have no known values.
  std::vector<std::string> improved{};
  std::string unguarded{};  ///< missing protection against an external program; "": none
  std::size_t missing = 0;  ///< runs that did not begin; the other members exclude their instances

  const ArenaScore& score() const { return ranking.at(rank - 1); }
};

/// Runs the placer, and on hidden instances the baselines, with an empty folder as the working
/// folder. Where the kernel has Landlock, an external program can neither read nor write
/// known.json, nor signal this process. If stopped, known.json does not change. Throws InputError.
CompetitionResult compete(const Competition& competition, const Watch& making = {},
                          const Watch& running = {});

struct ArenaFile {
  std::string name;  ///< of the scenario; the file is NAME.yaml
  std::string text;
};

/// For each of five families (cells, recurrent, seq2seq, blocks, and layers of training) in three
/// sizes, on one of three clusters (four V100s; two nodes of two; two V100s and two T4s with half
/// the memory), a file of eight instances: two bandwidths times four memory sizes, which are 1.05,
/// 1.2, 1.5 and 2 times least_memory(). The same seed gives the same bytes. Calls `done` after each
/// file.
std::vector<ArenaFile> make_arena_files(std::uint64_t seed, const std::function<void()>& done = {});

/// The factor, to 5 %, by which the memory of the problem's cluster may shrink or must grow until
/// the step of a quick placer (the first of m_etf, heft, m_topo and least_loaded that fits) just
/// fits.
double least_memory(const Problem& problem);

}  // namespace baechi
