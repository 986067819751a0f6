/// Out of memory on the machine that runs the program, not on a simulated device.
#pragma once
#include <stdexcept>
#include <string>

namespace baechi {

/// Reported as an internal failure, not as an input error.
struct HostMemoryError : std::runtime_error {
  /// `doing`: the activity during which memory ran out, with the file or the size: "placing 20000
  /// ops".
  explicit HostMemoryError(const std::string& doing)
      : std::runtime_error("out of host memory: " + doing) {}
};

}  // namespace baechi
