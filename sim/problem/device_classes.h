/// The classes of a cluster's devices: equal devices are one class.
#pragma once
#include <vector>

#include "sim/problem/problem.h"

namespace baechi {

/// Devices that nothing tells apart.
struct DeviceClass {
  std::vector<DeviceId> devices;  ///< ascending
  bool core = false;              ///< pays for no transfers, has no memory limit
  Bytes memory{};                 ///< of each
};
/// By the lowest device. Devices of one class agree in kind, memory and speed.
std::vector<DeviceClass> device_classes(const Problem& problem);

}  // namespace baechi
