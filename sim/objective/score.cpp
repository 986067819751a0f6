#include <algorithm>
#include <tuple>

#include "sim/objective/objective.h"

namespace baechi {

std::strong_ordering operator<=>(const Score& a, const Score& b) {
  return std::make_tuple(a.deadlock, a.misplaced + a.split_groups, a.over, a.value) <=>
         std::make_tuple(b.deadlock, b.misplaced + b.split_groups, b.over, b.value);
}

Score constraints(const Problem& p, const Placement& placement) {
  Score score;
  IdVector<DeviceId, Bytes> weights(p.cluster.num_devices());
  for (const OpId v : p.graph.ops()) {
    const DeviceId d = placement.device[v];
    weights[d] += p.graph.op(v).persistent;
    if (p.costs.compute(v, d) == cannot_run) ++score.misplaced;
  }
  for (const DeviceId d : p.cluster.devices()) {
    const Device& device = p.cluster.device(d);
    if (p.engine.enforce_memory && !device.is_core())
      score.over += std::max(Bytes{}, weights[d] - device.memory);
  }
  for (const GroupId g : p.graph.groups()) {
    const auto members = p.graph.members(g);
    const DeviceId device = placement.device[members.front()];
    if (std::ranges::any_of(members, [&](OpId v) { return placement.device[v] != device; }))
      ++score.split_groups;
  }
  return score;
}

}  // namespace baechi
