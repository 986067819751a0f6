/// What the memory of a device is used for at its peak, with the persistent bytes told apart.
#pragma once
#include "sim/problem/problem.h"
#include "sim/problem/step.h"

namespace baechi {

/// Bytes by kind, of one device at one time.
struct PeakMemory {
  Bytes weights{};    ///< persistent bytes of forward ops; all persistent bytes if not told apart
  Bytes gradients{};  ///< persistent bytes of backward ops
  Bytes optimizer_state{};  ///< persistent bytes of update ops
  Bytes activations{};      ///< outputs of ops that are still to be read or sent
  Bytes workspace{};
  Bytes copies{};  ///< tensors received from other devices
  /// Whether weights, gradients and optimizer state are told apart. If not, `gradients` and
  /// `optimizer_state` are 0 and mean nothing.
  bool told_apart = true;

  Bytes total() const {
    return weights + gradients + optimizer_state + activations + workspace + copies;
  }
};

/// `at_peak`, which is in use on `device`, by kind. Persistent bytes do not change during a step:
/// they are those of the ops on `device` by phase; if memory ran out while they were asked for,
/// those of the first ops, as many as `at_peak` has. Not told apart: a graph with persistent bytes
/// of one kind, and a step under Semantics::baechi, which books weights op by op, at a peak that
/// came before the last of them.
PeakMemory peak_memory(const Problem& problem, const Placement& placement, DeviceId device,
                       const MemoryUse& at_peak);

}  // namespace baechi
