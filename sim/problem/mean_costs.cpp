#include "sim/problem/mean_costs.h"

#include <algorithm>

namespace baechi {
namespace {

/// Pairs of devices joined by one sort of link.
struct Pairs {
  DeviceId src{}, dst{};  // one of them
  std::int64_t count = 0;
};

std::vector<Pairs> pairs_by_link(const Cluster& cluster) {
  std::vector<Pairs> sorts;
  for (const DeviceId src : cluster.devices()) {
    for (const DeviceId dst : cluster.devices()) {
      if (src == dst) continue;
      const auto it = std::ranges::find_if(sorts, [&](const Pairs& p) {
        return cluster.link(p.src, p.dst) == cluster.link(src, dst);
      });
      if (it == sorts.end())
        sorts.push_back({src, dst, 1});
      else
        ++it->count;
    }
  }
  return sorts;
}

}  // namespace

IdVector<OpId, Duration> mean_compute(const Problem& p) {
  IdVector<OpId, Duration> mean(p.graph.num_ops());
  for (const OpId v : p.graph.ops()) {
    Duration sum{};
    std::int64_t able = 0;
    for (const DeviceId d : p.cluster.devices()) {
      const Duration time = p.costs.compute(v, d);
      if (time == cannot_run) continue;
      sum += time;
      ++able;
    }
    mean[v] = sum / std::max<std::int64_t>(able, 1);
  }
  return mean;
}

IdVector<TensorId, Duration> mean_transfer(const Problem& p) {
  IdVector<TensorId, Duration> mean(p.graph.num_tensors());
  const std::vector<Pairs> sorts = pairs_by_link(p.cluster);
  std::int64_t pairs = 0;
  for (const Pairs& sort : sorts) pairs += sort.count;
  if (pairs == 0) return mean;
  for (const TensorId t : p.graph.tensors()) {
    if (p.graph.readers(t).empty()) continue;
    Duration sum{};
    for (const Pairs& sort : sorts) sum += sort.count * p.costs.transfer(t, sort.src, sort.dst);
    mean[t] = sum / pairs;
  }
  return mean;
}

}  // namespace baechi
