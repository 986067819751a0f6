/// The least memory that a partial placement needs; for placers that do not plan memory over time.
#pragma once
#include <string>
#include <string_view>

#include "placers/interface/colocation.h"

namespace baechi {

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
