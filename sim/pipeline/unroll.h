/// The pipeline structure of a placed graph: roles of ops, devices as stages, ops in chunks and
/// passes. Unrolls a stream of micro-batches through it into one larger placed graph.
#pragma once
#include "sim/pipeline/schedule.h"
#include "sim/problem/problem.h"

namespace baechi::pipeline {

bool is_forward(const OpGraph& graph, OpId v);
bool is_backward(const OpGraph& graph, OpId v);

/// Whether `v` is a host op that launches ops of its device ahead of them.
bool launches(const OpGraph& graph, OpId v);
/// Whether `v` serves other ops of its device and runs concurrently with them: it launches them, or
/// it is an all_gather, outside the update and without data inputs, of weights that they read.
bool serves(const OpGraph& graph, OpId v);
/// Whether `v` starts a transfer when its receiver requests it (lane `asked_lane`).
bool is_asked(const OpGraph& graph, OpId v);
bool reduces_gradients(const OpGraph& graph, OpId v);

inline constexpr std::uint32_t no_stage = ~std::uint32_t{0};

/// The devices with ops, in pipeline order.
struct Stages {
  std::vector<DeviceId> devices;            ///< by stage
  IdVector<DeviceId, std::uint32_t> stage;  ///< no_stage: the device has no op. [num_devices]
  std::size_t count = 0;
  bool in_line = true;  ///< no two devices feed each other in the same pass
};

/// One stage per device, in the order of their first forward ops.
Stages devices_as_stages(const Problem& problem, const Placement& placement);

/// A device precedes its readers in the forward pass and follows its readers in the backward pass;
/// ties by first forward ops. Devices that feed each other are one stage.
Stages stages_of(const Problem& problem, const Placement& placement);

/// Chunk and pass of each op.
struct Chunks {
  IdVector<OpId, std::uint32_t> chunk;  ///< [num_ops]
  IdVector<OpId, PassKind> pass;        ///< F, B or U. [num_ops]
  std::size_t laps = 1;                 ///< chunks per stage of Layout::loop
};

/// Layout::line and two_way: the op's stage. Other layouts: update ops are in the first chunk of
/// their stage. A forward op is in the first chunk of its stage that does not precede the chunks of
/// its inputs. A backward op is in the last chunk of its stage that follows neither the chunk that
/// it differentiates nor the chunks of its inputs in the backward pass. The last stage of
/// Layout::vee has two successive chunks: the later half of its forward ops, by time, is in the
/// second. Throws InputError if an op has no such chunk.
Chunks chunks_of(const Problem& problem, const Placement& placement, const Stages& stages,
                 const ScheduleEntry& schedule);

/// Moves ops from B to W: backward ops without a data path to the backward pass of another chunk;
/// in chunks that send no gradients, such as the first, the ops without backward readers.
void split_weights(const OpGraph& graph, Chunks& chunks);

/// The times of each chunk's passes: ops of lane "compute" and collectives, and one transfer per
/// tensor and receiving device. [chunks]
std::vector<PassTimes> pass_times(const Problem& problem, const Placement& placement,
                                  const Stages& stages, const Chunks& chunks);

/// Puts each op that serves() others into the chunk and pass of the first of them. Throws
/// InputError if one host op launches ops of several passes or devices.
void join_served(const Problem& problem, const Placement& placement, Chunks& chunks);

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
/// the previous pass of its device has ended (exceptions: keep_order()). A backward
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

inline constexpr std::size_t no_pass = ~std::size_t{0};

/// A copy of an op; ids are the builder's.
struct Copy {
  OpId origin = no_op;  ///< no_op: a zero-time op for ordering
  std::uint32_t micro_batch = no_micro_batch;
  DeviceId device{};
  std::size_t pass = no_pass;  ///< into Copies::passes
  TensorId first_output{};
  /// Whether it has an input from, or a reader in, its own pass; for host ops: the pass's host ops.
  bool reads_own = false, read_by_own = false;
  OpId last_user = no_op;  ///< its last reader in its own pass
};

/// A tensor that is sent when its receiver requests it.
struct RequestedTensor {
  TensorId tensor{};
  std::map<DeviceId, std::size_t> by{};  ///< the first pass of each device that reads it
};

/// The copies of one pass on one device. The updates of all chunks of a stage are one pass.
struct DevicePass {
  Pass pass;
  DeviceId device{};
  std::vector<OpId> all{};            ///< without host ops
  std::vector<OpId> host{};           ///< host ops that launch them
  std::vector<OpId> first{}, last{};  ///< of `all`: without inputs from, or readers in, the pass
  std::vector<OpId> awaited{};        ///< the host waits for them before its next ops
};

struct Copies {
  OpGraphBuilder builder{};
  IdVector<OpId, Copy> copies{};
  std::vector<DevicePass> passes{};         ///< by device, in the order they run in
  std::map<OpId, RequestedTensor> asked{};  ///< by sending op
  /// Makes `after` wait for `before`, by way of a zero-time op.
  void gate(DeviceId device, const std::vector<OpId>& before, const std::vector<OpId>& after);
  OpId add_order(DeviceId device);
};

/// The inputs of keep_order() besides the copies.
struct Ordered {
  const Problem& problem;
  const Placement& placement;
  const Stages& stages;
  const Chunks& chunks;
  const Schedule& schedule;
};

/// Adds control edges so that each device runs its passes one after the other, with exceptions:
/// - Collectives of the update pass wait for their inputs only: gradient buckets overlap with the
///   last backward passes.
/// - An all_gather of weights is prefetched: it overlaps with the ops that read the previous ones,
///   also across passes.
/// - A requested tensor is sent when the one device that reads it has ended its previous pass.
/// - Its sender holds it until its next receipt, or the end of its last pass before the update.
/// - The host does not wait for the device: its ops follow those of the previous pass.
/// - A backward pass without ops ends with the backward passes of the chunks that read from it.
/// - A forward pass leads its readers by no more than Schedule::ahead.
/// - With ReadyOrder::program each lane of a device runs its ops in the order of their ids, pass by
///   pass.
void keep_order(Copies& copies, const Ordered& of);

}  // namespace baechi::pipeline
