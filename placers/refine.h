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
};

/// The answer of `start`, then a short annealing chain from it at low temperature, restricted to
/// placements that fit; all placements, if those are not more. Reads the option `fallback`: where
/// `start` has no answer, one of find_feasible().
std::unique_ptr<Placer> refined(std::unique_ptr<Placer> start, Options& options,
                                RefineBudget budget);

/// The placer `refine`, but from `start`.
std::unique_ptr<Placer> refine_from(Placement start);

}  // namespace baechi
