/// Simulated annealing: one chain, and several concurrent chains.
#pragma once
#include <deque>

#include "placers/interface/placer.h"
#include "placers/search/move.h"

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

class Annealing {
 public:
  /// Chain i starts from placement i % starts.size() of `starts`, which must not be empty. No chain
  /// moves if no unit of `space` is movable. `leaves`: Temperature::leaves of all chains. `space`
  /// and `objective` must outlive this.
  Annealing(const SearchSpace& space, const Objective& objective, std::span<const Placement> starts,
            std::size_t chains, std::uint64_t seed, double leaves = Temperature{}.leaves);

  /// Runs for `evaluations` of the objective in total; if `limits` has a time, until then instead.
  /// After each sixteenth the worse half of the chains continues from the best placements of the
  /// better half. Without a time limit the result does not depend on the threads.
  void run(std::size_t evaluations, const ChainLimits& limits, const Watcher& watcher = {});

  const std::deque<Chain>& chains() const { return chains_; }
  /// The chain with the best placement; there is at least one chain.
  const Chain& best() const;
  std::size_t evaluations() const;  ///< so far, of all chains

 private:
  std::size_t evaluations_of(std::size_t round, std::size_t all, std::chrono::duration<double> used,
                             const ChainLimits& limits) const;
  void restart_worst();

  std::deque<Chain> chains_;
  double leaves_;
};

}  // namespace baechi::search
