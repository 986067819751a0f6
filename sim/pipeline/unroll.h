/// Unrolls a stream of micro-batches through a placed graph into one larger placed graph.
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
  /// Activation checkpointing: a stage keeps only its received inputs, and repeats the forward pass
  /// before the backward pass.
  bool recompute = false;
  /// The last micro-batch, whose backward pass comes first, is kept whole. Source: torchgpipe,
  /// checkpoint='except_last'.
  bool keep_last = false;
};

inline constexpr std::uint32_t no_micro_batch = ~std::uint32_t{0};

/// Throws InputError as unroll() does whatever the placement: of the phases of the ops.
void check_graph(const OpGraph& graph, const PipelineOptions& options);
/// Throws the InputError of a placement with replicas.
[[noreturn]] void refuse_replicas();

struct Unrolled {
  OpGraph graph;
  Placement placement;
  Stages stages;
  Schedule schedule;
  /// The op of which each op is a copy; no_op: a zero-time op for an empty pass or for ordering.
  IdVector<OpId, OpId> origin;
  IdVector<OpId, std::uint32_t> micro_batch;   ///< no_micro_batch: a zero-time op for ordering
  IdVector<TensorId, TensorId> tensor_origin;  ///< of tensors of copies
};

/// Copies each op once per micro-batch, to the device that the schedule assigns. A pass begins when
/// the previous pass of its device has ended (exceptions: keep_order() in passes.h). A backward
/// pass without ops ends when the backward passes of the reading chunks have ended. Persistent
/// bytes are at the first copy on a device: those of forward ops (weights) in as many versions as
/// the schedule keeps, those of backward ops (gradients) and update ops (optimizer state) once.
/// Control dependencies of the graph are sent as data. Throws InputError if a forward op reads the
/// output of a later phase, if a training schedule finds no backward op that reads the output of a
/// forward op, or if the schedule does not exist for the stages and micro-batches.
Unrolled unroll(const Problem& problem, const Placement& placement, const PipelineOptions& options);

/// The costs of the original ops and tensors. Not thread-safe.
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
  /// Copies of a collective take the same time, which is cached.
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override;

 private:
  struct CachedTime {
    std::vector<DeviceId> devices;
    Duration time{};
  };
  const CostModel& costs_;
  const Unrolled& unrolled_;
  mutable std::map<OpId, CachedTime> cached_{};  // by the origin of the first member
};

}  // namespace baechi::pipeline
