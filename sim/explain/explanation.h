/// Causes of a simulated step's time, and, after out of memory, the contents of the memory.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "sim/engine/simulation.h"
#include "sim/explain/causes.h"

namespace baechi {

/// Idle time of a device by cause. All times add up to the step.
struct DeviceIdle {
  Duration busy{};
  /// By PathKind: the concurrent activity in the chain before the device's next op. `compute` is an
  /// op on another device, `wait_device` an op that waited for its device.
  std::array<Duration, num_path_kinds> waiting{};
  Duration nothing_left{};  ///< after its last op
};

/// Idle time of devices due to one tensor.
struct BlockingTensor {
  TensorId tensor{};
  DeviceId src{}, dst{};
  Duration moving{}, waiting{};  ///< during its transfer; while it waited for a channel
};

/// The step time as a sum of contributions.
struct WhatIf {
  Duration dependencies{};  ///< step time with unlimited devices and free transfers
  Duration devices{};       ///< increase due to the limited devices, transfers free
  Duration transfers{};     ///< increase due to transfers; negative if they improve the order
};

struct Explanation {
  Duration step_time{};
  std::vector<PathPart> critical_path{};     ///< from 0 to step_time, without gaps
  IdVector<DeviceId, DeviceIdle> devices{};  ///< [num_devices]
  std::vector<BlockingTensor> blocking{};    ///< the most time first; ties by tensor, receiver
  WhatIf what_if{};
};

/// Explains a completed step under Semantics::event. `timeline` is of that step.
Explanation explain(const Problem& problem, const Placement& placement, const Timeline& timeline,
                    const StepResult& step);

/// An allocation in the memory of a device.
struct LiveTensor {
  MemoryKind kind{};
  OpId op{};  ///< the op that owns the weights, output or workspace
  Bytes size{};
  std::vector<OpId> kept_by{};      ///< unfinished readers; none for weights and workspace
  std::vector<DeviceId> leaving{};  ///< receivers of unfinished transfers
};

/// The contents of the device's memory when it ran out, the largest first; ties by kind, then op.
/// Copies that are in host memory (Transfers::staged) are omitted. `timeline` ends at the failure.
std::vector<LiveTensor> live_tensors(const Problem& problem, const Placement& placement,
                                     const Timeline& timeline, const OutOfMemory& oom);

}  // namespace baechi
