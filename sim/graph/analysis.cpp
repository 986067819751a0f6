#include "sim/graph/analysis.h"

#include <algorithm>
#include <iterator>

namespace baechi {

Bytes output_bytes(const OpGraph& graph, OpId v) {
  Bytes sum;
  for (const TensorId t : graph.outputs(v)) {
    const Tensor& tensor = graph.tensor(t);
    if (!tensor.control) sum += tensor.size;
  }
  return sum;
}

Bytes footprint(const OpGraph& graph, OpId v) {
  return graph.op(v).persistent + graph.op(v).temporary + output_bytes(graph, v);
}

IdVector<OpId, Duration> path_lengths(const OpGraph& graph) {
  IdVector<OpId, Duration> length(graph.num_ops());
  for (const OpId v : graph.ops()) {
    Duration before{};
    for (const OpId u : graph.predecessors(v)) before = std::max(before, length[u]);
    length[v] = before + graph.op(v).compute;
  }
  return length;
}

Duration critical_path(const OpGraph& graph) {
  Duration longest{};
  for (const Duration d : path_lengths(graph)) longest = std::max(longest, d);
  return longest;
}

IdVector<OpId, Duration> b_levels(const OpGraph& graph, const IdVector<OpId, Duration>& compute,
                                  const IdVector<TensorId, Duration>& transfer) {
  IdVector<OpId, Duration> level(graph.num_ops());
  for (std::size_t i = graph.num_ops(); i-- > 0;) {
    const OpId v{static_cast<std::uint32_t>(i)};
    Duration after{};
    for (const EdgeId e : graph.out_edges(v)) {
      const Edge& edge = graph.edge(e);
      after = std::max(after, transfer[edge.tensor] + level[edge.dst]);
    }
    level[v] = after + compute[v];
  }
  return level;
}

IdVector<OpId, std::uint32_t> layers(const OpGraph& graph) {
  IdVector<OpId, std::uint32_t> layer(graph.num_ops());
  for (const OpId v : graph.ops()) {
    for (const OpId u : graph.predecessors(v)) layer[v] = std::max(layer[v], layer[u] + 1);
  }
  return layer;
}

IdVector<OpId, std::uint32_t> fifo_topological_numbers(const OpGraph& graph) {
  IdVector<OpId, std::uint32_t> number(graph.num_ops());
  IdVector<OpId, std::uint32_t> unmet(graph.num_ops());
  std::vector<OpId> queue;
  queue.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) {
    unmet[v] = static_cast<std::uint32_t>(graph.in_edges(v).size());
    if (unmet[v] == 0) queue.push_back(v);
  }
  std::vector<EdgeId> out;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    number[queue[i]] = static_cast<std::uint32_t>(i);
    const auto edges = graph.out_edges(queue[i]);
    out.clear();
    std::ranges::copy(edges, std::back_inserter(out));
    std::ranges::sort(out, {}, [&](EdgeId e) { return graph.added(e); });
    for (const EdgeId e : out) {
      if (--unmet[graph.edge(e).dst] == 0) queue.push_back(graph.edge(e).dst);
    }
  }
  return number;
}

}  // namespace baechi
