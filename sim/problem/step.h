/// The result of simulating one training step of a placed graph, and the interface of observers.
#pragma once
#include "sim/problem/problem.h"

namespace baechi {

enum class MemoryKind : std::uint8_t { weights, outputs, copies, workspace };
inline constexpr std::array memory_kinds{MemoryKind::weights, MemoryKind::outputs,
                                         MemoryKind::copies, MemoryKind::workspace};
constexpr std::string_view to_text(MemoryKind kind) {
  constexpr std::array<std::string_view, 4> names{"weights", "outputs", "copies", "workspace"};
  return names[static_cast<std::size_t>(kind)];
}

/// Memory in use on one device, in bytes per kind.
struct MemoryUse {
  std::array<Bytes, 4> by_kind{};
  Bytes& operator[](MemoryKind k) { return by_kind[static_cast<std::size_t>(k)]; }
  Bytes operator[](MemoryKind k) const { return by_kind[static_cast<std::size_t>(k)]; }
  Bytes total() const { return by_kind[0] + by_kind[1] + by_kind[2] + by_kind[3]; }
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

/// The OOM report of a step: the request that did not fit.
struct OutOfMemory {
  DeviceId device{};                 ///< the device that lacks memory
  OpId op{};                         ///< the requesting op; for a transfer, the tensor's producer
  std::optional<TensorId> transfer;  ///< the tensor to be received, for a request of a transfer
  Bytes needed{};                    ///< size of the request
  Bytes free{};                      ///< memory of the device that was free
  TimePoint at{};                    ///< time of the request
  MemoryUse live{};                  ///< memory in use on the device before the request
};

/// Time and memory that the step used on one device.
struct DeviceUse {
  Duration busy{};            ///< time in which lane "compute" ran ops, up to an OOM
  Bytes peak{};               ///< most memory in use at once
  MemoryUse at_peak{};        ///< memory in use when the peak was first reached
  Duration in_collectives{};  ///< time in which it ran collectives, up to an OOM
};

struct StepResult {
  std::optional<OutOfMemory> oom;         ///< a result, not an error; nothing if the step completes
  Duration makespan{};                    ///< time of the last event, or of the OOM
  IdVector<DeviceId, DeviceUse> devices;  ///< [num_devices]
  Bytes moved{};                          ///< bytes of all transfers between devices
  std::size_t transfers = 0;              ///< number of transfers started
  std::size_t events = 0;                 ///< number of ends of ops, transfers and collectives
};

/// Observes a step. Calls are in the order of the engine's decisions, never concurrent. An op or
/// transfer is reported when it starts, unless its memory request failed; the members of a
/// collective are reported as ops when it starts.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_op(OpId, DeviceId, TimePoint /*start*/, TimePoint /*end*/) {}
  virtual void on_transfer(TensorId, DeviceId /*src*/, DeviceId /*dst*/, TimePoint /*start*/,
                           TimePoint /*end*/) {}
  /// Called after every change of the memory in use on the device, with the new total.
  virtual void on_memory(DeviceId, const MemoryUse&, TimePoint) {}
};

/// Bytes by kind, of one device at one time.
struct PeakMemory {
  Bytes weights{};          ///< persistent bytes of forward ops; of all ops if not `distinguished`
  Bytes gradients{};        ///< persistent bytes of backward ops
  Bytes optimizer_state{};  ///< persistent bytes of update ops
  Bytes activations{};      ///< live outputs of ops
  Bytes workspace{};
  Bytes copies{};  ///< tensors received from other devices
  Bytes cache{};   ///< keys and values (OpGraph::cache); not among the weights
  /// Whether weights, gradients and optimizer state are known separately. If not, `gradients` and
  /// `optimizer_state` are 0 without meaning.
  bool distinguished = true;

  Bytes total() const {
    return weights + gradients + optimizer_state + activations + workspace + copies + cache;
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
