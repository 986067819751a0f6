#include <algorithm>
#include <tuple>

#include "sim/objective/objective.h"

namespace baechi {

std::unique_ptr<Objective> make_step_time(Options&);
std::unique_ptr<Objective> make_max_load(Options&);
std::unique_ptr<Objective> make_latency(Options&);

std::span<const ObjectiveEntry> objectives() {
  static constexpr ObjectiveEntry table[] = {
      {"step_time", "one simulated step, as the engine options say", "sim/engine/simulation.h",
       make_step_time},
      {"max_load", "time per sample of a pipeline: the largest device load",
       "Tarnawski et al., NeurIPS 2020, throughput", make_max_load},
      {"latency", "of one sample, each device's part invoked as a whole",
       "Tarnawski et al., NeurIPS 2020, latency", make_latency},
  };
  return table;
}

std::unique_ptr<Objective> make_objective(std::string_view name, Options options,
                                          const std::string& where) {
  const auto it = std::ranges::find(objectives(), name, &ObjectiveEntry::name);
  if (it == objectives().end()) {
    std::vector<std::string> known;
    for (const ObjectiveEntry& entry : objectives()) known.emplace_back(entry.name);
    throw InputError(fmt::format("{}no objective '{}'{} (objectives: {})", at(where), name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
  }
  auto objective = it->make(options);
  options.finish();
  return objective;
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

}  // namespace baechi
