#include "sim/problem/mean_costs.h"

#include <algorithm>

namespace baechi {
namespace {

/// Wide enough for times multiplied by numbers of devices or pairs.
__extension__ typedef __int128 WideTime;

/// Ordered pairs of devices with equal links.
struct Pairs {
  DeviceId src{}, dst{};  // one of them
  std::int64_t count = 0;
};

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

}  // namespace

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

}  // namespace baechi
