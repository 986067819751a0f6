/// A model as a DAG of operators that write and read tensors. Immutable once built; CSR both ways.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

enum class Phase : std::uint8_t { forward, backward, update };

/// Ops of one group share a device. 0 is no group.
enum class GroupId : std::uint32_t {};
inline constexpr GroupId no_group{0};
inline constexpr OpId no_op{~std::uint32_t{0}};

/// What the engine and the placers need of an op; names are kept apart (OpGraph::name).
struct Op {
  Duration compute{};        ///< on the graph's first device kind; forward and backward are two ops
  Bytes persistent{};        ///< weights and optimiser state: held from placement to the end
  Bytes temporary{};         ///< workspace: held while the op runs
  GroupId group = no_group;  ///< colocation
  std::uint32_t kind = 0;    ///< into OpGraph::kinds(): "Conv2D", "MatMul", ...
  OpId forward = no_op;      ///< of a backward op: the op it differentiates
  Phase phase = Phase::forward;
};

/// What a kernel, or all kernels of an op, do, whatever the device: what a roofline turns into a
/// time.
struct OpWork {
  std::int64_t flops = 0;  ///< floating-point operations; a multiply-add is two
  Bytes traffic{};         ///< read and written in device memory
  friend bool operator==(const OpWork&, const OpWork&) = default;
};

struct Tensor {
  Bytes size{};
  OpId producer{};
  bool control = false;  ///< a control dependency: it is sent as `size` bytes but takes no memory
  /// It is memory that its producer's device counts elsewhere, such as a weight that is read, or
  /// that its one reader writes over: it takes none of its own there, but a copy of it does.
  bool reference = false;

  Bytes held() const { return control || reference ? Bytes{} : size; }  ///< where it is produced
  Bytes copied() const { return control ? Bytes{} : size; }             ///< where it is received
};

/// `dst` reads `tensor`, which `src` writes. Two readers of one tensor are two edges and one
/// tensor: that is what lets a transfer be cached per (tensor, device).
struct Edge {
  OpId src{};
  OpId dst{};
  TensorId tensor{};
};

class OpGraph {
 public:
  std::size_t num_ops() const { return ops_.size(); }
  std::size_t num_edges() const { return edges_.size(); }
  std::size_t num_tensors() const { return tensors_.size(); }
  std::size_t num_groups() const { return group_names_.size(); }

  /// Ids of all ops. Their order is topological: src < dst on every edge.
  auto ops() const { return ops_.ids(); }
  auto edges() const { return edges_.ids(); }      ///< sorted by (src, tensor)
  auto tensors() const { return tensors_.ids(); }  ///< sorted by producer
  auto groups() const { return id_range<GroupId>(1, group_names_.size() + 1); }

  const Op& op(OpId v) const { return ops_[v]; }
  const Edge& edge(EdgeId e) const { return edges_[e]; }
  const Tensor& tensor(TensorId t) const { return tensors_[t]; }

  auto out_edges(OpId v) const {
    return id_range<EdgeId>(out_begin_[index(v)], out_begin_[index(v) + 1]);
  }
  std::span<const EdgeId> in_edges(OpId v) const {  ///< ascending, so sorted by src
    return {in_.data() + in_begin_[index(v)], in_.data() + in_begin_[index(v) + 1]};
  }
  /// The src of each of in_edges(v), in the same order: what a longest-path pass reads.
  std::span<const OpId> predecessors(OpId v) const {
    return {in_src_.data() + in_begin_[index(v)], in_src_.data() + in_begin_[index(v) + 1]};
  }
  /// Tensors `v` writes, read or not. A control tensor, at most one, is the last.
  auto outputs(OpId v) const {
    return id_range<TensorId>(outputs_begin_[index(v)], outputs_begin_[index(v) + 1]);
  }
  /// The edges that read `t`.
  auto readers(TensorId t) const {
    return id_range<EdgeId>(readers_begin_[index(t)], readers_begin_[index(t) + 1]);
  }
  /// Position of `e` among the edges as they were added: the order that a file lists them in.
  std::uint32_t added(EdgeId e) const {
    return added_.empty() ? static_cast<std::uint32_t>(index(e)) : added_[index(e)];
  }

