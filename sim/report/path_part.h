/// A part of a step's critical path: an op, a transfer, or a wait.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "sim/graph/op_graph.h"
#include "sim/names.h"
#include "sim/units.h"

namespace baechi {

enum class PathKind : std::uint8_t {
  compute,       ///< an op runs
  transfer,      ///< a tensor is sent; in Transfers::staged its latency, too
  wait_channel,  ///< a tensor is complete, but its transfer cannot start yet
  wait_device,   ///< inputs have arrived, but the device's lane is busy
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
  OpId op{};                         ///< the op or member that runs or waits; else the producer
  std::optional<TensorId> tensor{};  ///< of transfer and wait_channel
  DeviceId device{};                 ///< of the op; else the sender
  DeviceId to{};                     ///< the receiver of `tensor`; else `device`
  OpId behind = no_op;               ///< wait_device: the last op that ran there meanwhile, if any
  TimePoint start{}, end{};
  Duration length() const { return end - start; }
};

}  // namespace baechi
