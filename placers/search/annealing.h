/// Simulated annealing by several chains side by side.
#pragma once
#include <deque>
#include <span>

#include "placers/search/chain.h"

namespace baechi::search {

class Annealing {
 public:
  /// Chain i starts from placement i % starts.size() of `starts`, which are not empty. No chain
  /// walks if no unit of `space` can move. `leaves`: Temperature::leaves of all. `space` and
  /// `objective` outlive this.
  Annealing(const SearchSpace& space, const Objective& objective, std::span<const Placement> starts,
            std::size_t chains, std::uint64_t seed, double leaves = Temperature{}.leaves);

  /// Walks for `evaluations` of the objective, over all chains. If `limits` has a time, walks until
  /// then instead. After each sixteenth the worse half of the chains goes on from the best
  /// placements of the better half. Without a time limit the result does not depend on the threads.
  void run(std::size_t evaluations, const WalkLimits& limits, const Watcher& watcher = {});

  const std::deque<Chain>& chains() const { return chains_; }
  /// The chain with the best placement. There is one.
  const Chain& best() const;
  std::size_t evaluations() const;  ///< so far, of all chains

 private:
  std::size_t evaluations_of(std::size_t round, std::size_t all, std::chrono::duration<double> used,
                             const WalkLimits& limits) const;
  void restart_worst();

  std::deque<Chain> chains_;
  double leaves_;
};

}  // namespace baechi::search
