/// The memory of a device at its peak by kind, with persistent bytes split by phase.
#pragma once
#include "sim/problem/problem.h"
#include "sim/problem/step.h"

namespace baechi {

/// Bytes by kind, of one device at one time.
struct PeakMemory {
  Bytes weights{};          ///< persistent bytes of forward ops; of all ops if not `distinguished`
  Bytes gradients{};        ///< persistent bytes of backward ops
  Bytes optimizer_state{};  ///< persistent bytes of update ops
  Bytes activations{};      ///< live outputs of ops
  Bytes workspace{};
  Bytes copies{};  ///< tensors received from other devices
  /// Whether weights, gradients and optimizer state are known separately. If not, `gradients` and
  /// `optimizer_state` are 0 without meaning.
  bool distinguished = true;

  Bytes total() const {
    return weights + gradients + optimizer_state + activations + workspace + copies;
  }
};

/// The bytes `at_peak` on `device`, by kind. Persistent bytes, which are constant during a step,
/// are those of the device's ops by phase; if memory ran out while they were requested, those of
/// the first ops, up to the total in `at_peak`. Not distinguished: in a graph with
/// persistent_of_one_kind(), and at a peak under Semantics::baechi before the last weights, which
/// are allocated op by op.
PeakMemory peak_memory(const Problem& problem, const Placement& placement, DeviceId device,
                       const MemoryUse& at_peak);

}  // namespace baechi
