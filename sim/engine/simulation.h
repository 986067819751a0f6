/// Replays one training step of a placed graph in simulated time.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "sim/problem/problem.h"

namespace baechi {

/// What memory is used for.
enum class MemoryKind : std::uint8_t { weights, outputs, copies, workspace };
inline constexpr std::array memory_kinds{MemoryKind::weights, MemoryKind::outputs,
                                         MemoryKind::copies, MemoryKind::workspace};
constexpr std::string_view to_text(MemoryKind kind) {
  constexpr std::array<std::string_view, 4> names{"weights", "outputs", "copies", "workspace"};
  return names[static_cast<std::size_t>(kind)];
}

/// Bytes of one device by kind.
struct MemoryUse {
  std::array<Bytes, 4> by_kind{};
  Bytes& operator[](MemoryKind k) { return by_kind[static_cast<std::size_t>(k)]; }
  Bytes operator[](MemoryKind k) const { return by_kind[static_cast<std::size_t>(k)]; }
  Bytes total() const { return by_kind[0] + by_kind[1] + by_kind[2] + by_kind[3]; }
  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

/// The request that did not fit.
struct OutOfMemory {
  DeviceId device{};
  OpId op{};                         ///< that asked; of a transfer: the tensor's producer
  std::optional<TensorId> transfer;  ///< the tensor that was to be received, if it was a transfer
  Bytes needed{};                    ///< the request
  Bytes free{};                      ///< what was left
  TimePoint at{};
  MemoryUse live{};  ///< on that device, before the request
};

struct DeviceUse {
  Duration busy{};      ///< computing; up to the failure if oom
  Bytes peak{};         ///< most memory in use at once
  MemoryUse at_peak{};  ///< of what it consisted, the first time it was reached
};

struct StepResult {
  std::optional<OutOfMemory> oom;  ///< an outcome, not an error: it is a cell of the paper's tables
  Duration makespan{};             ///< time of the last event; up to the failure if oom
  IdVector<DeviceId, DeviceUse> devices;
  Bytes moved{};              ///< between devices
  std::size_t transfers = 0;  ///< started
  std::size_t events = 0;     ///< op ends and transfer ends
};

/// Sees what happens and changes nothing. Calls come in the order the engine decides, never
/// concurrently. Ops and transfers are told when they start; one that asked for too much is not.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void on_op(OpId, DeviceId, TimePoint /*start*/, TimePoint /*end*/) {}
  virtual void on_transfer(TensorId, DeviceId /*src*/, DeviceId /*dst*/, TimePoint /*start*/,
                           TimePoint /*end*/) {}
  /// After every change: all that is in use on the device.
  virtual void on_memory(DeviceId, const MemoryUse&, TimePoint) {}
};

/// One step under problem.engine. Deterministic, and free of shared state: call it from as many
/// threads as there are problems.
///
/// Semantics::event. At one instant, first all that ends then ends (its memory is given back, the
/// ops it made ready queue up, its outputs' transfers queue up); then transfers start, in the order
/// of (production time, tensor id, receiving device), skipping those whose channels are taken; then
/// ops, by device id. Work of no length ends in a further round at the same instant.
/// A transfer that is not the first of its sender's queue waits, also where a later one could go.
/// An op that becomes ready in a later round of an instant goes by id among those of the instant
/// that still wait. Without cache, the copies of one tensor for one device are sent in the order of
/// their edges and serve them in that order. Weights are requested at time 0, in op id order over
/// all devices; the first that does not fit is the verdict. Without overlap a transfer waits until
/// neither end computes, an op until its device moves nothing.
///
/// Semantics::baechi. As baechi_simulation.h says; memory is counted but no limit is enforced; of
/// the other options none matters. Throws InputError if the cluster is not uniform.
///
/// Aborts if `placement` does not cover the graph; running out of memory is a result.
StepResult simulate(const Problem& problem, const Placement& placement,
                    std::span<StepObserver* const> observers = {});

/// simulate() for one placement of a problem after another: what does not depend on the placement
/// is made once, and a run takes no memory that an earlier one has had. For one thread.
class Simulator {
 public:
  explicit Simulator(const Problem& problem);  ///< its parts outlive this
  ~Simulator();
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;

  /// Good until the next call.
  const StepResult& run(const Placement& placement, std::span<StepObserver* const> observers = {});

  class Engine;  ///< one of each semantics

 private:
  std::size_t num_ops_, num_devices_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace baechi
