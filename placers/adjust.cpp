#include "placers/adjust.h"

#include "placers/interface/colocation.h"
#include "placers/interface/wrapped_placer.h"
#include "placers/original/original.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

/// The bytes that an op brings to a device, as Baechi's adjusters count: workspace + persistent.
Bytes needs(const Op& op) { return op.temporary + op.persistent; }

/// The distinct devices of `members`, in the order of their first members.
std::vector<DeviceId> distinct_devices(std::span<const AdjustMember> members) {
  std::vector<DeviceId> devices;
  for (const AdjustMember& m : members)
    if (std::ranges::find(devices, m.device) == devices.end()) devices.push_back(m.device);
  return devices;
}

/// What `member` adds to the total of its device; the policy takes the device with the largest
/// total.
std::int64_t contribution(AdjustPolicy policy, const AdjustMember& member) {
  if (policy == AdjustPolicy::frequent) return 1;
  return policy == AdjustPolicy::memory_sum ? member.memory.count : member.compute.count();
}

/// What the devices hold; independent of the order in which ops run.
class Holdings {
 public:
  Holdings(const Problem& problem, const IdVector<OpId, DeviceId>& placement)
      : graph_(problem.graph),
        limit_(memory_limits(problem)),
        persistent_(limit_.size()),
        working_(limit_.size()) {
    for (const OpId v : graph_.ops()) {
      persistent_[placement[v]] += graph_.op(v).persistent;
      working_[placement[v]].insert(working(v));
    }
  }

  Bytes free(DeviceId d) const { return limit_[d] - persistent_[d] - largest(d); }

  /// Whether the whole group fits on `d`; some members may already be on `d`.
  bool fits(std::span<const OpId> group, const IdVector<OpId, DeviceId>& placement,
            DeviceId d) const {
    Bytes persistent = persistent_[d];
    Bytes most = largest(d);
    for (const OpId v : group) {
      if (placement[v] == d) continue;
      persistent += graph_.op(v).persistent;
      most = std::max(most, working(v));
    }
    return persistent + most <= limit_[d];
  }

  void move(OpId v, DeviceId from, DeviceId to) {
    persistent_[from] -= graph_.op(v).persistent;
    working_[from].erase(working_[from].find(working(v)));
    persistent_[to] += graph_.op(v).persistent;
    working_[to].insert(working(v));
  }

 private:
  Bytes working(OpId v) const { return graph_.op(v).temporary + output_bytes(graph_, v); }
  Bytes largest(DeviceId d) const { return working_[d].empty() ? Bytes{} : *working_[d].rbegin(); }

  const OpGraph& graph_;
  IdVector<DeviceId, Bytes> limit_;
  IdVector<DeviceId, Bytes> persistent_;
  IdVector<DeviceId, std::multiset<Bytes>> working_;  // working bytes of each op on the device
};

/// All devices, in the order in which they are tried for a group.
std::vector<DeviceId> candidates(AdjustPolicy policy, std::span<const AdjustMember> members,
                                 const Holdings& holdings, const Cluster& cluster) {
  std::vector<DeviceId> devices = preferred_devices(policy, members);
  std::vector<DeviceId> others;
  for (const DeviceId d : cluster.devices())
    if (std::ranges::find(devices, d) == devices.end()) others.push_back(d);
  std::ranges::stable_sort(others, std::greater<>(), [&](DeviceId d) { return holdings.free(d); });
  devices.insert(devices.end(), others.begin(), others.end());
  return devices;
}

/// A placer that lets another placer place the graph without groups and then adjusts.
class Adjusted final : public WrappedPlacer {
 public:
  Adjusted(std::unique_ptr<Placer> placer, AdjustPolicy policy, bool compat)
      : WrappedPlacer(std::move(placer)), policy_(policy), compat_(compat) {}

  Placement place_watched(const Problem& p, std::uint64_t seed,
                          const Watcher& watcher) const override {
    const OpGraph apart = p.graph.without_groups();
    Placement placement =
        placer_->place_watched({apart, p.cluster, p.costs, p.engine}, seed, watcher);
    if (!compat_) return adjust(p, std::move(placement), policy_);
    const original::Graph graph = original::Graph::from(p.graph, p.costs, p.cluster);
    CompatAdjusted adjusted =
        adjust_compat(graph, std::move(placement.device), p.cluster.num_devices(), policy_,
                      p.cluster.device(DeviceId{0}).memory);
    if (adjusted.failed)
      throw InfeasibleError(fmt::format("adjust, as the original: no device has room for group {}",
                                        index(*adjusted.failed)));
    placement.device = std::move(adjusted.device);
    return placement;
  }

 private:
  AdjustPolicy policy_;
  bool compat_;
};

}  // namespace

