#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>

#include "sim/error.h"
#include "sim/graph/analysis.h"

namespace baechi {

std::vector<OpId> find_cycle(std::size_t num_ops, std::span<const Edge> edges) {
  using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  pairs.reserve(edges.size());
  for (const Edge& e : edges) pairs.emplace_back(index(e.src), index(e.dst));
  const Graph graph(boost::edges_are_unsorted_multi_pass, pairs.begin(), pairs.end(), num_ops);
  std::vector<std::size_t> component(num_ops);
  boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, graph)));

  // The lowest op with an edge that stays in its component lies on a cycle.
  const auto on_cycle = [&](const auto& p) { return component[p.first] == component[p.second]; };
  std::size_t start = num_ops;
  for (const auto& p : pairs)
    if (on_cycle(p)) start = std::min(start, p.first);
  BAECHI_CHECK(start < num_ops, "no cycle among {} edges", edges.size());

  // Breadth-first from `start`, inside its component, back to `start`.
  std::vector<std::size_t> parent(num_ops, num_ops);
  std::vector<std::size_t> frontier{start};
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const std::size_t u = frontier[i];
    for (auto [e, end] = boost::out_edges(u, graph); e != end; ++e) {
      const std::size_t v = boost::target(*e, graph);
      if (v == start) {
        std::vector<OpId> cycle;
        for (std::size_t w = u; w != start; w = parent[w]) cycle.push_back(static_cast<OpId>(w));
        cycle.push_back(static_cast<OpId>(start));
        std::ranges::reverse(cycle);
        return cycle;
      }
      if (component[v] != component[start] || parent[v] != num_ops) continue;
      parent[v] = u;
      frontier.push_back(v);
    }
  }
  BAECHI_CHECK(false, "op {} is in a strong component of one", start);
  return {};
}

}  // namespace baechi
