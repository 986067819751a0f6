/// The copies of a graph's ops, pass by pass, before they are one graph.
#pragma once
#include <map>
#include <vector>

#include "sim/pipeline/stages.h"
#include "sim/pipeline/unroll.h"

namespace baechi::pipeline {

inline constexpr std::size_t no_pass = ~std::size_t{0};

/// A copy of an op; ids are the builder's.
struct Copy {
  OpId origin = no_op;  ///< no_op: of no time
  std::uint32_t micro_batch = no_micro_batch;
  DeviceId device{};
  std::size_t pass = no_pass;  ///< into Copies::passes
  TensorId first_output{};
  bool reads_own = false, read_by_own = false;  ///< pass; of the host's ops: the host's
  OpId last_user = no_op;                       ///< of its own pass
};

/// What an op sends when it is asked for.
struct AskedTensor {
  TensorId tensor{};
  std::map<DeviceId, std::size_t> by{};  ///< the first pass of each device that reads it
};

/// The copies of one pass on one device. The updates of all chunks of a stage are one pass.
struct DevicePass {
  Pass pass;
  DeviceId device{};
  std::vector<OpId> all{};            ///< but the host's
  std::vector<OpId> host{};           ///< what the host does for them
  std::vector<OpId> first{}, last{};  ///< of `all`: without inputs from, or readers in, the pass
  std::vector<OpId> awaited{};        ///< the host waits for them before it goes on
};

struct Copies {
  OpGraphBuilder builder{};
  IdVector<OpId, Copy> copies{};
  std::vector<DevicePass> passes{};     ///< by device, in the order they run in
  std::map<OpId, AskedTensor> asked{};  ///< by the op that sends

  /// An op of no time that all of `after` wait for, and that waits for all of `before`.
  void gate(DeviceId device, const std::vector<OpId>& before, const std::vector<OpId>& after);
  OpId add_order(DeviceId device);
};

/// What the passes are of.
struct Ordered {
  const Problem& problem;
  const Placement& placement;
  const Stages& stages;
  const Chunks& chunks;
  const Schedule& schedule;
};

/// Makes passes run one after the other on each device, as a whole:
/// - Collectives of the update pass wait for what they send alone: buckets of gradients go beside
///   the last backward passes.
/// - An all_gather of weights is one ahead of the ops that read the last ones, also where these are
///   of the pass before.
/// - What is asked for leaves when the one device that reads it has ended the pass before.
/// - Its sender holds it until it receives next, or its last pass but the update has ended.
/// - The host does not wait for the device: its ops follow those of the pass before.
/// - A backward pass without ops ends with the backward passes of the chunks that read from it.
/// - A forward pass is no further ahead than the schedule says.
/// - With ReadyOrder::program each lane of a device runs its ops in the order of their ids, pass by
///   pass.
void keep_order(Copies& copies, const Ordered& of);

}  // namespace baechi::pipeline
