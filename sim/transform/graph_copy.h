/// A copy of a graph in the making: a transform that keeps most of a graph copies it op by op, and
/// adds or changes the rest.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sim/transform/transform.h"

namespace baechi {

/// What stands before the number of a copy in its name: one more @ than any name has.
std::string copy_mark(const OpGraph& graph);

/// Ids of copies are builder()'s until built() maps them to the new graph.
class GraphCopy {
 public:
  explicit GraphCopy(const OpGraph& graph);  ///< `graph` outlives this

  OpGraphBuilder& builder() { return builder_; }

  /// The properties of an op without its times on kinds of devices: for add(), with changes.
  OpSpec spec(OpId v) const;
  /// The time of a copy, from the time of the op; nothing: the copy's kernels will say.
  using Timing = std::function<std::optional<Duration>(Duration, std::size_t kind)>;
  /// A copy of `v` with the properties `spec`, in the group of `v`, with the times of `v` on each
  /// kind of device, changed by `timing` if given (kind 0 also stands for the one time per op).
  /// Without kernels and outputs. The first copy of an op stands for it.
  OpId add(OpId v, const OpSpec& spec, const Timing& timing = {});
  /// The first copy of `v`; no_op if there is none.
  OpId copy_of(OpId v) const { return copy_[v]; }
  /// Puts an op of builder() into the group of `v`, if that is in one.
  void join(OpId made, OpId v);
  /// The same; makes a group of the two, named after `v`, if that is in none. `v` has a copy.
  void colocate(OpId made, OpId v);
  /// Gives `copy` the kernels of `v`, changed by `change` if given.
  void add_kernels(OpId v, OpId copy, const std::function<OpWork(OpWork)>& change = {});
  /// An output of `copy` like `t`, but of `size` bytes; a measured transfer takes time in
  /// proportion. Not for control tensors. `added`: it is added to memory that is counted elsewhere,
  /// so that it is a reference.
  TensorId add_tensor(TensorId t, OpId copy, Bytes size, bool added = false);

  /// A copy of every op with kernels, outputs and edges. `timing` as add() has it, with the op.
  void add_all(const std::function<std::optional<Duration>(OpId, Duration)>& timing = {});

  /// The edges of `graph` between first copies. `tensor` maps the tensors; control edges stay
  /// control edges. `keep`: false leaves an edge out.
  void add_edges(const IdVector<TensorId, TensorId>& tensor,
                 const std::function<bool(const Edge&)>& keep = {});

  /// Gives each collective the bytes that `bytes` returns; without this call they keep their bytes.
  void change_collectives(std::function<Bytes(const Collective&)> bytes) {
    collective_bytes_ = std::move(bytes);
  }
  /// Ops that meet in a collective are plain ops in the copy.
  void leave_out_collectives() { collectives_ = false; }

  /// The graph, once Op::forward and collectives are copied, too. Collectives are those of first
  /// copies, unless they are left out. Stands-for of an op without a copy is no_op. `renumbered`,
  /// if given, receives the new id of each op of builder().
  Transformed built(IdVector<OpId, OpId>* renumbered = nullptr) &&;

 private:
  const OpGraph& graph_;
  OpGraphBuilder builder_;
  IdVector<OpId, OpId> copy_;      // [num_ops of graph_]
  IdVector<OpId, GroupId> group_;  // of the op [num_ops of graph_], with new ones
  std::vector<std::string> group_names_;
  std::vector<std::pair<OpId, GroupId>> grouped_;  // ops of the builder
  std::function<Bytes(const Collective&)> collective_bytes_;
  bool collectives_ = true;
};

}  // namespace baechi
