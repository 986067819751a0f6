#include "sim/objective/objective.h"

#include <tuple>

#include "sim/options.h"

namespace baechi {

MakeObjective make_step_time, make_max_load, make_latency;

std::span<const ObjectiveEntry> objectives() {
  static constexpr ObjectiveEntry table[] = {
      {"step_time", "time of one simulated step, under the engine options",
       "sim/engine/simulation.h", make_step_time},
      {"max_load", "time per sample of a pipeline: the largest device load",
       "Tarnawski et al., NeurIPS 2020, throughput", make_max_load},
      {"latency", "time of one sample; each device runs its part as a whole",
       "Tarnawski et al., NeurIPS 2020, latency", make_latency},
  };
  return table;
}

std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where) {
  return make_entry(objectives(), "objective", name, std::move(options), where);
}

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

bool keeps_constraints(const Problem& p, const Placement& placement,
                       std::span<const OpMove> moved) {
  const auto apart = [&](OpId a, OpId b) { return placement.device[a] != placement.device[b]; };
  for (const auto& [v, to] : moved) {
    if (p.costs.compute(v, to) == cannot_run) return false;
    const GroupId g = p.graph.op(v).group;
    if (g == no_group) continue;
    const auto members = p.graph.members(g);
    const OpId first = members.front();
    if (apart(v, first)) return false;
    // Moved members are compared with the first above; here the first moved.
    if (v == first && std::ranges::any_of(members, [&](OpId m) { return apart(m, first); }))
      return false;
  }
  return true;
}

}  // namespace baechi
