/// What one training step of a placed graph came to, and who may watch it.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sim/ids.h"
#include "sim/units.h"

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

}  // namespace baechi
