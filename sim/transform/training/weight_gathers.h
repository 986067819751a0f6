/// Where replicas that keep a share of the weights each put them together.
#pragma once
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// Weights of some ops on one device, gathered for those that read them next.
struct WeightGather {
  DeviceId device{};
  bool expert = false;  ///< of experts
  Bytes bytes{};
  std::vector<OpId> users{};  ///< ascending, never empty; then the weights are dropped
  /// The gather begins when this op has ended, the last user of the weights before the last ones
  /// that comes before the first user of these: one gather is on its way while the weights before
  /// it are in use. no_op: at once.
  OpId waits_for = no_op;

  OpId first_user() const { return users.front(); }
};

/// For each device, in the order of first users: weights of forward ops, in buckets of `limit`
/// bytes or more, in each micro-batch (OpGraph::micro_batch) once for the forward ops, and once for
/// the backward ops that differentiate them (Op::forward; else those of the op's group). The
/// weights of an op are its persistent bytes times `shards`; those of experts times
/// `expert_shards`, if this is not 0, in gathers of their own. An op without persistent bytes whose
/// kernels read weights (OpWork::weights) reads those of its group: with the op of its kind that
/// holds them, or in a gather of its own. In all sorted by first user.
/// Source: ZeRO stage 3, Rajbhandari et al., SC 2020; FSDP, Zhao et al., VLDB 2023, which also
/// gathers one unit ahead.
std::vector<WeightGather> weight_gathers(const OpGraph& graph,
                                         const IdVector<OpId, DeviceId>& device,
                                         std::int64_t shards, Bytes limit,
                                         std::int64_t expert_shards = 0);

}  // namespace baechi
