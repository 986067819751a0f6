/// Colocation units, and the memory that a device needs at least for its units.
#pragma once

#include "sim/problem/problem.h"

namespace baechi {

enum class UnitId : std::uint32_t {};

/// Joint needs of the members of a unit.
struct UnitNeeds {
  Bytes persistent{};  ///< persistent bytes, summed over the members
  Bytes working{};     ///< largest temporary + output bytes of a member: one op runs at a time
  Bytes footprint{};   ///< persistent + temporary + output bytes, summed over the members
};

/// The units of one graph. Unit ids ascend with the units' first members, so a loop by id visits
/// the units in topological order of their first members.
class ColocationUnits {
 public:
  explicit ColocationUnits(const OpGraph& graph);

  std::size_t size() const { return needs_.size(); }
  auto units() const { return needs_.ids(); }
  UnitId of(OpId v) const { return unit_[v]; }
  const UnitNeeds& needs(UnitId u) const { return needs_[u]; }
  std::span<const OpId> members(UnitId u) const {  ///< ascending, never empty
    return {members_.data() + begin_[index(u)], members_.data() + begin_[index(u) + 1]};
  }
  /// "op 'a'" or "group 'g' of 3 ops", for messages.
  std::string label(UnitId u, const OpGraph& graph) const;

 private:
  IdVector<OpId, UnitId> unit_;
  IdVector<UnitId, UnitNeeds> needs_;
  std::vector<OpId> members_;         // sorted by (unit, id)
  std::vector<std::uint32_t> begin_;  // [num_units + 1], positions in members_
};

/// Throws InputError if `placement` splits a group: one line per split group, at most five lines.
/// `where` names the source of the placement in the messages.
void require_whole_groups(const Placement& placement, const OpGraph& graph,
                          const std::string& where);

/// [num_devices] The memory of each device in bytes; unlimited if `problem` enforces no limits.
IdVector<DeviceId, Bytes> memory_limits(const Problem& problem);

/// The memory floor of each device: the persistent bytes of the units placed there plus the working
/// bytes of the largest op there. If the floor exceeds the device's memory, the step certainly runs
/// out of memory. If not, the step may still run out, because outputs of several ops are live at
/// once.
class MemoryFloor {
 public:
  explicit MemoryFloor(const Problem& problem);

  bool fits(const UnitNeeds& unit, DeviceId d) const { return short_of(unit, d) <= Bytes{}; }
  void add(const UnitNeeds& unit, DeviceId d);
  void clear() { used_.assign(used_.size(), {}); }
  Bytes limit(DeviceId d) const { return limit_[d]; }
  /// The memory above the floor; negative if the floor exceeds the limit.
  Bytes left(DeviceId d) const { return Bytes{} - short_of({}, d); }
  /// The text of the InfeasibleError when `unit`, called `label`, fits on no device: whether it
  /// would fit on an empty device, its needs, and the memory that each device lacks (only the three
  /// devices that lack least).
  std::string why_not(std::string_view label, const UnitNeeds& unit) const;

 private:
  Bytes short_of(const UnitNeeds& unit, DeviceId d) const;  ///< missing bytes; <= 0: fits

  const Cluster& cluster_;
  IdVector<DeviceId, Bytes> limit_;
  IdVector<DeviceId, UnitNeeds> used_;
};

/// The three smallest entries of `missing` as text, such as "missing: 200.00 MiB on gpu0, 1.00 GiB
/// on gpu1".
std::string shortfall(const Cluster& cluster, const IdVector<DeviceId, Bytes>& missing);

}  // namespace baechi