  std::string_view name(OpId v) const {  ///< unique in the graph
    return std::string_view(name_text_)
        .substr(name_begin_[index(v)], name_begin_[index(v) + 1] - name_begin_[index(v)]);
  }
  std::string_view kind(OpId v) const { return kinds_[ops_[v].kind]; }
  const std::vector<std::string>& kinds() const { return kinds_; }
  /// The id of the op called `wanted`. Linear: for messages and tests, not for loops.
  std::optional<OpId> find(std::string_view wanted) const;

  /// The least, by (length, text), of the labels that were merged into the group.
  const std::string& group_name(GroupId g) const { return group_names_[index(g) - 1]; }
  std::span<const OpId> members(GroupId g) const {  ///< ascending, never empty
    return {members_.data() + members_begin_[index(g) - 1],
            members_.data() + members_begin_[index(g)]};
  }

  /// Device kinds the op times were given for; the first is the one of Op::compute. May be empty:
  /// then there is one time per op, for any device.
  const std::vector<std::string>& device_kinds() const { return device_kinds_; }
  /// Time of `v` on the `kind`-th of device_kinds(); nothing if it was not measured there.
  std::optional<Duration> compute(OpId v, std::size_t kind) const;
  /// Measured time to move `t` between two devices, used in place of the link model.
  std::optional<Duration> measured_transfer(TensorId t) const {
    if (transfers_.empty() || transfers_[t] < Duration::zero()) return std::nullopt;
    return transfers_[t];
  }
  /// Whether the graph states the work of any op.
  bool has_work() const { return !kernels_.empty(); }
  /// The kernels that `v` runs, one after the other; none of an op that only the host sees.
  std::span<const OpWork> kernels(OpId v) const {
    if (kernels_.empty()) return {};
    return {kernels_.data() + kernels_begin_[index(v)],
            kernels_.data() + kernels_begin_[index(v) + 1]};
  }
  OpWork work(OpId v) const;  ///< of all its kernels

  /// The same graph with the times `compute` [num_ops] for devices of `kind`, in place of those it
  /// had. A graph without device kinds loses its one time per op to the first kind added.
  OpGraph with_times(std::string_view kind, const IdVector<OpId, Duration>& compute) const;
  /// The same graph, ids kept, with other groups: those ops that have the same in `group`
  /// [num_ops], no_group being none. names[g - 1] is the name of group g; of a group without ops it
  /// is dropped. Groups are numbered anew, by their first members.
  OpGraph with_groups(const IdVector<OpId, GroupId>& group,
                      std::span<const std::string> names) const;
  OpGraph without_groups() const;
  /// The same graph, ids kept, with control dependencies that cost nothing: 0 bytes, no time, no
  /// channel.
  OpGraph with_free_controls() const;
  bool free_controls() const { return free_controls_; }
  /// Whether `t` is a control dependency that is known everywhere as soon as its op has ended.
  bool instant(TensorId t) const { return free_controls_ && tensors_[t].control; }
  /// The same graph with `transfer` [num_tensors] as measured transfer times; < 0: not measured.
  OpGraph with_transfers(IdVector<TensorId, Duration> transfer) const;

 private:
  friend class OpGraphBuilder;
  void set_groups(const IdVector<OpId, GroupId>& group, std::span<const std::string> names);

  IdVector<OpId, Op> ops_;
  IdVector<TensorId, Tensor> tensors_;
  IdVector<EdgeId, Edge> edges_;
  std::vector<std::uint32_t> out_begin_{0};      // [num_ops + 1], into edges_
  std::vector<EdgeId> in_;                       // [num_edges], sorted by (dst, id)
  std::vector<OpId> in_src_;                     // [num_edges], beside in_
  std::vector<std::uint32_t> in_begin_{0};       // [num_ops + 1], into in_
  std::vector<std::uint32_t> outputs_begin_{0};  // [num_ops + 1], into tensors_
  std::vector<std::uint32_t> readers_begin_{0};  // [num_tensors + 1], into edges_
  std::vector<std::uint32_t> added_;             // [num_edges], or empty: identity
  std::string name_text_;
  std::vector<std::size_t> name_begin_{0};  // [num_ops + 1], into name_text_
  std::vector<std::string> kinds_;
  std::vector<std::string> group_names_;         // of group 1, 2, ...
  std::vector<OpId> members_;                    // sorted by (group, id)
  std::vector<std::uint32_t> members_begin_{0};  // [num_groups + 1], into members_
  std::vector<std::string> device_kinds_;
  std::vector<IdVector<OpId, Duration>> compute_;  // per device kind but the first; < 0: none
  IdVector<TensorId, Duration> transfers_;         // empty, or [num_tensors]; < 0: not measured
  std::vector<OpWork> kernels_;                    // by op
  std::vector<std::uint32_t> kernels_begin_;       // empty, or [num_ops + 1], into kernels_
  bool free_controls_ = false;
};

