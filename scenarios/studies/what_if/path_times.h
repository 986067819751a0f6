/// The time on a step's critical path by category.
#pragma once
#include <array>

#include "sim/explain/explanation.h"
#include "sim/names.h"

namespace baechi {

/// The categories of time on a critical path.
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

/// The times of a step's critical path by category. Where an op waits for another op of its lane,
/// the chain of the other op counts instead.
PathTimes path_times(const Causes& causes, const OpGraph& graph);

}  // namespace baechi
