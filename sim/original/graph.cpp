#include "sim/original/graph.h"

#include "sim/error.h"

namespace baechi::original {
namespace {

constexpr EdgeId no_edge{~std::uint32_t{0}};

}  // namespace

void require_uniform(const Cluster& cluster) {
  Mistakes mistakes;
  const DeviceId first{0};
  const DeviceId second{1};
  bool links_differ = false;  // said of the first pair
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    if (device.kind != cluster.device(first).kind || device.speed != cluster.device(first).speed)
      mistakes.add(fmt::format(
          "the original Baechi knows one kind and speed of device, but '{}' and '{}' differ",
          cluster.device(first).name, device.name));
    for (const DeviceId to : cluster.devices()) {
      if (links_differ || to == d || cluster.link(d, to) == cluster.link(first, second)) continue;
      links_differ = true;
      mistakes.add(
          fmt::format("the original Baechi knows one link for all pairs of devices, but '{}' -> "
                      "'{}' differs from '{}' -> '{}'",
                      device.name, cluster.device(to).name, cluster.device(first).name,
                      cluster.device(second).name));
    }
  }
  mistakes.throw_if_any();
}

Graph::Graph(IdVector<OpId, Op> ops, std::span<const Read> reads, bool numbered)
    : ops_(std::move(ops)) {
  std::vector<Read> sorted;
  if (!std::ranges::is_sorted(reads, {}, &Read::src)) {
    sorted.assign(reads.begin(), reads.end());
    std::ranges::stable_sort(sorted, {}, &Read::src);
    reads = sorted;
  }
  reserve(reads.size());
  std::vector<EdgeId> edge_to(num_ops(), no_edge);
  auto first = reads.begin();
  for (const OpId v : this->ops()) {
    const auto last = std::find_if(first, reads.end(), [v](const Read& r) { return r.src != v; });
    add_edges_of({first, last}, edge_to);
    first = last;
  }
  BAECHI_CHECK(first == reads.end(), "a read names an op outside the graph");
  number_slots();
  finish(numbered);
}

void Graph::reserve(std::size_t reads) {
  edges_.reserve(reads);
  sends_.reserve(reads);
  sends_begin_.reserve(reads + 1);
  out_begin_.reserve(num_ops() + 1);
}

void Graph::finish(bool numbered) {
  index_readers();
  complete_groups();
  if (!numbered) number_topologically();
}

/// `reads`: all reads of one op. `edge_to`: for each op, the last edge added to it; [num_ops].
void Graph::add_edges_of(std::span<const Read> reads, std::vector<EdgeId>& edge_to) {
  const EdgeId first_edge{static_cast<std::uint32_t>(num_edges())};
  for (const Read& r : reads) {
    num_tensors_ = std::max(num_tensors_, index(r.send.tensor) + 1);
    EdgeId& known = edge_to[index(r.dst)];
    const bool fresh = known == no_edge || known < first_edge;
    if (fresh) known = edges_.push_back({.src = r.src, .dst = r.dst});
  }
  const std::size_t fresh = num_edges() - index(first_edge);
  out_begin_.push_back(static_cast<std::uint32_t>(num_edges()));
  if (fresh == reads.size()) {  // no two tensors share an edge, nearly always so
    for (const Read& r : reads) {
      sends_.push_back(r.send);
      sends_begin_.push_back(static_cast<std::uint32_t>(sends_.size()));
    }
    return;
  }
  std::vector<std::vector<Send>> on(fresh);
  for (const Read& r : reads) {
    std::vector<Send>& sends = on[index(edge_to[index(r.dst)]) - index(first_edge)];
    if (std::ranges::find(sends, r.send.tensor, &Send::tensor) == sends.end())
      sends.push_back(r.send);
  }
  for (const auto& sends : on) {
    sends_.insert(sends_.end(), sends.begin(), sends.end());
    sends_begin_.push_back(static_cast<std::uint32_t>(sends_.size()));
  }
}

