/// Thrown if this machine, not a simulated device, has no memory left.
#pragma once
#include <stdexcept>
#include <string>

namespace baechi {

/// Ends as an internal failure: neither the input nor the program is wrong.
struct HostMemoryError : std::runtime_error {
  /// `doing`: the activity during which memory ran out, with the file or the size: "placing 20000
  /// ops".
  explicit HostMemoryError(const std::string& doing)
      : std::runtime_error("out of host memory: " + doing) {}
};

}  // namespace baechi
