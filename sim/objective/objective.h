/// Objectives, which score placements: the smaller, the better. Each has a file of its own and a
/// row in registry.cpp.
#pragma once
#include <compare>
#include <memory>
#include <span>
#include <string_view>

#include "sim/options.h"
#include "sim/problem/problem.h"

namespace baechi {

/// The objective's value of a placement, and by how much the placement is infeasible.
struct Score {
  Duration value{};              ///< less is better; only a hint if the placement is infeasible
  Bytes over{};                  ///< memory above the devices' limits, summed over the devices
  std::size_t misplaced = 0;     ///< ops on a device that cannot run them
  std::size_t split_groups = 0;  ///< colocation groups on more than one device
  bool deadlock = false;         ///< devices wait for each other, so there is no value
  /// A value that a search minimises in place of the objective's value, of about its size in ns. It
  /// also falls in changes that lead towards a better value but do not reach it yet. 0: none, use
  /// the value.
  double guide = 0.0;

  bool feasible() const {
    return over == Bytes{} && misplaced == 0 && split_groups == 0 && !deadlock;
  }
  /// Less is better. Missing memory counts before the value; the guide does not count.
  friend std::strong_ordering operator<=>(const Score& a, const Score& b);
  friend bool operator==(const Score& a, const Score& b) { return (a <=> b) == 0; }
};

/// A change of a placement: `op` moves to device `to`.
struct OpMove {
  OpId op{};
  DeviceId to{};
};

/// Scores placements of one problem, which must outlive the Evaluator. It keeps scratch memory, so
/// every thread needs its own.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  virtual Score score(const Placement& placement) = 0;

  /// begin(), attempt() and keep() are for searches, which score many placements that differ little
  /// from one placement, the base. An objective that can score a change faster than a whole
  /// placement overrides all three; the scores are the same.
  /// begin() returns the score of `placement`, which becomes the base.
  virtual Score begin(const Placement& placement) { return score(placement); }
  /// The score of `placement`, which differs from the base only in the devices of the ops `moved`,
  /// each listed once. If the base fits in memory and `placement` does not, Score::over and the
  /// value may be less than those that score() returns.
  virtual Score attempt(const Placement& placement, std::span<const OpId> /*moved*/) {
    return score(placement);
  }
  /// Makes the placement of the last attempt() the base.
  virtual void keep() {}

  /// False if what the moved ops hold for the whole step surely takes a device above its limit,
  /// while the base fits. Each op is moved at most once.
  virtual bool may_fit(std::span<const OpMove> /*change*/) { return true; }

  /// The number of changes of the base that best_estimate() compares in one call, which costs as
  /// much as a few scores; 1 if this objective has no estimate.
  virtual std::size_t estimates() const { return 1; }
  /// The index of the change with the least estimated value. `changes`: at most estimates() lists
  /// of moves, each of which moves an op at most once. Ties: the first.
  virtual std::size_t best_estimate(std::span<const std::vector<OpMove>> /*changes*/) { return 0; }
};

class Objective {
 public:
  virtual ~Objective() = default;
  /// An evaluator of `problem`, which must outlive the evaluator.
  virtual std::unique_ptr<Evaluator> on(const Problem& problem) const = 0;
  /// The score of one placement. For many placements of a problem, keep the evaluator.
  Score score(const Problem& problem, const Placement& placement) const {
    return on(problem)->score(placement);
  }
};

using MakeObjective = std::unique_ptr<Objective>(Options&);
struct ObjectiveEntry {
  std::string_view name;     ///< as written after --objective; results call it NAME_us
  std::string_view summary;  ///< one line for `list objectives`
  std::string_view source;   ///< paper and section
  MakeObjective* make;
};
std::span<const ObjectiveEntry> objectives();

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where = {});

/// The parts of a score other than value, deadlock and guide. Only weights count as memory, and
/// only accelerators limit it (the model of Tarnawski et al.); Score::over is 0 if the problem does
/// not enforce memory limits.
Score constraints(const Problem& problem, const Placement& placement);

/// Whether `placement` misplaces no op and splits no group. It differs only in the devices of the
/// ops `moved` from a placement that does neither.
bool keeps_constraints(const Problem& problem, const Placement& placement,
                       std::span<const OpMove> moved);

}  // namespace baechi
