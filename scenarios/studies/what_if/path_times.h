/// Where the time of a step's critical path goes.
#pragma once
#include <array>

#include "sim/explain/causes.h"
#include "sim/names.h"

namespace baechi {

/// Where the time of a critical path goes.
enum class PathTime : std::uint8_t { compute, host, collective, transfer, waiting };
constexpr auto names_of(PathTime) {
  return std::to_array<Named<PathTime>>(
      {{PathTime::compute, "compute", "ops of the devices"},
       {PathTime::host, "host", "ops in lanes of the host"},
       {PathTime::collective, "collective", ""},
       {PathTime::transfer, "transfer", "between devices, and copies to and from the host"},
       {PathTime::waiting, "waiting", "for a channel, or for a device that runs nothing"}});
}
inline constexpr std::size_t num_path_times = 5;
using PathTimes = std::array<Duration, num_path_times>;

/// What the parts of a step's critical path add up to. Where an op waits for its turn behind
/// another, the chain of the other counts instead.
PathTimes path_times(const Causes& causes, const OpGraph& graph);

}  // namespace baechi
