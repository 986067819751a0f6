/// Intermediate data of unroll(): the copies of a graph's ops, pass by pass.
#pragma once
#include <map>
#include <vector>

#include "sim/pipeline/stages.h"
#include "sim/pipeline/unroll.h"

namespace baechi::pipeline {

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
