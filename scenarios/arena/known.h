/// The arena's instances with the best known values, and what every known placer makes of them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/results/comparison.h"

namespace baechi {

/// One instance of the arena: a graph on a cluster with some memory.
struct ArenaInstance {
  std::string name;
  std::string point;  ///< a hash of graph, cluster, engine (RunResult::point)
  std::size_t ops = 0;
  Duration bound{};                ///< no placement is better
  std::optional<Duration> best{};  ///< of all placers so far; nothing if none has a step time
  std::string best_by{};
  /// By placer: its step time, or nothing where it failed.
  std::map<std::string, std::optional<Duration>> values{};
};

/// How a placer did in the arena.
struct ArenaScore {
  std::string placer;
  /// Geometric mean of step time / best known; the less, the better. A failure counts
  /// failure_ratio, and so does a step that takes longer than that. Nothing: solves no instance.
  std::optional<double> score{};
  std::size_t solved = 0;    ///< instances
  std::size_t failures = 0;  ///< of the instances that some placer solves
};

/// What became of a placer's runs.
struct ArenaOutcome {
  std::size_t instances = 0, solved = 0;
  std::size_t fell_back = 0;  ///< solved by the option `fallback`
  Duration placing{};
  struct Failure {
    std::size_t count = 0;
    std::string first;  ///< the instance, and what was said
  };
  std::map<Status, Failure> failures{};
};
ArenaOutcome outcome_of(const Results& results, const std::string& placer);

class Arena {
 public:
  /// Reads the file; an arena without instances if there is none. Throws InputError.
  static Arena read(const std::string& path);
  void write(const std::string& path) const;  ///< instances in the order of their names

  /// The values of one placer, run on every instance, in any order: puts them beside the known
  /// ones, lowers best values, and adds instances that are not there yet. Throws InputError if an
  /// instance of this name has another graph, cluster or engine. Returns the names of the instances
  /// whose best value is new, each once.
  std::vector<std::string> take(const Results& results);

  /// Forgets the instances on which `results` have fewer than `placers` rows.
  void keep_run(const Results& results, std::size_t placers);
  std::size_t size() const { return instances_.size(); }
  const std::map<std::string, ArenaInstance>& instances() const { return instances_; }
  /// The score over the instances that some placer solves. Where a placer was not run, it failed.
  ArenaScore score(const std::string& placer) const;
  /// All known placers by Rank; ties by name.
  std::vector<ArenaScore> ranking() const;

 private:
  std::map<std::string, ArenaInstance> instances_;
};

}  // namespace baechi
