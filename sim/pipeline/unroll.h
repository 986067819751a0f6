/// A stream of micro-batches through a placed graph, written out as one larger placed graph.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/problem/problem.h"

namespace baechi {

/// In which order devices, the stages, take up what is ready. k stages, s = 0 is the first.
enum class PipelineScheme : std::uint8_t {
  /// Forward ops only; a stage is at most three samples ahead of the next, six of the one after it,
  /// ...
  inference,
  /// All forward passes, then all backward passes, the last micro-batch first; then the update.
  /// Source: Huang et al., "GPipe", NeurIPS 2019.
  gpipe,
  /// A backward pass goes before a forward pass, and no more than k - s micro-batches are between
  /// their forward and their backward pass; as many versions of the weights; an update after each.
  /// Source: Narayanan et al., "PipeDream", SOSP 2019.
  one_forward_one_backward,
  /// The same order, two versions, and one update after the last.
  /// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021.
  two_buffered,
};

struct PipelineOptions {
  PipelineScheme scheme = PipelineScheme::gpipe;
  std::size_t micro_batches = 8;
  /// Before its backward pass a stage runs the forward pass once more, from what it received: that
  /// is all it keeps meanwhile.
  bool recompute = false;
};

/// The devices that have ops, each before those that read from it in the forward pass; where
/// devices feed each other, by their first ops.
struct Stages {
  std::vector<DeviceId> devices;
  bool in_line = true;  ///< else devices feed each other
};
Stages stages_of(const Problem& problem, const Placement& placement);

/// Weights a stage holds: 1, k - s, or 2 versions.
std::size_t weight_versions(PipelineScheme scheme, std::size_t stage, std::size_t stages);

struct Unrolled {
  OpGraph graph;
  Placement placement;          ///< with priorities: to be run with ReadyOrder::priority
  IdVector<OpId, OpId> origin;  ///< the op it is a copy of; no_op: it keeps the order only
  IdVector<OpId, std::uint32_t> micro_batch;
  IdVector<OpId, std::uint8_t> backward;       ///< 1: of the backward pass, or an update
  IdVector<TensorId, TensorId> tensor_origin;  ///< of tensors of copies
};
/// Each op once per micro-batch, weights with the first, in as many versions as the scheme keeps (a
/// version is taken for as large as all persistent bytes). A stage's backward pass of a micro-batch
/// begins when its forward pass is done; what else orders the passes are ops of no time. The
/// control dependencies of the graph are sent as data.
/// Throws InputError if a forward op reads what a later phase writes.
Unrolled unroll(const Problem& problem, const Placement& placement, const PipelineOptions& options);

/// The costs of the ops and tensors that were copied.
class UnrolledCosts final : public CostModel {
 public:
  UnrolledCosts(const CostModel& costs, const Unrolled& unrolled)
      : costs_(costs), unrolled_(unrolled) {}
  Duration compute(OpId v, DeviceId d) const override {
    const OpId origin = unrolled_.origin[v];
    return origin == no_op ? Duration{} : costs_.compute(origin, d);
  }
  Duration transfer(TensorId t, DeviceId src, DeviceId dst) const override {
    return costs_.transfer(unrolled_.tensor_origin[t], src, dst);
  }
  Duration latency(TensorId t, DeviceId src, DeviceId dst) const override {
    return costs_.latency(unrolled_.tensor_origin[t], src, dst);
  }

 private:
  const CostModel& costs_;
  const Unrolled& unrolled_;
};

}  // namespace baechi
