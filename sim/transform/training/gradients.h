/// The gradients of weights in a step, and the buckets in which replicas add them up.
#pragma once
#include <optional>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// What an op of a later micro-batch adds to a gradient.
struct AddedGradient {
  OpId producer{};
  std::optional<TensorId> tensor{};
};

/// A gradient that a backward op has made when it ends, and to which its copies in later
/// micro-batches add.
struct Gradient {
  OpId producer{};
  Bytes bytes{};
  std::optional<TensorId> tensor{};    ///< nothing: it is among the producer's persistent bytes
  std::vector<OpId> updates{};         ///< that wait for it, ascending
  std::vector<AddedGradient> added{};  ///< in the order of their producers
  std::uint32_t micro_batch = 0;       ///< of `producer`
  bool expert = false;                 ///< of an expert's weights, if fewer replicas have these

  /// The op at whose end it is whole.
  OpId last_producer() const;
};

/// Whether `t` is a gradient of weights: a backward op hands it to update ops alone, and it takes
/// memory of its own.
bool is_weight_gradient(const OpGraph& graph, TensorId t);

/// The workspace in which `v`, of a later micro-batch, makes gradients that it adds to the first's.
Bytes gradient_workspace(const OpGraph& graph, OpId v);

/// In the order of their last producers: tensors that backward ops pass to update ops; and the
/// persistent bytes of backward ops that update ops wait for by a control edge.
/// What the copies of an op (OpGraph::micro_batch) make is one gradient, or, if `each`, a gradient
/// of each micro-batch.
std::vector<Gradient> gradients_of(const OpGraph& graph, bool each = false);

/// The same for a graph that does not show them: `share` of the persistent bytes of each forward op
/// that a backward op differentiates (Op::forward; the last one makes the gradient). No updates.
std::vector<Gradient> assumed_gradients(const OpGraph& graph, double share);

/// Per forward op with persistent bytes the update ops of its weights, ascending: those that take
/// gradients from a backward op that differentiates it (Op::forward); where there are none, those
/// of its group. [num_ops]
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
