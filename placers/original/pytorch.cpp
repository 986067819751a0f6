#include "placers/original/original.h"

namespace baechi::original {
namespace {

/// PT2: any number of transfers at once, each from the end of its producer on.
class PyTorchScheduler final : public Scheduler {
 public:
  PyTorchScheduler(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                   const PlacerOptions& options, std::span<const std::uint32_t> favourites,
                   Log* log)
      : Scheduler(graph, limits, options, favourites, log),
        memory_(graph, limits, result_.device),
        arrival_(graph.num_tensors() * limits.size()) {}

 private:
  bool fits(OpId v, DeviceId d) const override { return memory_.fits(v, d); }

  /// PT7: depends on no channel, so it never expires.
  ReadyOps::Estimate estimate(OpId v, DeviceId d) const override {
    ReadyOps::Estimate estimate{.ready = TimePoint{}, .channels = 0};
    for (const EdgeId e : graph_.in_edges(v)) {
      const OpId src = graph_.edge(e).src;
      TimePoint at = end_[src];
      if (result_.device[src] != d) {
        const Graph::Send& send = graph_.sends(e).front();
        at = arrival_[slot(send.tensor, d)].value_or(end_[src] + send.time);
      }
      estimate.ready = std::max(estimate.ready, at);
    }
    return estimate;
  }

  TimePoint commit(OpId v, DeviceId d, TimePoint estimated) override {
    result_.device[v] = d;
    memory_.charge(v, d);
    for (const EdgeId e : graph_.in_edges(v)) {
      const OpId src = graph_.edge(e).src;
      if (result_.device[src] == d) continue;
      if (!memory_.receive(e, d)) continue;
      const Graph::Send& send = graph_.sends(e).front();
      const TimePoint sent = end_[src];
      const TimePoint at = sent + send.time;
      arrival_[slot(send.tensor, d)] = at;
      if (log_ != nullptr)
        log_->on_transfer(
            {send, src, v, result_.device[src], d, /*cached=*/false, {sent, at, sent, at}});
    }
    return estimated;
  }

  const IdVector<DeviceId, Bytes>& used() const override { return memory_.used(); }
  const IdVector<DeviceId, Bytes>& peak() const override { return memory_.peak(); }

  std::size_t slot(TensorId t, DeviceId d) const { return index(t) * limits_.size() + index(d); }

  PyTorchMemory memory_;
  std::vector<std::optional<TimePoint>> arrival_;  // [num_tensors, num_devices]
};

/// Permanently charged memory, divided evenly, plus that of the largest op. PT6: omits temporary
/// memory, although it is tested, and received copies, although they are charged.
Bytes even_share(const Graph& graph, std::size_t devices) {
  Bytes total;
  Bytes largest;
  for (const OpId v : graph.ops()) {
    const Bytes own = PyTorchMemory::permanent(graph.op(v));
    total += own;
    largest = std::max(largest, own);
  }
  return Bytes{total.count / static_cast<std::int64_t>(devices)} + largest;
}

}  // namespace

Bytes PyTorchMemory::inputs(OpId v, DeviceId d) const {
  Bytes sum;
  for (const EdgeId e : graph_.in_edges(v)) {
    const DeviceId from = device_[graph_.edge(e).src];
    if (from == no_device)
      throw Stop{{.type = "KeyError",
                  .where = "recv_inputs",
                  .file = "device.py",
                  .message = "'p'",
                  .op = v}};
    const Graph::Send& send = graph_.sends(e).front();
    if (from != d && !held(send.tensor, d)) sum += send.size;
  }
  return sum;
}

bool PyTorchMemory::fits(OpId v, DeviceId d) const {
  const Bytes more = inputs(v, d);
  const Graph::Op& op = graph_.op(v);
  return used_[d] + more + peak_of(op) <= limits_[d] &&
         peak_[d] + more + op.persistent <= limits_[d];
}

void PyTorchMemory::charge(OpId v, DeviceId d) {
  const Bytes more = inputs(v, d);
  const Graph::Op& op = graph_.op(v);
  peak_[d] = std::max(peak_[d], used_[d] + peak_of(op));
  used_[d] += permanent(op) + more;
  peak_[d] = std::max(peak_[d], used_[d]);
}

bool PyTorchMemory::receive(EdgeId e, DeviceId d) {
  const Graph::Send& send = graph_.sends(e).front();
  if (held(send.tensor, d)) return false;
  if (send.size > limits_[d] - used_[d])
    throw Stop{{.type = "AssertionError",
                .where = "recv_tensor",
                .file = "device.py",
                .message = fmt::format("not enough memory to rcv tensor {} at device {}",
                                       index(send.tensor), index(d)),
                .op = graph_.edge(e).dst}};
  held_[index(send.tensor) * limits_.size() + index(d)] = true;
  return true;
}

/// Q10: next-fit, a device that was left is never filled further. PT6: in order of ids; inputs are
/// charged but never received, so each reader of a tensor is charged for it.
PlacerResult pytorch_topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                          const PlacerOptions& options) {
  PlacerResult result;
  result.device.assign(graph.num_ops(), no_device);
  if (options.uniform) result.cap = even_share(graph, limits.size());
  PyTorchMemory memory(graph, limits, result.device);
  const auto fits = [&](OpId v, DeviceId d) {
    if (!result.cap) return memory.fits(v, d);
    return memory.used()[d] + PyTorchMemory::peak_of(graph.op(v)) <= *result.cap;
  };
  try {
    const auto ops = graph.ops();
    auto next = ops.begin();
    for (const DeviceId d : limits.ids()) {
      for (; next != ops.end() && fits(*next, d); ++next) {
        result.device[*next] = d;
        memory.charge(*next, d);
        result.order.push_back(*next);
      }
    }
    if (const auto left = ops.end() - next; left > 0)
      throw Stop{{.type = "RuntimeError",
                  .where = "_place_ops",
                  .file = "m_topo.py",
                  .message = fmt::format("{} operators cannot be placed on devices.", left)}};
  } catch (Stop& stop) {
    result.failure = std::move(stop.failure);
  }
  result.used = memory.used();
  result.peak = memory.peak();
  return result;
}

std::unique_ptr<Scheduler> pytorch_scheduler(const Graph& graph,
                                             const IdVector<DeviceId, Bytes>& limits,
                                             const PlacerOptions& options,
                                             std::span<const std::uint32_t> favourites, Log* log) {
  return std::make_unique<PyTorchScheduler>(graph, limits, options, favourites, log);
}

Graph pytorch_graph(const Problem& problem) {
  const Graph view = Graph::from(problem.graph, problem.costs, problem.cluster);
  IdVector<OpId, Graph::Op> ops;
  for (const OpId v : view.ops()) {
    ops.push_back(view.op(v));
    ops[v].outputs -= ops[v].persistent;
  }
  std::vector<Graph::Read> reads;
  for (const EdgeId e : view.edges()) {
    Bytes size;
    for (const Graph::Send& s : view.sends(e)) size += s.size;
    reads.push_back({view.edge(e).src,
                     view.edge(e).dst,
                     {.tensor = TensorId{static_cast<std::uint32_t>(index(e))},
                      .size = size,
                      .time = view.time(e)}});
  }
  return Graph(std::move(ops), reads);
}

}  // namespace baechi::original
