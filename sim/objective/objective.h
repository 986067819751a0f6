/// What a placement is worth: one number to make small. One file per objective, one row in
/// registry.cpp.
#pragma once
#include <compare>
#include <memory>
#include <span>
#include <string_view>

#include "sim/options.h"
#include "sim/problem/problem.h"

namespace baechi {

/// The worth of a placement, and what keeps it from being one.
struct Score {
  Duration value{};              ///< less is better; of an infeasible placement only a hint
  Bytes over{};                  ///< missing memory, added up over the devices
  std::size_t misplaced = 0;     ///< ops on a device that cannot run them
  std::size_t split_groups = 0;  ///< colocation groups on more than one device
  bool deadlock = false;         ///< devices wait for each other: there is no value
  /// What a search goes down by, about as large as the value in ns: it also falls on the way to a
  /// better value, where the value itself does not yet. 0: the value is all there is.
  double guide = 0.0;

  bool feasible() const {
    return over == Bytes{} && misplaced == 0 && split_groups == 0 && !deadlock;
  }
  /// The less, the better: what is wrong goes before the value. The guide does not count.
  friend std::strong_ordering operator<=>(const Score& a, const Score& b);
  friend bool operator==(const Score& a, const Score& b) { return (a <=> b) == 0; }
};

/// An op goes elsewhere.
struct OpMove {
  OpId op{};
  DeviceId to{};
};

/// Scores placements of one problem, which outlives it. Keeps scratch memory: one per thread.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Score score(const Placement& placement) = 0;

  /// For searches, which score many placements near one, the base. An objective that can score
  /// changes faster than wholes overrides all three; the scores are the same.
  /// The score of `placement`, which becomes the base.
  virtual Score begin(const Placement& placement) { return score(placement); }
  /// The score of `placement`, which differs from the base in the devices of `moved` alone, each
  /// named once. If the base fits and `placement` does not, Score::over and the value may be less
  /// than score() says.
  virtual Score attempt(const Placement& placement, std::span<const OpId> /*moved*/) {
    return score(placement);
  }
  /// The placement of the last attempt becomes the base.
  virtual void keep() {}

  /// How many changes of the base best_estimate() compares at once, at the cost of a few scores; 1
  /// if this objective has no estimate.
  virtual std::size_t estimates() const { return 1; }
  /// Index of the change with the least estimated value, among at most estimates() changes that
  /// each name an op once; ties: the first.
  virtual std::size_t best_estimate(std::span<const std::vector<OpMove>> /*changes*/) { return 0; }
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual std::unique_ptr<Evaluator> on(const Problem& problem) const = 0;
  /// Of one placement.
  Score score(const Problem& problem, const Placement& placement) const {
    return on(problem)->score(placement);
  }
};

struct ObjectiveEntry {
  std::string_view name;     ///< as written after --objective; results call it NAME_us
  std::string_view summary;  ///< one line for `list objectives`
  std::string_view source;   ///< paper and section
  std::unique_ptr<Objective> (*make)(Options&);
};
std::span<const ObjectiveEntry> objectives();

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where = {});

/// All of a score but its value and deadlock. Memory is that of the weights alone, as a limit on
/// accelerators (the model of Tarnawski et al.); none if the problem does not enforce it.
Score constraints(const Problem& problem, const Placement& placement);

}  // namespace baechi
