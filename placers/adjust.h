/// Brings the members of each colocation group together after placing: the paper's "post-adjust".
/// Keeping groups together while placing is the paper's "co-adjust".
#pragma once

#include "placers/interface/placer.h"
#include "sim/original/graph.h"

namespace baechi {

/// To which of its members' devices a group goes.
enum class AdjustPolicy : std::uint8_t {
  none,        ///< groups stay apart
  random,      ///< where its first member is; "random" is the original's word
  memory,      ///< where the member with most workspace + persistent bytes is
  time,        ///< where the member that takes longest is
  frequent,    ///< where most members are
  memory_sum,  ///< where the members have most workspace + persistent bytes together
  time_sum,    ///< where the members take longest together
};
constexpr auto names_of(AdjustPolicy) { return enumerators<AdjustPolicy::time_sum>(); }

/// A member of a group, as the policies see it.
struct AdjustMember {
  DeviceId device{};   ///< where the op was placed
  Bytes memory{};      ///< workspace + persistent bytes of the op
  Duration compute{};  ///< time of the op on `device`
};
/// The devices of `members`, each once, the best first. Ties: `frequent` takes the lower device id;
/// all other policies take the device whose member comes first in `members`.
std::vector<DeviceId> preferred_devices(AdjustPolicy policy, std::span<const AdjustMember> members);

/// Returns `placement` with every group of the problem's graph on one device. Groups move one by
/// one, in the order of their first members. A group goes to the first device where it fits in this
/// order: preferred_devices(), then all other devices, the one with most free memory first.
/// A device holds, from the beginning, the persistent bytes of all ops placed there and the
/// workspace and outputs of its largest op (as MemoryFloor). Op times and memory come from
/// `problem`. Throws InfeasibleError if a group fits on no device.
/// Source: Baechi's code (the original's adjusters). Differs: see Q12 in placers/README.md; and a
/// group that fits on none of its members' devices may go elsewhere.
Placement adjust(const Problem& problem, Placement placement, AdjustPolicy policy);

struct CompatAdjusted {
  IdVector<OpId, DeviceId> device;
  /// [num_devices] Bytes by which the moves changed each device's workspace + persistent memory.
  /// The original takes this change for all that the device holds (Q12).
  IdVector<DeviceId, Bytes> size;
  std::optional<GroupId>
      failed;  ///< the group that fits on no device; the original stops at this group
};
/// Adjusts as the original does, quirks included. `limit` is the memory of each device; nothing
/// means no limit.
CompatAdjusted adjust_compat(const original::Graph& graph, IdVector<OpId, DeviceId> placement,
                             std::size_t num_devices, AdjustPolicy policy,
                             std::optional<Bytes> limit);

/// Reads the option `adjust`, which every placer has. Returns `placer` itself if it is to keep
/// groups together; otherwise a placer that lets `placer` place the graph without groups and then
/// adjusts: with adjust_compat() if `placer` is `compat`, else with adjust().
std::unique_ptr<Placer> with_adjuster(std::unique_ptr<Placer> placer, Options& options);

}  // namespace baechi
