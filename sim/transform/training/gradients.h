/// Segments of the forward pass, for activation checkpointing; gradients of parameters.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi {

inline constexpr std::uint32_t no_segment = ~std::uint32_t{0};

/// The segment of each forward op; no_segment for none, and for all other ops. [num_ops]
using Segments = IdVector<OpId, std::uint32_t>;

/// The name up to the first part with a digit, where '/' and '.' separate parts: "h.3" of
/// "h.3.attention.query", "net/block2" of "net/block2/conv". "" if there is none, or if it is the
/// last part.
std::string_view layer_of(std::string_view name);

/// A segment for each layer. Throws InputError if no op is in a layer but the graph has a backward
/// op.
Segments segments_by_layer(const OpGraph& graph);
/// The forward pass, in the order of ids, cut into `count` parts that write about equal bytes.
Segments segments_by_bytes(const OpGraph& graph, std::uint32_t count);
/// A segment for each pattern (sim/text.h); an op belongs to the first that matches its name.
/// Throws InputError if a pattern matches none.
Segments segments_by_names(const OpGraph& graph, const std::vector<std::string>& patterns);

/// The contribution of an op of a later micro-batch to a gradient.
struct AddedGradient {
  OpId producer{};
  std::optional<TensorId> tensor{};
};

/// A gradient that a backward op computes, and that its copies in later micro-batches accumulate.
struct Gradient {
  OpId producer{};
  Bytes bytes{};
  std::optional<TensorId> tensor{};    ///< nothing: part of the producer's persistent bytes
  std::vector<OpId> updates{};         ///< update ops that wait for it, ascending
  std::vector<AddedGradient> added{};  ///< in the order of their producers
  std::uint32_t micro_batch = 0;       ///< of `producer`
  bool expert = false;                 ///< of an expert's weights, with expert parallelism
  /// The op at whose end it is complete.
  OpId last_producer() const;
};

/// Whether `t` is a gradient of weights: written by a backward op, read by update ops only, no
/// reference.
bool is_weight_gradient(const OpGraph& graph, TensorId t);

/// The workspace in which `v`, an op of a later micro-batch, computes gradients before
/// accumulation.
Bytes gradient_workspace(const OpGraph& graph, OpId v);

/// All gradients in the order of their last producers: tensors from backward to update ops, and
/// persistent bytes of backward ops with control edges to update ops.
/// The copies of an op (OpGraph::micro_batch) contribute to one gradient, or, if `each`, to one per
/// micro-batch.
std::vector<Gradient> gradients_of(const OpGraph& graph, bool each = false);

/// For graphs without gradients: `share` of the persistent bytes of each forward op that a backward
/// op differentiates (Op::forward; the last one computes the gradient). Without updates.
std::vector<Gradient> assumed_gradients(const OpGraph& graph, double share);

/// For each forward op with persistent bytes the update ops of its weights, ascending: those with
/// gradients from a backward op that differentiates it (Op::forward), else those of its group.
/// [num_ops]
IdVector<OpId, std::vector<OpId>> updates_of_weights(const OpGraph& graph);

/// Gradients on one device that are sent together.
struct Bucket {
  DeviceId device{};
  Bytes bytes{};
  std::vector<Gradient> gradients{};  ///< never empty

  OpId last_producer() const { return gradients.back().last_producer(); }
};

/// For each device the buckets in the order in which they fill: a bucket takes gradients until it
/// has `limit` bytes or more, the first on a device `first_limit`; no bucket has gradients of two
/// micro-batches, or of experts and others. Source: PyTorch's DistributedDataParallel (Li et al.,
/// VLDB 2020).
std::vector<Bucket> buckets_of(const std::vector<Gradient>& gradients,
                               const IdVector<OpId, DeviceId>& device, Bytes first_limit,
                               Bytes limit);

/// The gathered weights of some ops on one device.
struct WeightGather {
  DeviceId device{};
  bool expert = false;  ///< weights of experts
  Bytes bytes{};
  std::vector<OpId> users{};  ///< ascending, never empty; the weights are dropped after the last
  /// Prefetching by one: the gather starts when the last user, before users.front(), of the second
  /// gather before it has ended. no_op: at once.
  OpId waits_for = no_op;

  OpId first_user() const { return users.front(); }
};

/// Sorted by first user: for each device the weights of forward ops in buckets of `limit` bytes or
/// more, per micro-batch (OpGraph::micro_batch) once for the forward ops, and once for the backward
/// ops that differentiate them (Op::forward; else those of the op's group). The weights of an op
/// are its persistent bytes times `shards`, for experts times `expert_shards`, if this is not 0, in
/// separate gathers. An op without persistent bytes whose kernels read weights (OpWork::weights)
/// reads those of its group: with the op of its kind that holds them, or in a separate gather.
/// Source: ZeRO stage 3, Rajbhandari et al., SC 2020; FSDP, Zhao et al., VLDB 2023, which also
/// gathers one unit ahead.
std::vector<WeightGather> weight_gathers(const OpGraph& graph,
                                         const IdVector<OpId, DeviceId>& device,
                                         std::int64_t shards, Bytes limit,
                                         std::int64_t expert_shards = 0);

}  // namespace baechi
