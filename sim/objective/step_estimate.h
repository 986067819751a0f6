/// Estimated step times of sixteen placements at once, by a simpler model of a step: for searches
/// that choose which of many placements to simulate.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/problem/problem.h"

namespace baechi {

/// A simpler step, in a given order of ops. An op runs as soon as its device has run its earlier
/// ops and its inputs are there. Then its outputs are sent, reader after reader, each as soon as
/// both channels are free (EngineOptions::transfers; staged counts as duplex). Memory is ample, and
/// a device computes while it sends. With the start order of a simulation, the estimate shows the
/// effect of moving a few ops.
///
/// Vectors of the widest kind that the processor has (Highway); 64 B per edge. Times are whole
/// multiples of unit(), each rounded up. unit() is the least power of two in ns of which 2^31 hold
/// all ops and transfers together: 1 ns if all take less than 2.1 s.
class StepEstimate {
 public:
  static constexpr std::size_t lanes = 16;
  using Times = std::array<Duration, lanes>;

  /// Whether all devices are the same, all links are the same, and there are at most 128 devices.
  static bool suits(const Problem& problem);

  /// Throws InputError unless it suits.
  explicit StepEstimate(const Problem& problem);

  /// All ops of a lane; before that they are on device 0.
  void place(std::size_t lane, const Placement& placement);
  void move(std::size_t lane, OpId op, DeviceId device) {
    device_[index(op) * lanes + lane] = static_cast<std::uint8_t>(index(device));
  }

  /// The step time of each vector lane, with all ops in this order: each op behind its inputs.
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
  /// The op, and which of all inputs.
  struct Reader {
    std::uint32_t op = 0, input = 0;
  };
  /// The working memory of a pass over the graph.
  struct Pass {
    std::span<const OpId> order;
    std::span<const Op> ops;          ///< [num_ops + 1]
    std::span<const Tensor> tensors;  ///< [num_tensors + 1]
    std::span<const Reader> readers;  ///< [num_edges]
    std::uint32_t num_devices;
    bool cached, limited;
    std::uint32_t channel_mask, receiving;  ///< the channels of device d: d & mask, receiving + it
    const std::uint8_t* device;             ///< [num_ops, lanes]
    std::uint32_t* there;                   ///< [num_edges, lanes]: when an input is there
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
