#include <tuple>

#include "sim/engine/channels.h"
#include "sim/explain/explanation.h"

namespace baechi {
namespace {

/// The memory of one device at the failure, after everything that ended at that time.
class Memory {
 public:
  /// `going_on`: the last of the zero-time ops that started on the device at the failure, which
  /// have not ended.
  Memory(const Problem& problem, const Placement& placement, const Timeline& timeline,
         const OutOfMemory& oom, std::span<const OpId> going_on)
      : problem_(problem), placement_(placement), oom_(oom), end_(problem.graph.num_ops()) {
    for (const OpId v : problem.graph.ops()) end_[v] = TimePoint::max();
    for (const auto& [op, device, start, end] : timeline.ops()) end_[op] = end;
    for (const OpId v : going_on) end_[v] = TimePoint::max();
    for (const Timeline::TransferSlice& t : timeline.transfers())
      sent_[{t.tensor, t.dst}].push_back(t);
    for (const auto& [op, device, start, end] : timeline.ops()) {
      if (device == oom.device) add_outputs(op);
      if (device == oom.device && end_[op] > oom.at)
        add({.kind = MemoryKind::workspace, .op = op, .size = problem.graph.op(op).temporary});
    }
    for (const auto& [key, transfers] : sent_)
      if (key.second == oom.device) add_copies(key.first, transfers.size());
    add_weights();
  }

  Bytes of_ops() const {
    Bytes sum;
    for (const LiveTensor& t : live_)
      if (is_of_ops(t.kind)) sum += t.size;
    return sum;
  }
  Bytes of_ops_at_failure() const {
    Bytes sum;
    for (const MemoryKind kind : memory_kinds)
      if (is_of_ops(kind)) sum += oom_.live[kind];
    return sum;
  }

  std::vector<LiveTensor> live() {
    std::ranges::stable_sort(live_, [](const LiveTensor& x, const LiveTensor& y) {
      return std::tuple(-x.size.count, x.kind, x.op) < std::tuple(-y.size.count, y.kind, y.op);
    });
    return std::move(live_);
  }

 private:
  /// Copies in host memory are in the OOM report, but not in live().
  bool is_of_ops(MemoryKind kind) const {
    return kind != MemoryKind::weights &&
           (kind != MemoryKind::copies || problem_.engine.transfers != Transfers::staged);
  }

  void add(LiveTensor tensor) {
    if (tensor.size > Bytes{}) live_.push_back(std::move(tensor));
  }

  /// Weights are requested in the order of ids; after out of memory only the first are live.
  void add_weights() {
    Bytes left = oom_.live[MemoryKind::weights];
    for (const OpId v : problem_.graph.ops()) {
      const Bytes size = problem_.graph.op(v).persistent;
      if (placement_.device[v] != oom_.device || left == Bytes{}) continue;
      left -= size;
      add({.kind = MemoryKind::weights, .op = v, .size = size});
    }
  }

  std::vector<OpId> unfinished(TensorId t, DeviceId d) const {
    std::vector<OpId> ops;
    for (const EdgeId e : problem_.graph.readers(t)) {
      const OpId reader = problem_.graph.edge(e).dst;
      if (placement_.device[reader] == d && end_[reader] > oom_.at) ops.push_back(reader);
    }
    return ops;
  }

  /// Receivers to which `t` has not been sent completely, each once.
  std::vector<DeviceId> leaving(TensorId t) const {
    std::vector<DeviceId> devices;
    if (problem_.graph.instant(t)) return devices;
    for (const DeviceId d : problem_.cluster.devices()) {
      std::size_t readers = 0;
      for (const EdgeId e : problem_.graph.readers(t))
        readers += placement_.device[problem_.graph.edge(e).dst] == d ? 1U : 0U;
      if (d == oom_.device || readers == 0) continue;
      const std::size_t wanted = problem_.engine.cache_tensors ? 1 : readers;
      std::size_t left = 0;
      if (const auto it = sent_.find({t, d}); it != sent_.end())
        for (const Timeline::TransferSlice& s : it->second) left += has_left(s) ? 1U : 0U;
      if (left < wanted) devices.push_back(d);
    }
    return devices;
  }

  bool has_left(const Timeline::TransferSlice& t) const {
    if (problem_.engine.transfers != Transfers::staged) return t.end <= oom_.at;
    return t.start + stages(problem_.costs, t.tensor, t.src, t.dst).out <= oom_.at;
  }

  void add_outputs(OpId v) {
    for (const TensorId t : problem_.graph.outputs(v)) {
      LiveTensor tensor{
          .kind = MemoryKind::outputs, .op = v, .size = problem_.graph.tensor(t).held()};
      tensor.kept_by = unfinished(t, oom_.device);
      tensor.leaving = leaving(t);
      if (end_[v] > oom_.at || !tensor.kept_by.empty() || !tensor.leaving.empty())
        add(std::move(tensor));
    }
  }

  /// With the cache one copy, for all readers; else one for each, in the order of edges.
  void add_copies(TensorId t, std::size_t copies) {
    const LiveTensor copy{.kind = MemoryKind::copies,
                          .op = problem_.graph.tensor(t).producer,
                          .size = problem_.graph.tensor(t).copied()};
    const std::vector<OpId> readers = unfinished(t, oom_.device);
    if (problem_.engine.cache_tensors) {
      if (readers.empty()) return;
      add(copy);
      if (copy.size > Bytes{}) live_.back().kept_by = readers;
      return;
    }
    for (const EdgeId e : problem_.graph.readers(t)) {
      const OpId reader = problem_.graph.edge(e).dst;
      if (placement_.device[reader] != oom_.device || copies == 0) continue;
      --copies;
      if (end_[reader] <= oom_.at) continue;
      add(copy);
      if (copy.size > Bytes{}) live_.back().kept_by = {reader};
    }
  }

  const Problem& problem_;
  const Placement& placement_;
  const OutOfMemory& oom_;
  IdVector<OpId, TimePoint> end_;  // TimePoint::max() for ops that have not started
  std::map<std::pair<TensorId, DeviceId>, std::vector<Timeline::TransferSlice>> sent_;
  std::vector<LiveTensor> live_;
};

}  // namespace

std::vector<LiveTensor> live_tensors(const Problem& problem, const Placement& placement,
                                     const Timeline& timeline, const OutOfMemory& oom) {
  std::vector<OpId> without_time;
  for (const auto& [op, device, start, end] : timeline.ops())
    if (device == oom.device && start == oom.at && end == oom.at) without_time.push_back(op);
  const auto memory = [&](std::size_t going_on) {
    return Memory(problem, placement, timeline, oom, std::span(without_time).last(going_on));
  };
  // The timeline does not show which of them began in the last round of the instant and have not
  // ended. Memory grows with their number: find the least number that matches the OOM report.
  std::size_t least = 0, most = without_time.size();
  while (least < most) {
    const std::size_t middle = (least + most) / 2;
    if (const Memory tried = memory(middle); tried.of_ops() < tried.of_ops_at_failure())
      least = middle + 1;
    else
      most = middle;
  }
  return memory(least).live();
}

}  // namespace baechi
