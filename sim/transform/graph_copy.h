/// Builds a modified copy of a graph: transforms that keep most of a graph copy it op by op.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sim/transform/transform.h"

namespace baechi {

/// The separator before the number of a copy in its name: a run of @ that is in no name of `graph`.
std::string copy_mark(const OpGraph& graph);

/// The properties of an op, to change and pass on, without its times by device type.
OpSpec spec_of(const OpGraph& graph, OpId v);

/// Ids of copies are those of builder() until built() maps them to the new graph.
class GraphCopy {
 public:
  explicit GraphCopy(const OpGraph& graph);  ///< `graph` outlives this

  OpGraphBuilder& builder() { return builder_; }

  OpSpec spec(OpId v) const { return spec_of(graph_, v); }
  /// The time of a copy, from the time of the op; nothing: it follows from the copy's kernels.
  using Timing = std::function<std::optional<Duration>(Duration, std::size_t kind)>;
  /// A copy of `v` with the properties `spec`, in the group of `v`, with the times of `v` on each
  /// device type, changed by `timing` if given (kind 0 is also the one time per op). Without
  /// kernels and outputs. The first copy of an op is its mapped op.
  OpId add(OpId v, const OpSpec& spec, const Timing& timing = {});
  /// The first copy of `v`; no_op if there is none.
  OpId copy_of(OpId v) const { return copy_[v]; }
  /// Puts an op of builder() into the group of `v`, if any.
  void join(OpId made, OpId v);
  /// join(), with a new group named after `v` if `v` has none. `v` has a copy.
  void colocate(OpId made, OpId v);
  /// Gives `copy` the kernels of `v`, changed by `change` if given.
  void add_kernels(OpId v, OpId copy, const std::function<OpWork(OpWork)>& change = {});
  /// An output of `copy` like `t`, but of `size` bytes; a measured transfer time is scaled. Not for
  /// control tensors. `added`: it is accumulated into memory that is counted elsewhere, hence a
  /// reference.
  TensorId add_tensor(TensorId t, OpId copy, Bytes size, bool added = false);

  /// add() with kernels and outputs, which `tensors` [num_tensors] receives.
  OpId add_whole(OpId v, IdVector<TensorId, TensorId>& tensors, const Timing& timing = {});
  /// Copies every op with kernels, outputs and edges. `timing`: as in add(), with the op.
  void add_all(const std::function<std::optional<Duration>(OpId, Duration)>& timing = {});

  /// Copies the edges between first copies. `tensor` maps the tensors. Edges for which `keep` is
  /// false are omitted.
  void add_edges(const IdVector<TensorId, TensorId>& tensor,
                 const std::function<bool(const Edge&)>& keep = {});

  /// Sets the bytes of each collective.
  void change_collectives(std::function<Bytes(const Collective&)> bytes) {
    collective_bytes_ = std::move(bytes);
  }
  /// Members of collectives become plain ops.
  void leave_out_collectives() { collectives_ = false; }

  /// Copies Op::forward, micro-batches and collectives of first copies, and builds the graph. The
  /// mapped op of an op without a copy is no_op. `renumbered`, if given, receives the new id of
  /// each op of builder().
  Transformed built(IdVector<OpId, OpId>* renumbered = nullptr) &&;
  /// built(), with the devices of the ops of builder().
  PlacedStep placed(const IdVector<OpId, DeviceId>& device) && {
    IdVector<OpId, OpId> renumbered;
    OpGraph graph = std::move(*this).built(&renumbered).graph;
    return placed_step(std::move(graph), renumbered, device);
  }

 private:
  const OpGraph& graph_;
  OpGraphBuilder builder_;
  IdVector<OpId, OpId> copy_;      // [num_ops of graph_]
  IdVector<OpId, GroupId> group_;  // [num_ops of graph_], including new groups
  std::vector<std::string> group_names_;
  std::vector<std::pair<OpId, GroupId>> grouped_;  // ops of the builder
  std::function<Bytes(const Collective&)> collective_bytes_;
  bool collectives_ = true;
};

}  // namespace baechi
