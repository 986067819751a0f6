/// A short search from the placement of another placer.
#pragma once

#include "placers/interface/placer.h"

namespace baechi {

/// The ops of all steps that `auto` evaluates after its placers: about as long as m_etf and m_sct
/// take on the arena's instances.
inline constexpr std::size_t refined_ops = 25'000;

/// The fact of a placement that says how many of its evaluations a search has used for it.
inline constexpr const char* searched_fact = "searched";

/// Whether `auto` simulates all placements.
bool tries_all_placements(const Problem& problem);

/// Evaluations of a step: about `ops` / the graph's ops, at least `least`, at most `most`.
struct RefineBudget {
  std::size_t most = 0, least = 0, ops = 0;
  bool anneals = false;  ///< in rounds, as search_from(); otherwise one chain at low temperature
};

/// The answer of `start`, then the evaluations of `budget` from it, restricted to placements that
/// fit unless it anneals; all placements, if those are not more. Reads the option `fallback`: where
/// `start` has no answer, one of find_feasible().
std::unique_ptr<Placer> refined(std::unique_ptr<Placer> start, Options& options,
                                RefineBudget budget);

/// Annealing from `start` in rounds of 1/16, 1/8 ... of 20,000 evaluations, each from the best so
/// far; fewer on graphs of more than 1,000 ops, so that it takes about a second.
std::unique_ptr<Placer> search_from(Placement start);

}  // namespace baechi
