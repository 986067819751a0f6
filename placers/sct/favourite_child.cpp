#include "placers/sct/favourite_child.h"

#include <cmath>

#include "sim/error.h"

namespace baechi {
namespace {

// Times are integers, so the exact x is often the threshold itself; the computed x has an error of
// up to 1e-11.
constexpr double solver_noise = 1e-9;

/// Baechi's rounding, operation by operation; halves go to even (the default rounding mode).
bool rounds_to_zero(double x, double threshold) {
  return std::nearbyint((x - threshold) + 0.5) == 0.0;
}

// Limit of the edges of all cached graphs together: about 100 MB. The newest graph always stays.
constexpr std::size_t most_edges = 4'000'000;

}  // namespace

std::vector<std::uint32_t> favourite_edges(const SctGraph& graph, std::span<const double> x,
                                           double threshold, bool compat) {
  BAECHI_CHECK(x.size() == graph.edges.size(), "{} values for {} edges", x.size(),
               graph.edges.size());
  std::vector<std::uint32_t> chosen;
  for (std::uint32_t e = 0; e < x.size(); ++e)
    if (compat ? rounds_to_zero(x[e], threshold) : x[e] <= threshold + solver_noise)
      chosen.push_back(e);
  if (compat) return chosen;

  std::ranges::stable_sort(chosen, std::greater{},
                           [&](std::uint32_t e) { return graph.edges[e].communication; });
  std::vector<bool> has_favourite(graph.compute.size()), has_parent(graph.compute.size());
  std::erase_if(chosen, [&](std::uint32_t e) {
    const auto [src, dst, communication] = graph.edges[e];
    if (has_favourite[src] || has_parent[dst]) return true;
    has_favourite[src] = has_parent[dst] = true;
    return false;
  });
  std::ranges::sort(chosen);
  return chosen;
}

Favourites favourites(const SctGraph& graph, std::span<const std::uint32_t> chosen, bool compat) {
  const std::size_t num_ops = graph.compute.size();
  Favourites f{std::vector(num_ops, no_favourite), std::vector(num_ops, no_favourite)};
  for (const std::uint32_t e : chosen) {
    const auto [src, dst, communication] = graph.edges[e];
    if (!compat)
      BAECHI_CHECK(f.favourite[src] == no_favourite && f.parent[dst] == no_favourite,
                   "edge {} -> {} meets another chosen edge", src, dst);
    f.favourite[src] = dst;
    if (f.parent[dst] != no_favourite) f.favourite[f.parent[dst]] = no_favourite;
    f.parent[dst] = src;
  }
  return f;
}

SctGraph sct_graph(const Problem& p) {
  const IdVector<OpId, Duration> compute = mean_compute(p);
  const IdVector<TensorId, Duration> transfer = mean_transfer(p);
  SctGraph sct{.compute = {compute.begin(), compute.end()}, .edges = {}};
  IdVector<OpId, std::size_t> edge_to(p.graph.num_ops());  // stale unless from the current u
  for (const OpId u : p.graph.ops()) {
    const std::size_t first = sct.edges.size();
    for (const EdgeId e : p.graph.out_edges(u)) {
      const Edge& edge = p.graph.edge(e);
      std::size_t& known = edge_to[edge.dst];
      if (known < first || known >= sct.edges.size() || sct.edges[known].dst != index(edge.dst)) {
        known = sct.edges.size();
        sct.edges.push_back({static_cast<std::uint32_t>(index(u)),
                             static_cast<std::uint32_t>(index(edge.dst)), Duration{}});
      }
      sct.edges[known].communication += transfer[edge.tensor];
    }
  }
  return sct;
}

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
