#include "sim/problem/problem.h"

#include <algorithm>
#include <vector>

#include "sim/graph/analysis.h"
#include "sim/problem/step.h"

namespace baechi {
namespace {

/// Wide enough for times multiplied by numbers of devices or pairs.
__extension__ typedef __int128 WideTime;

}  // namespace

std::vector<Pairs> pairs_by_link(const Cluster& cluster) {
  std::vector<Pairs> classes;
  std::size_t last = 0;  // the class of the previous pair, usually the same
  for (const DeviceId src : cluster.devices()) {
    for (const DeviceId dst : cluster.devices()) {
      if (src == dst) continue;
      const Link& link = cluster.link(src, dst);
      const auto same = [&](const Pairs& p) { return cluster.link(p.src, p.dst) == link; };
      if (last == classes.size() || !same(classes[last]))
        last = static_cast<std::size_t>(std::ranges::find_if(classes, same) - classes.begin());
      if (last == classes.size()) classes.push_back({src, dst});
      ++classes[last].count;
    }
  }
  return classes;
}

IdVector<OpId, Duration> mean_compute(const Problem& p) {
  IdVector<OpId, Duration> mean(p.graph.num_ops());
  for (const OpId v : p.graph.ops()) {
    WideTime sum = 0;
    std::int64_t able = 0;
    for (const DeviceId d : p.cluster.devices()) {
      const Duration time = p.costs.compute(v, d);
      if (time == cannot_run) continue;
      sum += time.count();
      ++able;
    }
    mean[v] = Duration{static_cast<std::int64_t>(sum / std::max<std::int64_t>(able, 1))};
  }
  return mean;
}

IdVector<TensorId, Duration> mean_transfer(const Problem& p) {
  IdVector<TensorId, Duration> mean(p.graph.num_tensors());
  const std::vector<Pairs> classes = pairs_by_link(p.cluster);
  std::int64_t pairs = 0;
  for (const Pairs& same : classes) pairs += same.count;
  if (pairs == 0) return mean;
  for (const TensorId t : p.graph.tensors()) {
    if (p.graph.readers(t).empty()) continue;
    WideTime sum = 0;
    for (const Pairs& same : classes)
      sum += WideTime{same.count} * p.costs.transfer(t, same.src, same.dst).count();
    mean[t] = Duration{static_cast<std::int64_t>(sum / pairs)};
  }
  return mean;
}

Bytes bytes_read(const OpGraph& graph, OpId v) {
  std::vector<TensorId> read;
  for (const EdgeId e : graph.in_edges(v)) read.push_back(graph.edge(e).tensor);
  std::ranges::sort(read);
  const auto repeated = std::ranges::unique(read);
  read.erase(repeated.begin(), repeated.end());
  Bytes sum;
  for (const TensorId t : read) sum += std::min(graph.tensor(t).held(), graph.tensor(t).copied());
  return sum;
}

std::vector<DeviceClass> device_classes(const Problem& problem) {
  const Cluster& cluster = problem.cluster;
  constexpr Bytes unbounded{std::int64_t{1} << 62};
  std::vector<DeviceClass> classes;
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    const Bytes memory =
        device.is_core() || !problem.engine.enforce_memory ? unbounded : device.memory;
    const auto it = std::ranges::find_if(classes, [&](const DeviceClass& cls) {
      const Device& other = cluster.device(cls.devices.front());
      return other.kind == device.kind && other.speed == device.speed && cls.memory == memory;
    });
    if (it != classes.end())
      it->devices.push_back(d);
    else
      classes.push_back({.devices = {d}, .core = device.is_core(), .memory = memory});
  }
  return classes;
}

PeakMemory peak_memory(const Problem& problem, const Placement& placement, DeviceId device,
                       const MemoryUse& at_peak) {
  PeakMemory peak{.activations = at_peak[MemoryKind::outputs],
                  .workspace = at_peak[MemoryKind::workspace],
                  .copies = at_peak[MemoryKind::copies],
                  .distinguished = !persistent_of_one_kind(problem.graph)};
  Bytes all, left = at_peak[MemoryKind::weights];
  for (const OpId v : problem.graph.ops()) {
    if (placement.device[v] != device) continue;
    const Op& op = problem.graph.op(v);
    all += op.persistent;
    const Bytes held = std::min(op.persistent, left);
    left -= held;
    const Bytes cache = std::min(held, problem.graph.cache(v));
    peak.cache += cache;
    (op.phase == Phase::forward    ? peak.weights
     : op.phase == Phase::backward ? peak.gradients
                                   : peak.optimizer_state) += held - cache;
  }
  if (problem.engine.semantics == Semantics::baechi && at_peak[MemoryKind::weights] < all)
    peak.distinguished = false;
  if (!peak.distinguished) {
    peak.weights = at_peak[MemoryKind::weights] - peak.cache;
    peak.gradients = peak.optimizer_state = {};
  }
  return peak;
}

}  // namespace baechi
