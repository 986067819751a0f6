/// SIMD estimates of the step times of sixteen placements at once, by which searches choose the
/// placements to simulate.
#pragma once
#include "sim/problem/problem.h"

namespace baechi {

/// A simplified step in a given order of ops. An op runs as soon as its device has run its earlier
/// ops and its inputs have arrived. Its outputs are sent reader by reader, each as soon as both
/// channels are free (EngineOptions::transfers; staged is treated as duplex). Memory is unlimited,
/// and computation overlaps with transfers. With the start order of a simulated step, it estimates
/// the effect of moving a few ops.
///
/// Uses the widest vectors of the processor (Highway) and 64 B per edge. Times are multiples of
/// unit(), each rounded up: the least power of two in ns such that 2^31 units hold all ops and
/// transfers together (1 ns if all take less than 2.1 s).
class StepEstimate {
 public:
  static constexpr std::size_t lanes = 16;
  using Times = std::array<Duration, lanes>;

  /// Whether all devices are the same, all links are the same, and there are at most 128 devices.
  static bool suits(const Problem& problem);

  /// Throws InputError unless it suits.
  explicit StepEstimate(const Problem& problem);

  /// Sets the devices of all ops of a vector lane; initially device 0.
  void place(std::size_t lane, const Placement& placement);
  void move(std::size_t lane, OpId op, DeviceId device) {
    device_[index(op) * lanes + lane] = static_cast<std::uint8_t>(index(device));
  }

  /// The step time of each vector lane. `order`: all ops, topologically sorted.
  Times run(std::span<const OpId> order);

  Duration unit() const { return Duration{std::int64_t{1} << shift_}; }

  struct Op {
    std::uint32_t compute = 0;  ///< in units
    std::uint32_t first_input = 0, first_output = 0;
  };
  struct Tensor {
    std::uint32_t transfer = 0;  ///< in units
    std::uint32_t first_reader = 0;
    bool instant = false;
  };
  struct Reader {
    std::uint32_t op = 0, input = 0;
  };
  /// The arguments and scratch memory of run_pass().
  struct Pass {
    std::span<const OpId> order;
    std::span<const Op> ops;          ///< [num_ops + 1]
    std::span<const Tensor> tensors;  ///< [num_tensors + 1]
    std::span<const Reader> readers;  ///< [num_edges]
    std::uint32_t num_devices;
    bool cached, limited;
    std::uint32_t channel_mask, receiving;  ///< channels of device d: d & mask, and + receiving
    const std::uint8_t* device;             ///< [num_ops, lanes]
    std::uint32_t* there;                   ///< [num_edges, lanes]: arrival times of inputs
    std::uint32_t* free_at;                 ///< [num_devices, lanes], zeros
    std::uint32_t* channel;                 ///< [2 * num_devices, lanes], zeros
    std::uint32_t* sent;                    ///< [num_devices, lanes]
    std::uint32_t* last;                    ///< [lanes], zeros: the result
  };

 private:
  std::size_t num_devices_;
  EngineOptions engine_;
  int shift_ = 0;
  std::vector<Op> ops_;
  std::vector<Tensor> tensors_;
  std::vector<Reader> readers_;
  std::vector<std::uint8_t> device_;
  std::vector<std::uint32_t> there_, free_at_, channel_, sent_;
};

}  // namespace baechi
