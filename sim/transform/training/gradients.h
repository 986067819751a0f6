/// The gradients of weights in a step, and the buckets in which replicas reduce them.
#pragma once
#include <optional>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

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

}  // namespace baechi