std::vector<DeviceId> preferred_devices(AdjustPolicy policy,
                                        std::span<const AdjustMember> members) {
  std::vector<AdjustMember> sorted(members.begin(), members.end());
  switch (policy) {
    case AdjustPolicy::none:
    case AdjustPolicy::random:
      return distinct_devices(members);
    case AdjustPolicy::memory:
      std::ranges::stable_sort(sorted, std::greater<>(), &AdjustMember::memory);
      return distinct_devices(sorted);
    case AdjustPolicy::time:
      std::ranges::stable_sort(sorted, std::greater<>(), &AdjustMember::compute);
      return distinct_devices(sorted);
    case AdjustPolicy::frequent:
    case AdjustPolicy::memory_sum:
    case AdjustPolicy::time_sum:
      break;
  }
  std::vector<DeviceId> devices = distinct_devices(members);
  if (policy == AdjustPolicy::frequent) std::ranges::sort(devices);
  std::ranges::stable_sort(devices, std::greater<>(), [&](DeviceId d) {
    std::int64_t sum = 0;
    for (const AdjustMember& m : members) sum += m.device == d ? contribution(policy, m) : 0;
    return sum;
  });
  return devices;
}

Placement adjust(const Problem& problem, Placement placement, AdjustPolicy policy) {
  if (policy == AdjustPolicy::none) return placement;
  const OpGraph& graph = problem.graph;
  IdVector<OpId, DeviceId>& device = placement.device;
  Holdings holdings(problem, device);
  std::size_t moved = 0;
  for (const GroupId g : graph.groups()) {
    const auto group = graph.members(g);
    const auto there = [&](OpId v) { return device[v] == device[group.front()]; };
    if (std::ranges::all_of(group, there)) continue;
    std::vector<AdjustMember> members;
    for (const OpId v : group)
      members.push_back({device[v], needs(graph.op(v)), problem.costs.compute(v, device[v])});
    const auto devices = candidates(policy, members, holdings, problem.cluster);
    const auto chosen =
        std::ranges::find_if(devices, [&](DeviceId d) { return holdings.fits(group, device, d); });
    if (chosen == devices.end())
      throw InfeasibleError(
          fmt::format("adjust: no device has room left for group '{}' of {} ops, whose members "
                      "were placed apart",
                      graph.group_name(g), group.size()));
    for (const OpId v : group) {
      if (device[v] == *chosen) continue;
      holdings.move(v, device[v], *chosen);
      device[v] = *chosen;
      ++moved;
    }
  }
  placement.facts["adjusted_ops"] = static_cast<double>(moved);
  return placement;
}

CompatAdjusted adjust_compat(const original::Graph& graph, IdVector<OpId, DeviceId> placement,
                             std::size_t num_devices, AdjustPolicy policy,
                             std::optional<Bytes> limit) {
  CompatAdjusted result{
      .device = std::move(placement), .size = IdVector<DeviceId, Bytes>(num_devices), .failed = {}};
  if (policy == AdjustPolicy::none) return result;
  const auto memory = [&](OpId v) { return graph.op(v).temporary + graph.op(v).persistent; };
  const auto groups = original::groups_of(graph);
  for (const GroupId g : groups.ids()) {
    std::vector<AdjustMember> members;
    for (const OpId v : groups[g].members)
      members.push_back({result.device[v], memory(v), graph.op(v).compute});
    const auto more = [&](DeviceId d) {
      Bytes sum;
      for (const AdjustMember& m : members) sum += m.device == d ? Bytes{} : m.memory;
      return sum;
    };
    const auto devices = preferred_devices(policy, members);
    const auto chosen = std::ranges::find_if(
        devices, [&](DeviceId d) { return !limit || result.size[d] + more(d) <= *limit; });
    if (members.empty()) continue;
    if (chosen == devices.end()) {
      result.failed = g;
      return result;
    }
    for (const AdjustMember& m : members) {
      if (!limit) break;
      result.size[m.device] -= m.memory;  // Q12: sizes begin at 0, as if the devices were empty
      result.size[*chosen] += m.memory;
    }
    for (const OpId v : groups[g].members) result.device[v] = *chosen;
  }
  return result;
}

std::unique_ptr<Placer> with_adjuster(std::unique_ptr<Placer> placer, Options& options) {
  const auto policy = read_enum_unless<AdjustPolicy>(
      options, "adjust", "while_placing",
      "when groups are brought together: while placing, or afterwards by this policy (none: not at "
      "all)");
  if (!policy) return placer;
  const bool knows_compat = std::ranges::find(options.declared(), "compat",
                                              &Options::Declared::key) != options.declared().end();
  const bool compat = knows_compat && options.get("compat", false, "");
  if (compat && options.get("colocation", true, ""))
    options.mistake("adjust", "with compat it needs colocation: false, as in the original");
  return std::make_unique<Adjusted>(std::move(placer), *policy, compat);
}

}  // namespace baechi
