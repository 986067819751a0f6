/// One chain of simulated annealing through the placements of a problem, by the moves of move.h.
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "placers/interface/placer.h"
#include "placers/search/move.h"
#include "placers/search/space.h"
#include "sim/objective/objective.h"
#include "sim/random.h"

namespace baechi::search {

/// Limits that end a chain before its evaluations are used up.
struct ChainLimits {
  const std::atomic<bool>* stop = nullptr;
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
  bool until_feasible = false;  ///< ends at the first placement that fits
  bool reached() const;
};

/// A change that makes the value worse by the fraction `temperature` is accepted with probability
/// 1/e. The temperature falls by a constant factor per evaluation from `begin` to `end`.
struct Temperature {
  double begin = 0.0, end = 0.0;
  /// The probability of leaving a feasible placement for an infeasible one, if there are few units.
  /// A short chain has no time to return. With 0, changes that certainly do not fit are not tried.
  double leaves = 0.3;
};

class Chain {
 public:
  /// A placement better than all before it.
  struct Improvement {
    std::size_t evaluation = 0;  ///< of this chain, from 1 on
    Score score{};
    std::string_view move;
  };

  Chain(const SearchSpace& space, const Objective& objective, const Placement& start,
        std::uint64_t seed);

  void run(std::size_t evaluations, Temperature temperature, const ChainLimits& limits);
  /// Continues from `placement`.
  void restart_from(const Placement& placement);

  const Placement& best() const { return best_; }
  const Score& best_score() const { return best_score_; }
  std::size_t evaluations() const { return evaluations_; }
  const std::vector<Improvement>& improvements() const { return improvements_; }

 private:
  const MoveEntry* propose(bool leaves);
  const MoveEntry* draw(std::vector<Change>& changes, std::vector<OpMove>& ops, bool leaves);
  bool try_changes(const Temperature& now);
  void apply();
  bool accepts(const Score& next, const Temperature& now);
  bool accepts_missing(Bytes over, double leaves);

  const SearchSpace& space_;
  std::unique_ptr<Evaluator> evaluator_;
  Random random_;
  Placement placement_;  // the current placement
  UnitDevices at_;       // the same, by units
  Score score_;
  double change_ = 0.0;  // mean change of the missing bytes, weighted to recent tries
  Placement best_;
  Score best_score_;
  std::size_t evaluations_ = 0;
  std::vector<Improvement> improvements_;
  std::vector<Change> changes_;  // of the current move
  std::vector<std::vector<Change>> proposals_;
  std::vector<std::vector<OpMove>> op_moves_;  // the same, by ops
  std::vector<const MoveEntry*> drawn_;        // the moves of proposals_
  std::vector<OpId> moved_;
};

}  // namespace baechi::search
