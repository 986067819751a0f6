#include "sim/graph/analysis.h"

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

bool is_host_lane(std::string_view name) { return name.starts_with("host"); }

bool on_host(const OpGraph& graph, OpId v) {
  return is_host_lane(graph.lanes()[index(graph.lane(v))]);
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

namespace {

constexpr std::size_t tried_at_once = 64;  // ops, one bit each

/// Bytes held while each of `tried`, at most 64 ops, runs, without weights. [64]
std::array<Bytes, tried_at_once> held_while(const OpGraph& graph, std::span<const OpId> tried) {
  IdVector<OpId, std::uint64_t> own(graph.num_ops(), 0);
  for (std::size_t k = 0; k < tried.size(); ++k) own[tried[k]] = std::uint64_t{1} << k;
  IdVector<OpId, std::uint64_t> until = own;  // tried ops that the op is or precedes
  for (std::size_t i = graph.num_ops(); i-- > 0;) {
    const auto v = static_cast<OpId>(i);
    for (const EdgeId e : graph.out_edges(v)) until[v] |= until[graph.edge(e).dst];
  }
  IdVector<OpId, std::uint64_t> since = own;  // tried ops that the op is or follows
  for (const OpId v : graph.ops())
    for (const EdgeId e : graph.in_edges(v)) since[v] |= since[graph.edge(e).src];

  std::array<Bytes, tried_at_once> held{};
  for (std::size_t k = 0; k < tried.size(); ++k)
    held[k] = output_bytes(graph, tried[k]) + graph.op(tried[k]).temporary;
  for (const TensorId t : graph.tensors()) {
    const Tensor& tensor = graph.tensor(t);
    std::uint64_t read = 0;
    for (const EdgeId e : graph.readers(t)) read |= since[graph.edge(e).dst];
    const std::uint64_t holding = until[tensor.producer] & read & ~own[tensor.producer];
    const Bytes size = std::min(tensor.held(), tensor.copied());
    for (std::uint64_t left = holding; left != 0; left &= left - 1)
      held[static_cast<std::size_t>(std::countr_zero(left))] += size;
  }
  return held;
}

}  // namespace

HeldAtOnce held_at_once(const OpGraph& graph) {
  constexpr std::size_t effort = 4'000'000;  // steps of held_while: some milliseconds
  const std::size_t n = graph.num_ops();
  const std::size_t steps = n + graph.num_edges() + tried_at_once * graph.num_tensors() + 1;
  const std::size_t most = tried_at_once * std::max<std::size_t>(effort / steps, 1);
  const std::size_t count = std::min(n, most);
  std::vector<OpId> tried;
  for (std::size_t i = 0; i < count; ++i) tried.push_back(static_cast<OpId>(i * n / count));

  HeldAtOnce most_held;
  for (const OpId v : graph.ops()) most_held.weights += graph.op(v).persistent;
  most_held.live = Bytes{-1};
  for (std::size_t i = 0; i < count; i += tried_at_once) {
    const auto some = std::span<const OpId>(tried).subspan(i, std::min(tried_at_once, count - i));
    const std::array<Bytes, tried_at_once> held = held_while(graph, some);
    for (std::size_t k = 0; k < some.size(); ++k) {
      if (held[k] <= most_held.live) continue;
      most_held.live = held[k];
      most_held.op = some[k];
    }
  }
  return most_held;
}

bool persistent_of_one_kind(const OpGraph& graph) {
  bool passes = false, any = false;
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    passes |= op.phase != Phase::forward;
    any |= op.persistent > Bytes{};
    if (op.phase != Phase::forward && op.persistent > Bytes{}) return false;
  }
  return passes && any;
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
