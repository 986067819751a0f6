/// Classes of identical devices.
#pragma once
#include <vector>

#include "sim/problem/problem.h"

namespace baechi {

struct DeviceClass {
  std::vector<DeviceId> devices;  ///< ascending
  bool core = false;              ///< without transfer costs and memory limit
  Bytes memory{};                 ///< of each
};
/// Sorted by first device. Devices of one class have the same type, memory limit and speed.
std::vector<DeviceClass> device_classes(const Problem& problem);

}  // namespace baechi
