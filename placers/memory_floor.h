/// The least memory a partial placement needs, for placers that do not plan memory over time.
#pragma once
#include <string>

#include "placers/colocation.h"

namespace baechi {

/// Memory of each device; without bound if the problem does not enforce it. [num_devices]
IdVector<DeviceId, Bytes> memory_limits(const Problem& problem);

/// Per device: the persistent bytes of the units placed there and the working bytes of its largest
/// op. A placement above a device's memory is sure to run out of it; one below may still, for more
/// than one op's outputs live at a time.
class MemoryFloor {
 public:
  explicit MemoryFloor(const Problem& problem);

  bool fits(const UnitNeeds& unit, DeviceId d) const { return short_of(unit, d) <= Bytes{}; }
  void add(const UnitNeeds& unit, DeviceId d);
  /// For the InfeasibleError when `unit` fits nowhere: what it needs, and by how much each device
  /// falls short (the three nearest, if there are more).
  std::string why_not(const UnitNeeds& unit) const;

 private:
  Bytes short_of(const UnitNeeds& unit, DeviceId d) const;  ///< negative or 0 if it fits

  const Cluster& cluster_;
  IdVector<DeviceId, Bytes> limit_;
  IdVector<DeviceId, UnitNeeds> used_;
};

/// "missing: 200.00 MiB on gpu0, 1.00 GiB on gpu1": the least three of `missing`.
std::string shortfall(const Cluster& cluster, const IdVector<DeviceId, Bytes>& missing);

}  // namespace baechi
