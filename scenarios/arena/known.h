/// The arena's instances with the best known values, and the results of all known placers.
#pragma once
#include "scenarios/results/comparison.h"

namespace baechi {

/// One instance of the arena: a graph on a cluster with some memory.
struct ArenaInstance {
  std::string name;
  std::string point;  ///< a hash of graph, cluster, engine (RunResult::point)
  std::size_t ops = 0;
  Duration bound{};                ///< lower bound on any placement
  std::optional<Duration> best{};  ///< over all placers so far; nothing if none has a step time
  std::string best_by{};
  /// The step time of each placer, or nothing if it failed.
  std::map<std::string, std::optional<Duration>> values{};
};

struct ArenaScore {
  std::string placer;
  /// Geometric mean of step time / best known; less is better. A failure, or a step that takes
  /// longer, counts as failure_ratio. Nothing: solves no instance.
  std::optional<double> score{};
  std::size_t solved = 0;    ///< instances
  std::size_t failures = 0;  ///< instances that only others solve
};

/// The outcomes of a placer's runs.
struct ArenaOutcome {
  std::size_t instances = 0, solved = 0;
  std::size_t fell_back = 0;  ///< solved by the option `fallback`
  Duration placing{};
  struct Failure {
    std::size_t count = 0;
    std::string first;  ///< the instance and the message
  };
  std::map<Status, Failure> failures{};
};
ArenaOutcome outcome_of(const Results& results, const std::string& placer);

class Arena {
 public:
  /// Reads the file; an arena without instances if there is none. Throws InputError.
  static Arena read(const std::string& path);
  void write(const std::string& path) const;  ///< instances sorted by name

  /// Merges the values of one placer that was run on every instance, in any order: stores them,
  /// lowers best values, and adds new instances. Throws InputError if an instance of the same name
  /// has another graph, cluster or engine. Returns the distinct names of the instances whose best
  /// value is new.
  std::vector<std::string> take(const Results& results);

  /// Removes the instances on which `results` have fewer than `placers` rows.
  void keep_run(const Results& results, std::size_t placers);
  std::size_t size() const { return instances_.size(); }
  const std::map<std::string, ArenaInstance>& instances() const { return instances_; }
  /// The score over the instances that some placer solves. A missing run counts as a failure.
  ArenaScore score(const std::string& placer) const;
  /// All known placers by rank; ties by name.
  std::vector<ArenaScore> ranking() const;
  /// A point per instance with the value of each ranked placer; failures are infeasible.
  Contest contest() const;

 private:
  std::map<std::string, ArenaInstance> instances_;
};

}  // namespace baechi
