/// What is in use on every device, by kind, against its limit.
#pragma once
#include "sim/cluster/cluster.h"
#include "sim/engine/simulation.h"

namespace baechi {

class MemoryLedger {
 public:
  explicit MemoryLedger(const Cluster& cluster) : devices_(cluster.num_devices()) {
    for (const DeviceId d : cluster.devices()) devices_[d].limit = cluster.device(d).memory;
  }

  bool fits(DeviceId d, Bytes size) const { return devices_[d].used + size <= devices_[d].limit; }
  Bytes free(DeviceId d) const { return devices_[d].limit - devices_[d].used; }
  const MemoryUse& live(DeviceId d) const { return devices_[d].live; }
  Bytes peak(DeviceId d) const { return devices_[d].peak; }
  const MemoryUse& at_peak(DeviceId d) const { return devices_[d].at_peak; }

  void take(DeviceId d, MemoryKind kind, Bytes size) {
    Account& a = devices_[d];
    a.live[kind] += size;
    a.used += size;
  }
  void give_back(DeviceId d, MemoryKind kind, Bytes size) {
    Account& a = devices_[d];
    a.live[kind] -= size;
    a.used -= size;
  }
  /// To be called when a request is complete: a peak inside one does not count.
  void note_peak(DeviceId d) {
    Account& a = devices_[d];
    if (a.used > a.peak) {
      a.peak = a.used;
      a.at_peak = a.live;
    }
  }

 private:
  struct Account {
    MemoryUse live;
    Bytes used, limit, peak;
    MemoryUse at_peak;
  };
  IdVector<DeviceId, Account> devices_;
};

}  // namespace baechi