/// How an op enters a graph.
struct OpSpec {
  std::string_view name;
  std::string_view kind{};
  Duration compute{};
  Bytes persistent{};
  Bytes temporary{};
  Phase phase = Phase::forward;
};

/// The one way to make an OpGraph: every importer, generator and transform ends in build(). Ids it
/// hands out are valid in this builder only; build() renumbers.
class OpGraphBuilder {
 public:
  OpId add_op(const OpSpec& op);
  TensorId add_tensor(OpId producer, Bytes size, bool reference = false);
  /// A measured time to move `tensor`, in place of the link model.
  void set_transfer(TensorId tensor, Duration time);
  /// `reader` reads `tensor`. Added twice, it counts once.
  void add_edge(TensorId tensor, OpId reader);
  /// `after` waits for `before` though no data passes: 4 bytes are sent (as in Baechi's importer).
  void add_control(OpId before, OpId after);
  /// `op` goes where every other op with `label` goes. Labels that share an op are one group.
  void colocate(OpId op, std::string_view label);
  void set_forward(OpId backward, OpId forward);
  /// Time of `op` on a device of `kind`. Once any op has kinds, the first kind named is the one of
  /// OpSpec::compute; an op that names none takes its one time on all. No time: `op` was not
  /// measured there, as it is for the kinds it does not name.
  void set_compute(OpId op, std::string_view kind, std::optional<Duration> time);
  /// One more kernel of `op`, if it does anything.
  void add_kernel(OpId op, OpWork work);

  std::size_t num_ops() const { return ops_.size(); }
  std::string_view name(OpId v) const;
  /// The first op that was added with the name `wanted`.
  std::optional<OpId> find(std::string_view wanted) const;

  /// The graph, ops renumbered to the topological order that keeps insertion order wherever it can
  /// (of the ready ops the first added comes first). `renumbered`, if given, receives each op's new
  /// id, in insertion order.
  /// Throws InputError on two ops of one name, a cycle, listed whole, or times or sizes that do not
  /// add up in 62 bits.
  OpGraph build(IdVector<OpId, OpId>* renumbered = nullptr) &&;

 private:
  void index_name(OpId v);
  void check_names() const;
  void check_sums() const;
  IdVector<OpId, OpId> topological_ids() const;
  void make_groups(OpGraph& graph, const IdVector<OpId, OpId>& new_id) const;

  struct KindTime {
    OpId op;
    std::uint32_t kind;
    Duration time;
  };
  struct Label {
    OpId op;
    std::uint32_t label;
  };

  IdVector<OpId, Op> ops_;
  std::string name_text_;
  std::vector<std::size_t> name_begin_{0};
  std::vector<std::uint64_t> name_slots_;  // hash table: 0, or upper half of the hash, id + 1
  std::vector<OpId> repeated_;             // ops whose name another had
  IdVector<TensorId, Tensor> tensors_;
  IdVector<TensorId, Duration> transfers_;
  std::vector<std::pair<OpId, OpWork>> kernels_;
  std::vector<TensorId> control_of_;  // [num_ops or fewer], the op's control tensor or ~0
  std::vector<Edge> edges_;
  std::vector<std::string> kinds_;
  std::vector<std::string> labels_;
  std::vector<Label> label_uses_;
  std::vector<std::string> device_kinds_;
  std::vector<KindTime> kind_times_;
  std::unordered_map<std::string, std::uint32_t> kind_ids_, label_ids_;  // text -> position
};

}  // namespace baechi
