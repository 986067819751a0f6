#include "placers/sct/sct_graph.h"

#include "sim/problem/problem.h"

namespace baechi {

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

}  // namespace baechi
