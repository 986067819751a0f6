#include "sim/engine/baechi_graph.h"

#include <algorithm>

#include "sim/error.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

constexpr EdgeId no_edge{~std::uint32_t{0}};

/// Throws InputError unless all devices and all links of `cluster` are alike.
void require_uniform(const Cluster& cluster) {
  Mistakes mistakes;
  const DeviceId first{0};
  const DeviceId second{1};
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    if (device.kind != cluster.device(first).kind || device.speed != cluster.device(first).speed)
      mistakes.add(
          fmt::format("the original Baechi knows one kind and speed of device, but '{}' and "
                      "'{}' differ",
                      cluster.device(first).name, device.name));
    for (const DeviceId to : cluster.devices()) {
      if (to == d || cluster.link(d, to) == cluster.link(first, second)) continue;
      mistakes.add(
          fmt::format("the original Baechi knows one link for all pairs of devices, but "
                      "'{}' -> '{}' differs from '{}' -> '{}'",
                      device.name, cluster.device(to).name, cluster.device(first).name,
                      cluster.device(second).name));
    }
  }
  mistakes.throw_if_any();
}

}  // namespace

BaechiGraph::BaechiGraph(IdVector<OpId, Op> ops, std::span<const Read> reads, bool numbered)
    : ops_(std::move(ops)) {
  std::vector<Read> sorted;
  if (!std::ranges::is_sorted(reads, {}, &Read::src)) {
    sorted.assign(reads.begin(), reads.end());
    std::ranges::stable_sort(sorted, {}, &Read::src);
    reads = sorted;
  }
  edges_.reserve(reads.size());
  sends_.reserve(reads.size());
  sends_begin_.reserve(reads.size() + 1);
  out_begin_.reserve(num_ops() + 1);
  std::vector<EdgeId> edge_to(num_ops(), no_edge);
  auto first = reads.begin();
  for (const OpId v : this->ops()) {
    const auto last = std::find_if(first, reads.end(), [v](const Read& r) { return r.src != v; });
    add_edges_of({first, last}, edge_to);
    out_begin_.push_back(static_cast<std::uint32_t>(num_edges()));
    first = last;
  }
  BAECHI_CHECK(first == reads.end(), "a read names an op outside the graph");
  index_readers();
  complete_groups();
  if (!numbered) number_topologically();
}

/// All reads of one op. `edge_to`: for each op, the last edge made to it; [num_ops].
void BaechiGraph::add_edges_of(std::span<const Read> reads, std::vector<EdgeId>& edge_to) {
  const EdgeId first_edge{static_cast<std::uint32_t>(num_edges())};
  for (const Read& r : reads) {
    num_tensors_ = std::max(num_tensors_, index(r.send.tensor) + 1);
    EdgeId& known = edge_to[index(r.dst)];
    const bool fresh = known == no_edge || known < first_edge;
    if (fresh) known = edges_.push_back({.src = r.src, .dst = r.dst, .time = {}});
  }
  const std::size_t fresh = num_edges() - index(first_edge);
  if (fresh == reads.size()) {  // no two tensors share an edge, nearly always so
    for (const Read& r : reads) {
      edges_[edge_to[index(r.dst)]].time = r.send.time;
      sends_.push_back(r.send);
      sends_begin_.push_back(static_cast<std::uint32_t>(sends_.size()));
    }
    return;
  }
  std::vector<std::vector<Send>> on(fresh);
  for (const Read& r : reads) {
    const EdgeId e = edge_to[index(r.dst)];
    std::vector<Send>& sends = on[index(e) - index(first_edge)];
    if (std::ranges::find(sends, r.send.tensor, &Send::tensor) != sends.end()) continue;
    sends.push_back(r.send);
    edges_[e].time += r.send.time;
  }
  for (const auto& sends : on) {
    sends_.insert(sends_.end(), sends.begin(), sends.end());
    sends_begin_.push_back(static_cast<std::uint32_t>(sends_.size()));
  }
}

void BaechiGraph::index_readers() {
  in_begin_.assign(num_ops() + 1, 0);
  for (const Edge& e : edges_) ++in_begin_[index(e.dst) + 1];
  for (std::size_t v = 0; v < num_ops(); ++v) in_begin_[v + 1] += in_begin_[v];
  std::vector<std::uint32_t> next(in_begin_.begin(), in_begin_.end() - 1);
  in_.resize(num_edges());
  for (const EdgeId e : edges()) in_[next[index(edges_[e].dst)]++] = e;
}

void BaechiGraph::number_topologically() {
  std::vector<std::uint32_t> unmet(num_ops());
  std::vector<OpId> queue;
  queue.reserve(num_ops());
  for (const OpId v : ops()) {
    unmet[index(v)] = static_cast<std::uint32_t>(in_edges(v).size());
    if (unmet[index(v)] == 0) queue.push_back(v);
  }
  for (std::size_t i = 0; i < queue.size(); ++i) {
    ops_[queue[i]].topo = static_cast<std::uint32_t>(i);
    for (const EdgeId e : out_edges(queue[i])) {
      if (--unmet[index(edges_[e].dst)] == 0) queue.push_back(edges_[e].dst);
    }
  }
}

void BaechiGraph::complete_groups() {
  for (const Op& op : ops_) num_groups_ = std::max(num_groups_, index(op.group));
  for (Op& op : ops_) {
    if (op.group == no_group) op.group = GroupId{static_cast<std::uint32_t>(++num_groups_)};
  }
}

BaechiGraph BaechiGraph::from(const OpGraph& graph, const CostModel& costs,
                              const Cluster& cluster) {
  require_uniform(cluster);
  const DeviceId here{0};
  const DeviceId there{1};
  IdVector<OpId, Op> ops;
  ops.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) {
    const Duration compute = costs.compute(v, here);
    ops.push_back({.compute = compute > Duration::zero() ? compute : std::chrono::microseconds(1),
                   .temporary = graph.op(v).temporary,
                   .persistent = graph.op(v).persistent,
                   .outputs = output_bytes(graph, v) + graph.op(v).persistent,
                   .group = graph.op(v).group});
  }
  std::vector<Read> reads;
  reads.reserve(graph.num_edges());
  std::vector<EdgeId> out;
  for (const OpId v : graph.ops()) {
    const auto edges = graph.out_edges(v);
    out.assign(edges.begin(), edges.end());
    std::ranges::sort(out, {}, [&](EdgeId e) { return graph.added(e); });
    for (const EdgeId e : out) {
      const TensorId t = graph.edge(e).tensor;
      const Duration time =
          cluster.num_devices() > 1 ? costs.transfer(t, here, there) : Duration::zero();
      reads.push_back({v, graph.edge(e).dst, {t, graph.tensor(t).size, time}});
    }
  }
  return BaechiGraph(std::move(ops), reads);
}

}  // namespace baechi
