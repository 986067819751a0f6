#include "sim/cluster/cluster.h"

#include <fmt/format.h>

namespace baechi {

Cluster Cluster::uniform(IdVector<DeviceId, Device> devices, Link link) {
  Cluster c;
  c.links_.assign(devices.size() * devices.size(), link);
  c.devices_ = std::move(devices);
  return c;
}

Cluster Cluster::uniform(std::size_t count, Bytes memory, Link link) {
  IdVector<DeviceId, Device> devices;
  for (std::size_t i = 0; i < count; ++i)
    devices.push_back({.name = fmt::format("gpu{}", i), .kind = {}, .memory = memory});
  return uniform(std::move(devices), link);
}

}  // namespace baechi
