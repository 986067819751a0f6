#include "sim/cluster/cost_model.h"

#include <algorithm>
#include <cmath>

#include "sim/cluster/collectives.h"
#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/graph/not_given.h"
#include "sim/saturated.h"

namespace baechi {

ProfiledCosts::ProfiledCosts(const OpGraph& graph, const Cluster& cluster)
    : graph_(graph),
      cluster_(cluster),
      has_host_(std::ranges::any_of(graph.lanes(), is_host_lane)),
      kind_(cluster.num_devices()) {
  const auto& kinds = graph.device_kinds();
  Mistakes mistakes;
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    if (device.kind.empty() || kinds.empty()) continue;
    const auto it = std::ranges::find(kinds, device.kind);
    if (it == kinds.end()) {
      mistakes.add(fmt::format("device '{}' is of kind '{}'{}, but the trace has times for: {}",
                               device.name, device.kind, did_you_mean(device.kind, kinds),
                               fmt::join(kinds, ", ")));
      continue;
    }
    kind_[d] = static_cast<std::size_t>(it - kinds.begin());
  }
  mistakes.throw_if_any();
  if (kinds.empty()) return;
  std::vector<bool> used(kinds.size(), false);
  for (const std::size_t k : kind_) used[k] = true;
  std::vector<std::string_view> used_kinds;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (used[k]) used_kinds.push_back(kinds[k]);
  for (const OpId v : graph.ops()) {
    bool runs = false;
    for (std::size_t k = 0; k < kinds.size(); ++k) runs = runs || (used[k] && graph.compute(v, k));
    if (!runs)
      throw InputError(fmt::format("op '{}' has no time for any device of the cluster: {}",
                                   graph.name(v), fmt::join(used_kinds, ", ")));
  }
}

Duration ProfiledCosts::compute(OpId op, DeviceId device) const {
  const std::size_t kind = kind_[device];
  Duration base = graph_.op(op).compute;  // on the first device type; < 0: none
  if (kind > 0) base = graph_.compute(op, kind).value_or(not_given);
  if (base < Duration::zero()) return cannot_run;
  const double speed = cluster_.device(device).speed;
  if (speed == 1.0 || (has_host_ && on_host(graph_, op))) return base;
  return Duration{saturated(std::ceil(static_cast<double>(base.count()) / speed))};
}

Duration ProfiledCosts::transfer(TensorId tensor, DeviceId src, DeviceId dst) const {
  if (const auto measured = graph_.measured_transfer(tensor)) return *measured;
  const Link& link = cluster_.link(src, dst);
  return saturated_sum(graph_.tensor(tensor).size / link.bandwidth, link.latency);
}

Duration ProfiledCosts::latency(TensorId tensor, DeviceId src, DeviceId dst) const {
  return graph_.measured_transfer(tensor) ? Duration::zero() : cluster_.link(src, dst).latency;
}

Duration ProfiledCosts::collective(const Collective& c, std::span<const DeviceId> devices) const {
  return cluster_.collectives().time(c, devices, cluster_);
}

bool ProfiledCosts::same_compute(DeviceId a, DeviceId b) const {
  return kind_[a] == kind_[b] && cluster_.device(a).speed == cluster_.device(b).speed;
}

bool ProfiledCosts::uniform_transfers() const {
  std::optional<Link> first;
  for (const DeviceId a : cluster_.devices()) {
    for (const DeviceId b : cluster_.devices()) {
      if (a == b) continue;
      if (!first) first = cluster_.link(a, b);
      if (cluster_.link(a, b) != *first) return false;
    }
  }
  return true;
}

}  // namespace baechi
