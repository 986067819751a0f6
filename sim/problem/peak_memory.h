/// The memory of a device at its peak by kind, with the persistent bytes told apart.
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

/// The bytes `at_peak` on `device`, by kind. Persistent bytes do not change during a step: they are
/// the bytes of the device's ops by phase. If memory ran out during the requests for persistent
/// bytes, they are those of the first ops, up to the total in `at_peak`. Not told apart: a graph
/// with persistent bytes of one kind. Also not: a peak under Semantics::baechi before the last
/// weights, which are booked op by op.
PeakMemory peak_memory(const Problem& problem, const Placement& placement, DeviceId device,
                       const MemoryUse& at_peak);

}  // namespace baechi