void Graph::number_slots() {
  constexpr OpId several{~std::uint32_t{0} - 1};
  IdVector<TensorId, OpId> sender(num_tensors(), no_op);
  for (const EdgeId e : edges()) {
    for (const Send& s : sends(e)) {
      OpId& known = sender[s.tensor];
      known = known == no_op || known == edges_[e].src ? edges_[e].src : several;
    }
  }
  IdVector<TensorId, std::uint32_t> slot(num_tensors());
  for (const OpId v : ops()) {
    std::uint32_t next = 0;
    for (const EdgeId e : out_edges(v)) {
      for (std::uint32_t i = sends_begin_[index(e)]; i < sends_begin_[index(e) + 1]; ++i) {
        const TensorId t = sends_[i].tensor;
        if (sender[t] == v) {  // first occurrence
          slot[t] = next++;
          sender[t] = no_op;
        }
      }
    }
    num_slots_ = std::max<std::size_t>(num_slots_, next);
  }
  for (const TensorId t : sender.ids()) {
    if (sender[t] == several) slot[t] = static_cast<std::uint32_t>(num_slots_++);
  }
  for (Send& s : sends_) s.slot = slot[s.tensor];
}

void Graph::index_readers() {
  in_begin_.assign(num_ops() + 1, 0);
  for (const Edge& e : edges_) ++in_begin_[index(e.dst) + 1];
  for (std::size_t v = 0; v < num_ops(); ++v) in_begin_[v + 1] += in_begin_[v];
  std::vector<std::uint32_t> next(in_begin_.begin(), in_begin_.end() - 1);
  in_.resize(num_edges());
  in_src_.resize(num_edges());
  for (const EdgeId e : edges()) {
    const std::uint32_t at = next[index(edges_[e].dst)]++;
    in_[at] = e;
    in_src_[at] = edges_[e].src;
  }
}

void Graph::number_topologically() {
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

void Graph::complete_groups() {
  for (const Op& op : ops_) num_groups_ = std::max(num_groups_, index(op.group));
  for (Op& op : ops_) {
    if (op.group == no_group) op.group = GroupId{static_cast<std::uint32_t>(++num_groups_)};
  }
}

Graph Graph::from(const OpGraph& graph, const CostModel& costs, const Cluster& cluster) {
  require_uniform(cluster);
  const DeviceId here{0};
  const DeviceId there{1};
  Graph view;
  view.ops_.reserve(graph.num_ops());
  view.reserve(graph.num_edges());
  std::vector<Send> outputs;  // of one op
  std::vector<EdgeId> out;
  std::vector<Read> reads;
  std::vector<EdgeId> edge_to(graph.num_ops(), no_edge);
  for (const OpId v : graph.ops()) {
    const Duration compute = costs.compute(v, here);
    const auto& op = graph.op(v);
    Bytes bytes = op.persistent;
    outputs.clear();
    for (const TensorId t : graph.outputs(v)) {
      const Tensor& tensor = graph.tensor(t);
      bytes += tensor.copied();  // profiles include the buffers of references
      outputs.push_back(
          {.tensor = t,
           .slot = static_cast<std::uint32_t>(outputs.size()),
           .size = tensor.size,
           .time = cluster.num_devices() > 1 ? costs.transfer(t, here, there) : Duration::zero()});
    }
    view.num_slots_ = std::max(view.num_slots_, outputs.size());
    view.ops_.push_back(
        {.compute = compute > Duration::zero() ? compute : std::chrono::microseconds(1),
         .temporary = op.temporary,
         .persistent = op.persistent,
         .outputs = bytes,
         .group = op.group});
    out.clear();
    for (const EdgeId e : graph.out_edges(v)) out.push_back(e);
    std::ranges::sort(out, {}, [&](EdgeId e) { return graph.added(e); });
    reads.clear();
    for (const EdgeId e : out) {
      const auto& edge = graph.edge(e);
      reads.push_back({v, edge.dst, outputs[index(edge.tensor) - index(outputs.front().tensor)]});
    }
    view.add_edges_of(reads, edge_to);
  }
  view.finish(false);
  return view;
}

}  // namespace baechi::original
