/// Repairs colocation groups after placing: "post-adjust", where the placers themselves
/// "co-adjust".
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "placers/placer.h"
#include "sim/names.h"
#include "sim/options.h"
#include "sim/original/graph.h"

namespace baechi {

/// Where a group goes, of the devices its members are on.
enum class AdjustPolicy : std::uint8_t {
  none,        ///< groups stay apart
  random,      ///< where its first member is: chosen at random, so says the original
  memory,      ///< where the member with most workspace + persistent bytes is
  time,        ///< where the member that takes longest is
  frequent,    ///< where most members are
  memory_sum,  ///< where the members have most workspace + persistent bytes together
  time_sum,    ///< where the members take longest together
};
constexpr auto names_of(AdjustPolicy) {
  return std::to_array<Named<AdjustPolicy>>({{AdjustPolicy::none, "none"},
                                             {AdjustPolicy::random, "random"},
                                             {AdjustPolicy::memory, "memory"},
                                             {AdjustPolicy::time, "time"},
                                             {AdjustPolicy::frequent, "frequent"},
                                             {AdjustPolicy::memory_sum, "memory_sum"},
                                             {AdjustPolicy::time_sum, "time_sum"}});
}

/// A member of a group, as the policies see it.
struct AdjustMember {
  DeviceId device{};
  Bytes memory{};
  Duration compute{};
};
/// The devices of `members`, best first, each once. Ties: `frequent` takes the lower device, the
/// others the one that is met first.
std::vector<DeviceId> preferred_devices(AdjustPolicy policy, std::span<const AdjustMember> members);

/// `placement` with every group of the problem's graph on one device: group by group, by first
/// member, the first of preferred_devices() with room; else, by free memory, most first, any other.
/// What a device holds is known from the beginning: the persistent bytes of all ops on it and the
/// workspace and outputs of its largest (MemoryFloor). Op times and memory are those of the
/// problem. Throws InfeasibleError if a group fits nowhere. Source: Baechi's code (the original's
/// adjusters). Differs: see Q12 in placers/README.md; a group that fits on none of its members'
/// devices may go elsewhere.
Placement adjust(const Problem& problem, Placement placement, AdjustPolicy policy);

/// The same as the original does it.
struct CompatAdjusted {
  IdVector<OpId, DeviceId> device;
  /// Q12: by how much the moves changed each device's workspace + persistent bytes; the original
  /// takes it for what the device holds. [num_devices]
  IdVector<DeviceId, Bytes> size;
  std::optional<GroupId> failed;  ///< the group that fits nowhere: the original stops there
};
/// `limit`: memory of each device; nothing for none.
CompatAdjusted adjust_compat(const original::Graph& graph, IdVector<OpId, DeviceId> placement,
                             std::size_t num_devices, AdjustPolicy policy,
                             std::optional<Bytes> limit);

/// Reads the option `adjust`, which every placer has: `placer` itself, or one that lets it place
/// the graph without groups and then adjusts, as the original does if the placer is `compat`.
std::unique_ptr<Placer> with_adjuster(std::unique_ptr<Placer> placer, Options& options);

}  // namespace baechi
