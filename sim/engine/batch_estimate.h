/// The step times of sixteen placements at once, of a simpler step: for searches that must choose
/// which of many placements to simulate.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/placement.h"

namespace baechi {

/// In the simpler step ops run in id order on every device, one at a time, a tensor is wherever it
/// is read as soon as an uncontended transfer allows, and memory is ample. Sixteen placements cost
/// as much as two of them would alone: vectors of the widest kind that the processor has (Highway).
///
/// Times are whole multiples of unit(), the least power of two in ns of which 2^31 hold all ops and
/// transfers together, each rounded up: 1 ns if those take less than 2.1 s.
class BatchEstimate {
 public:
  static constexpr std::size_t lanes = 16;
  using Times = std::array<Duration, lanes>;

  /// Throws InputError unless all devices and all links are alike, and there are at most 256.
  explicit BatchEstimate(const Problem& problem);

  /// All ops of a lane; before that they are on device 0.
  void place(std::size_t lane, const Placement& placement);
  void move(std::size_t lane, OpId op, DeviceId device) {
    device_[index(op) * lanes + lane] = static_cast<std::uint8_t>(index(device));
  }

  /// The step time of each lane.
  Times run();

  Duration unit() const { return Duration{std::int64_t{1} << shift_}; }

  /// What an op reads; times in units.
  struct Input {
    std::uint32_t op = 0;
    std::uint32_t transfer = 0;
  };
  struct Op {
    std::uint32_t compute = 0;
    std::uint32_t first_input = 0;
  };
  /// What a pass over the graph works on.
  struct Pass {
    std::span<const Op> ops;  ///< [num_ops + 1]
    std::span<const Input> inputs;
    const std::uint8_t* device;  ///< [num_ops, lanes]
    std::uint32_t* end;          ///< [num_ops, lanes]
    std::uint32_t* free_at;      ///< [num_devices, lanes], zeros
    std::uint32_t* last;         ///< [lanes], zeros: the result
  };

 private:
  int shift_ = 0;
  std::vector<Op> ops_;
  std::vector<Input> inputs_;
  std::vector<std::uint8_t> device_;
  std::vector<std::uint32_t> end_;
  std::vector<std::uint32_t> free_at_;
};

}  // namespace baechi
