#include "sim/problem/device_classes.h"

#include <algorithm>

namespace baechi {

std::vector<DeviceClass> device_classes(const Problem& problem) {
  const Cluster& cluster = problem.cluster;
  constexpr Bytes unbounded{std::int64_t{1} << 62};
  std::vector<DeviceClass> classes;
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    const Bytes memory =
        device.is_core() || !problem.engine.enforce_memory ? unbounded : device.memory;
    const auto it = std::ranges::find_if(classes, [&](const DeviceClass& cls) {
      const Device& other = cluster.device(cls.devices.front());
      return other.kind == device.kind && other.speed == device.speed && cls.memory == memory;
    });
    if (it != classes.end())
      it->devices.push_back(d);
    else
      classes.push_back({.devices = {d}, .core = device.is_core(), .memory = memory});
  }
  return classes;
}

}  // namespace baechi
