/// Simulated annealing by several concurrent chains.
#pragma once
#include <deque>
#include <span>

#include "placers/search/chain.h"

namespace baechi::search {

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
