#include "placers/sct/sct_solutions.h"

#include <algorithm>

#include "placers/sct/sct_graph.h"

namespace baechi {
namespace {

// Limit of the edges of all cached graphs together: about 100 MB. The newest graph always stays.
constexpr std::size_t most_edges = 4'000'000;

}  // namespace

std::shared_ptr<const SctSolution> SctSolutions::of(const SctGraph& graph) {
  const std::shared_ptr<Entry> entry = entry_of(graph);
  std::call_once(entry->once, [&] {
    entry->solution = std::make_shared<const SctSolution>(solve_sct(entry->graph));
  });
  return entry->solution;
}

std::shared_ptr<SctSolutions::Entry> SctSolutions::entry_of(const SctGraph& graph) {
  const std::lock_guard lock(mutex_);
  const auto known =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->graph == graph; });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return entries_.front();
  }
  std::size_t edges = graph.edges.size();
  const auto kept = std::ranges::find_if(entries_, [&](const auto& entry) {
    edges += entry->graph.edges.size();
    return edges > most_edges;
  });
  entries_.erase(kept, entries_.end());
  entries_.push_front(std::make_shared<Entry>(graph));
  return entries_.front();
}

SctFavourites favourites_of(const Problem& problem, double threshold, SctSolutions& solutions) {
  const SctGraph sct = sct_graph(problem);
  const std::shared_ptr<const SctSolution> solution = solutions.of(sct);
  const auto chosen = favourite_edges(sct, solution->x, threshold);
  SctFavourites result{.of = IdVector<OpId, OpId>(problem.graph.num_ops(), no_op),
                       .count = chosen.size(),
                       .program = solution->w};
  for (const std::uint32_t e : chosen)
    result.of[static_cast<OpId>(sct.edges[e].src)] = static_cast<OpId>(sct.edges[e].dst);
  return result;
}

}  // namespace baechi
