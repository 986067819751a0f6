/// Causes of a simulated step's time, and, if memory ran out, the contents of the memory.
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
  /// By PathKind: the activity meanwhile in the chain before the device's next op. `compute` is an
  /// op on another device, `wait_device` an op that waited for its device.
  std::array<Duration, num_path_kinds> waiting{};
  Duration nothing_left{};  ///< after its last op
};

/// How much time devices idled for one tensor.
struct BlockingTensor {
  TensorId tensor{};
  DeviceId src{}, dst{};
  Duration moving{}, waiting{};  ///< while it was on its way; while it waited for a channel
};

/// The step in parts that add up to it.
struct WhatIf {
  Duration dependencies{};  ///< the step on as many devices as ops, each as fast, transfers free
  Duration devices{};       ///< added by the number of devices, transfers free
  Duration transfers{};     ///< added by transfers. Negative if they improve the order
};

struct Explanation {
  Duration step_time{};
  std::vector<PathPart> critical_path{};     ///< from 0 to step_time, without gaps
  IdVector<DeviceId, DeviceIdle> devices{};  ///< [num_devices]
  std::vector<BlockingTensor> blocking{};    ///< the most time first; ties by tensor, receiver
  WhatIf what_if{};
};

/// Explains a step under Semantics::event that completed. `timeline` is of that step.
Explanation explain(const Problem& problem, const Placement& placement, const Timeline& timeline,
                    const StepResult& step);

/// Something in the memory of a device.
struct LiveTensor {
  MemoryKind kind{};
  OpId op{};  ///< the op that owns the weights, output or workspace
  Bytes size{};
  std::vector<OpId> kept_by{};      ///< readers that have not ended; of weights and workspace: none
  std::vector<DeviceId> leaving{};  ///< receivers whose transfer has not ended
};

/// The contents of the device's memory when it ran out, the largest first; ties by kind, then op.
/// Copies that are halfway in host memory (Transfers::staged) are left out. `timeline` is of the
/// step up to the failure.
std::vector<LiveTensor> live_tensors(const Problem& problem, const Placement& placement,
                                     const Timeline& timeline, const OutOfMemory& oom);

}  // namespace baechi
