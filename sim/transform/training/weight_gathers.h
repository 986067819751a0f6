/// Weight all-gathers of sharded data parallelism (ZeRO 3, FSDP).
#pragma once
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

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
