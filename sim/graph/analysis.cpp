#include "sim/graph/analysis.h"

#include <algorithm>
#include <iterator>

namespace baechi {

Bytes output_bytes(const OpGraph& graph, OpId v) {
  Bytes sum;
  for (const TensorId t : graph.outputs(v)) sum += graph.tensor(t).held();
  return sum;
}

Bytes footprint(const OpGraph& graph, OpId v) {
  return graph.op(v).persistent + graph.op(v).temporary + output_bytes(graph, v);
}

Bytes one_device_peak(const OpGraph& graph) {
  Bytes live;
  for (const OpId v : graph.ops()) live += graph.op(v).persistent;
  Bytes peak = live;
  IdVector<TensorId, std::size_t> unread(graph.num_tensors());
  for (const OpId v : graph.ops()) {
    for (const TensorId t : graph.outputs(v)) {
      unread[t] = graph.readers(t).size();
      live += graph.tensor(t).held();
    }
    peak = std::max(peak, live + graph.op(v).temporary);
    for (const EdgeId e : graph.in_edges(v)) {
      const TensorId t = graph.edge(e).tensor;
      if (--unread[t] == 0) live -= graph.tensor(t).held();
    }
    for (const TensorId t : graph.outputs(v))
      if (unread[t] == 0) live -= graph.tensor(t).held();
  }
  return peak;
}

Bytes peak_upper_bound(const OpGraph& graph) {
  Bytes all;
  for (const OpId v : graph.ops()) all += footprint(graph, v);
  for (const EdgeId e : graph.edges()) all += graph.tensor(graph.edge(e).tensor).copied();
  return all;
}

Duration critical_path(const OpGraph& graph) {
  IdVector<OpId, Duration> length(graph.num_ops());
  Duration longest{};
  for (const OpId v : graph.ops()) {
    Duration before{};
    for (const OpId u : graph.predecessors(v)) before = std::max(before, length[u]);
    length[v] = before + graph.compute(v, 0).value_or(Duration::zero());
    longest = std::max(longest, length[v]);
  }
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

}  // namespace baechi
