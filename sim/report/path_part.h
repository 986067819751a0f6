/// A part of a step's critical path: an op, a transfer, or a wait of one of them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "sim/graph/op_graph.h"
#include "sim/names.h"
#include "sim/units.h"

namespace baechi {

/// The activity in a part of a chain.
enum class PathKind : std::uint8_t {
  compute,       ///< an op runs
  transfer,      ///< a tensor is on its way; in Transfers::staged its latency, too
  wait_channel,  ///< a tensor is complete, but its transfer may not start yet
  wait_device,   ///< inputs are there, but the device's lane is busy or another op's turn
  collective,    ///< a collective runs
};
constexpr auto names_of(PathKind) {
  return std::to_array<Named<PathKind>>(
      {{PathKind::compute, "compute", "computing"},
       {PathKind::transfer, "transfer", "transferring"},
       {PathKind::wait_channel, "wait_channel", "waiting for a channel"},
       {PathKind::wait_device, "wait_device", "waiting for a device"},
       {PathKind::collective, "collective", "in a collective"}});
}
inline constexpr std::size_t num_path_kinds = 5;

struct PathPart {
  PathKind kind{};
  OpId op{};                         ///< that runs, is a member or waits; else the producer
  std::optional<TensorId> tensor{};  ///< of a transfer, and of one that waits
  DeviceId device{};                 ///< of the op; else the sender
  DeviceId to{};                     ///< the receiver; else as `device`
  OpId behind = no_op;               ///< wait_device: the last op that ran there meanwhile, if any
  TimePoint start{}, end{};
  Duration length() const { return end - start; }
};

}  // namespace baechi
