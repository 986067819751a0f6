/// A stream of micro-batches through a placed graph, written out as one larger placed graph.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/pipeline/stages.h"

namespace baechi::pipeline {

struct PipelineOptions {
  std::string schedule = "gpipe";  ///< a name of schedules()
  std::size_t micro_batches = 8;
  /// A stage runs the forward pass once more before the backward pass, from its received inputs. It
  /// keeps nothing else meanwhile.
  bool recompute = false;
};

inline constexpr std::uint32_t no_micro_batch = ~std::uint32_t{0};

struct Unrolled {
  OpGraph graph;
  Placement placement;
  Stages stages;
  Schedule schedule;
  /// The op that each op is a copy of. no_op: an op of no time, which is either an empty pass or
  /// keeps the order of passes.
  IdVector<OpId, OpId> origin;
  IdVector<OpId, std::uint32_t> micro_batch;   ///< no_micro_batch: the op only keeps the order
  IdVector<TensorId, TensorId> tensor_origin;  ///< of tensors of copies
};

/// Each op once per micro-batch, on the device that the schedule names. A pass begins when the
/// previous pass of its device has ended. A backward pass without ops ends when the backward passes
/// of the reading chunks have ended.
/// Persistent bytes come with the first copy on a device. Forward ops hold weights, in as many
/// versions as the schedule keeps. Backward ops (gradients) and update ops (optimizer state) hold
/// theirs once. The control dependencies of the graph are sent as data.
/// Throws InputError if a forward op reads the output of a later phase, if the schedule is of
/// training but no backward op reads the output of a forward op, or if the schedule cannot be made
/// for the stages and micro-batches.
Unrolled unroll(const Problem& problem, const Placement& placement, const PipelineOptions& options);

/// The costs of the ops and tensors that were copied. For one thread.
class UnrolledCosts final : public CostModel {
 public:
  UnrolledCosts(const CostModel& costs, const Unrolled& unrolled)
      : costs_(costs), unrolled_(unrolled) {}
  Duration compute(OpId v, DeviceId d) const override {
    const OpId origin = unrolled_.origin[v];
    return origin == no_op ? Duration{} : costs_.compute(origin, d);
  }
  bool same_compute(DeviceId a, DeviceId b) const override { return costs_.same_compute(a, b); }
  Duration transfer(TensorId t, DeviceId src, DeviceId dst) const override {
    return costs_.transfer(unrolled_.tensor_origin[t], src, dst);
  }
  Duration latency(TensorId t, DeviceId src, DeviceId dst) const override {
    return costs_.latency(unrolled_.tensor_origin[t], src, dst);
  }
  /// Copies of a collective take the same time, which is asked for once.
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override;

 private:
  struct Known {
    std::vector<DeviceId> devices;
    Duration time{};
  };
  const CostModel& costs_;
  const Unrolled& unrolled_;
  mutable std::map<OpId, Known> known_{};  // by the origin of the first member
};

}  // namespace baechi::pipeline
