#include "placers/sct/favourite_child.h"

#include <algorithm>
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

}  // namespace baechi
