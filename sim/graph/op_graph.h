/// The operator graph: a DAG of the ops of a training step, which write and read tensors.
/// Immutable; edges in CSR form in both directions.
#pragma once
#include <unordered_map>

#include "sim/graph/collective.h"

namespace baechi {

enum class Phase : std::uint8_t { forward, backward, update };
constexpr auto names_of(Phase) { return enumerators<Phase::update>(); }

/// A colocation group: its ops share a device. The groups of a graph are 1, 2, ...
enum class GroupId : std::uint32_t {};
inline constexpr GroupId no_group{0};
inline constexpr OpId no_op{~std::uint32_t{0}};
inline constexpr TensorId no_tensor{~std::uint32_t{0}};
/// A missing time, in the graph and its builder.
inline constexpr Duration not_given{-1};

/// A lane of a device runs one op at a time, concurrently with the other lanes, like a CUDA stream.
/// OpGraph::lanes() has the names.
enum class LaneKind : std::uint8_t {};
inline constexpr LaneKind compute_lane{0};
inline constexpr std::size_t most_lanes = 64;

/// The properties of an op that the engine and the placers need. OpGraph::name() has its name.
struct Op {
  Duration compute{};        ///< time on the first of OpGraph::device_kinds()
  Bytes persistent{};        ///< weights and optimiser state: held for the whole step
  Bytes temporary{};         ///< workspace: held while the op runs
  GroupId group = no_group;  ///< colocation group
  std::uint32_t kind = 0;    ///< index into OpGraph::kinds(): "Conv2D", "MatMul", ...
  OpId forward = no_op;      ///< for a backward op, the op that it differentiates
  Phase phase = Phase::forward;
  LaneKind lane = compute_lane;
};

/// The dtype in which a kernel computes.
enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8, fp4 };
constexpr auto names_of(Precision) { return enumerators<Precision::fp4>(); }

/// Kinds of kernels that multiply matrices. `product` is a GEMM, which may have to convert its left
/// matrix first; a `prepared_product` is a GEMM whose operands other kernels have converted.
enum class MatrixKind : std::uint8_t {
  none,
  product,
  prepared_product,
  attention,
  causal_attention
};
constexpr auto names_of(MatrixKind) { return enumerators<MatrixKind::causal_attention>(); }

/// The shape of `count` GEMMs [rows, inner] x [inner, columns]. Fused attention has two for each
/// head of each sample: rows are queries, inner keys, and columns the head size. One of the four
/// numbers may be 0: it grows with the batch and follows from the kernel's flops.
struct MatrixShape {
  MatrixKind kind = MatrixKind::none;
  std::int64_t count = 0, rows = 0, columns = 0, inner = 0;

  /// Replaces the number that is 0 by the one that gives `flops`, at least 1.
  MatrixShape filled(std::int64_t flops) const;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

/// The work of one kernel, or of all kernels of an op, independent of the device. A roofline model
/// computes times from it.
struct OpWork {
  std::int64_t flops = 0;  ///< floating-point operations; a multiply-add is two
  Bytes traffic{};         ///< bytes read from and written to device memory
  Precision precision = Precision::fp32;
  Bytes weights{};  ///< the part of `traffic` for weights and their gradients, independent of the
                    ///< batch
  MatrixShape matrix{};

  bool none() const { return flops == 0 && traffic == Bytes{}; }
  friend bool operator==(const OpWork&, const OpWork&) = default;
};

struct Tensor {
  Bytes size{};
  OpId producer{};
  bool control = false;  ///< a control edge: `size` bytes are sent, but they take no memory
  /// The tensor aliases memory that is counted elsewhere on its producer's device: a weight that is
  /// read, or memory that its one reader overwrites. Copies on other devices take memory.
  bool reference = false;
  bool fixed_size = false;  ///< independent of the dtype: masks, indices, 32-bit statistics

  Bytes held() const { return control || reference ? Bytes{} : size; }  ///< where it is produced
  Bytes copied() const { return control ? Bytes{} : size; }             ///< where it is received
};

/// `dst` reads `tensor`, which `src` writes. A tensor with two readers has two edges, and one
/// transfer can serve all readers on a device.
struct Edge {
  OpId src{};
  OpId dst{};
  TensorId tensor{};
};

/// The micro-batch of an op, set by the transform `micro_batches`.
struct MicroBatchCopy {
  OpId first{};              ///< the op of the first micro-batch; the op itself if it is no copy
  std::uint32_t number = 0;  ///< the index of the micro-batch
};

class OpGraph {
 public:
  std::size_t num_ops() const { return ops_.size(); }
  std::size_t num_edges() const { return edges_.size(); }
  std::size_t num_tensors() const { return tensors_.size(); }
  std::size_t num_groups() const { return group_names_.size(); }

  /// The ids of all ops. Their order is topological: src < dst for every edge.
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
  /// The src of each of in_edges(v), in the same order; contiguous for longest-path computations.
  std::span<const OpId> predecessors(OpId v) const {
    return {in_src_.data() + in_begin_[index(v)], in_src_.data() + in_begin_[index(v) + 1]};
  }
  /// The tensors that `v` writes, with or without readers. At most one is a control tensor; it is
  /// the last.
  auto outputs(OpId v) const {
    return id_range<TensorId>(outputs_begin_[index(v)], outputs_begin_[index(v) + 1]);
  }
  /// The edges that read `t`.
  auto readers(TensorId t) const {
    return id_range<EdgeId>(readers_begin_[index(t)], readers_begin_[index(t) + 1]);
  }
  /// The position of `e` in the order in which edges were added to the builder: file order.
  std::uint32_t added(EdgeId e) const {
    return added_.empty() ? static_cast<std::uint32_t>(index(e)) : added_[index(e)];
  }

  std::string_view name(OpId v) const {  ///< unique in the graph
    return std::string_view(name_text_)
        .substr(name_begin_[index(v)], name_begin_[index(v) + 1] - name_begin_[index(v)]);
  }
  std::string_view kind(OpId v) const { return kinds_[ops_[v].kind]; }
  const std::vector<std::string>& kinds() const { return kinds_; }
  /// The path of the module of `v`, as PyTorch names modules: "layer1.0.conv1"; "" if unknown.
  std::string_view module(OpId v) const {
    return module_.empty() ? std::string_view() : modules_[module_[index(v)]];
  }
  bool has_modules() const { return !module_.empty(); }
  /// The part of Op::persistent that is a cache of keys and values, not weights.
  Bytes cache(OpId v) const { return cache_.empty() ? Bytes{} : cache_[v]; }
  /// The micro-batch of `v`. Copies with their own weights (towers) are not copies here.
  MicroBatchCopy micro_batch(OpId v) const {
    return micro_batch_.empty() ? MicroBatchCopy{v} : micro_batch_[v];
  }
  /// The op with the name `wanted`. O(num_ops()).
  std::optional<OpId> find(std::string_view wanted) const;

  /// The shortest of the labels that were merged into the group; ties: the first in alphabetical
  /// order. Unique in the graph.
  const std::string& group_name(GroupId g) const { return group_names_[index(g) - 1]; }
  std::span<const OpId> members(GroupId g) const {  ///< ascending, never empty
    return {members_.data() + members_begin_[index(g) - 1],
            members_.data() + members_begin_[index(g)]};
  }

  /// The device types for which the graph has op times; Op::compute is the time on the first. If
  /// empty, each op has one time for all devices.
  const std::vector<std::string>& device_kinds() const { return device_kinds_; }
  /// The time of `v` on device_kinds()[kind]; nothing if it was not measured there.
  std::optional<Duration> compute(OpId v, std::size_t kind) const;
  /// The measured time of a transfer of `t`, which replaces the link model; nothing if not
  /// measured.
  std::optional<Duration> measured_transfer(TensorId t) const {
    if (transfers_.empty() || transfers_[t] < Duration::zero()) return std::nullopt;
    return transfers_[t];
  }
  /// Whether the graph states the work of any op.
  bool has_work() const { return !kernels_.empty(); }
  /// The kernels that `v` runs in sequence; empty if `v` runs on the host only.
  std::span<const OpWork> kernels(OpId v) const {
    if (kernels_.empty()) return {};
    return {kernels_.data() + kernels_begin_[index(v)],
            kernels_.data() + kernels_begin_[index(v) + 1]};
  }
  OpWork work(OpId v) const;  ///< the sum of its kernels, in the dtype of the first

  /// The names of the lanes that the ops are in; the first is "compute".
  const std::vector<std::string>& lanes() const { return lanes_; }
  LaneKind lane(OpId v) const { return ops_[v].lane; }
  /// Whether all ops are in lane "compute" and none is a member of a collective.
  bool plain() const { return lanes_.size() == 1 && collectives_.empty(); }
  /// Sorted by first member.
  const IdVector<CollectiveId, Collective>& collectives() const { return collectives_; }
  /// The collective that `v` is a member of, or no_collective.
  CollectiveId collective_of(OpId v) const;

  /// The graph with the times `compute` [num_ops] on devices of `kind`, which replace any earlier
  /// ones. In a graph without device types they replace the one time per op.
  OpGraph with_times(std::string_view kind, const IdVector<OpId, Duration>& compute) &&;
  OpGraph with_times(std::string_view kind, const IdVector<OpId, Duration>& compute) const& {
    return OpGraph(*this).with_times(kind, compute);
  }
  /// The graph with other groups; op ids are kept. `group`: [num_ops], no_group for none;
  /// names[g - 1] is the name of group g. Empty groups are dropped, and the others renumbered in
  /// the order of their first members. Duplicate names get a suffix "@2", "@3", ...
  OpGraph with_groups(const IdVector<OpId, GroupId>& group, std::span<const std::string> names) &&;
  OpGraph with_groups(const IdVector<OpId, GroupId>& group,
                      std::span<const std::string> names) const& {
    return OpGraph(*this).with_groups(group, names);
  }
  OpGraph without_groups() const {
    return with_groups(IdVector<OpId, GroupId>(num_ops(), no_group), {});
  }
  /// The graph, ids kept, with free control edges: 0 bytes, no time, no channel.
  OpGraph with_free_controls() &&;
  OpGraph with_free_controls() const& { return OpGraph(*this).with_free_controls(); }
  bool free_controls() const { return free_controls_; }
  /// Whether `t` is a free control tensor: known on all devices at the end of its producer.
  bool instant(TensorId t) const { return free_controls_ && tensors_[t].control; }
  /// The graph with the measured transfer times `transfer` [num_tensors]; < 0: not measured.
  OpGraph with_transfers(IdVector<TensorId, Duration> transfer) const;
  /// The graph where ops of `waits` [num_ops] hold no persistent bytes but their cache.
  OpGraph without_weights(const IdVector<OpId, bool>& waits) const;

 private:
  friend class OpGraphBuilder;
  IdVector<OpId, Op> ops_;
  IdVector<TensorId, Tensor> tensors_;
  IdVector<EdgeId, Edge> edges_;
  std::vector<std::uint32_t> out_begin_{0};      // [num_ops + 1], into edges_
  std::vector<EdgeId> in_;                       // [num_edges], sorted by (dst, id)
  std::vector<OpId> in_src_;                     // [num_edges], the src of each of in_
  std::vector<std::uint32_t> in_begin_{0};       // [num_ops + 1], into in_
  std::vector<std::uint32_t> outputs_begin_{0};  // [num_ops + 1], into tensors_
  std::vector<std::uint32_t> readers_begin_{0};  // [num_tensors + 1], into edges_
  std::vector<std::uint32_t> added_;             // [num_edges], or empty: identity
  std::string name_text_;
  std::vector<std::size_t> name_begin_{0};  // [num_ops + 1], into name_text_
  std::vector<std::string> kinds_;
  std::vector<std::string> modules_;             // the first is ""
  std::vector<std::uint32_t> module_;            // empty, or [num_ops], into modules_
  IdVector<OpId, Bytes> cache_;                  // empty, or [num_ops]
  IdVector<OpId, MicroBatchCopy> micro_batch_;   // empty, or [num_ops]
  std::vector<std::string> group_names_;         // [num_groups], of group 1, 2, ...
  std::vector<OpId> members_;                    // sorted by (group, id)
  std::vector<std::uint32_t> members_begin_{0};  // [num_groups + 1], into members_
  std::vector<std::string> device_kinds_;
  std::vector<IdVector<OpId, Duration>> compute_;  // per device type but the first; < 0: none
  IdVector<TensorId, Duration> transfers_;         // empty, or [num_tensors]; < 0: not measured
  std::vector<OpWork> kernels_;                    // by op
  std::vector<std::uint32_t> kernels_begin_;       // empty, or [num_ops + 1], into kernels_
  std::vector<std::string> lanes_{"compute"};
  IdVector<CollectiveId, Collective> collectives_;  // by their first members
  bool free_controls_ = false;
};

/// The properties of an op for add_op(); see Op.
struct OpSpec {
  std::string_view name;
  std::string_view kind{};
  Duration compute{};
  Bytes persistent{};
  Bytes temporary{};
  Phase phase = Phase::forward;
  std::string_view lane = "compute";
  std::string_view module{};  ///< OpGraph::module() explains it
  Bytes cache{};              ///< OpGraph::cache()
};

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
using TextIds = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

/// Builds an OpGraph; every importer, generator and transform uses it. The ids that the builder
/// returns are valid in the builder only: build() renumbers ops, tensors and edges.
class OpGraphBuilder {
 public:
  OpId add_op(const OpSpec& op);
  /// An op with the kind, phase, lane, module and time of `of`.
  OpId add_copy(OpId of, std::string_view name, Bytes persistent, Bytes temporary);
  /// Makes room for as many.
  void reserve(std::size_t ops, std::size_t tensors, std::size_t edges);
  TensorId add_tensor(OpId producer, Bytes size, bool reference = false);
  /// With `reference` and `fixed_size` of `like`.
  TensorId add_tensor(OpId producer, Bytes size, const Tensor& like);
  void set_fixed_size(TensorId tensor) { tensors_[tensor].fixed_size = true; }
  /// Sets the measured time of a transfer of `tensor`, which replaces the link model.
  void set_transfer(TensorId tensor, Duration time);
  /// `reader` reads `tensor`. Duplicate edges are merged.
  void add_edge(TensorId tensor, OpId reader);
  /// Control edge: `after` waits for `before`, without data. 4 bytes are sent (as in Baechi's
  /// importer).
  void add_control(OpId before, OpId after);
  /// Puts `op` into the colocation group `label`. Labels with a common op are one group.
  void colocate(OpId op, std::string_view label);
  void set_forward(OpId backward, OpId forward);
  /// Requires `copy.first` != `op`.
  void set_micro_batch(OpId op, MicroBatchCopy copy);
  /// Sets the time of `op` on devices of type `kind`; no `time`: not measured. The type of the
  /// first call is that of OpSpec::compute. An op without calls has its one time on all types; an
  /// op with calls was not measured on the types without one.
  void set_compute(OpId op, std::string_view kind, std::optional<Duration> time);
  /// Adds a kernel to `op`; ignored if `work` has neither flops nor traffic.
  void add_kernel(OpId op, OpWork work);
  /// Makes `members` one collective, in the order of its ranks; `collective` has everything but the
  /// members. Members in lane "compute" move to lane "comm".
  void add_collective(const Collective& collective, std::span<const OpId> members);

  std::size_t num_ops() const { return ops_.size(); }
  std::string_view name(OpId v) const;
  /// The first op that was added with the name `wanted`.
  std::optional<OpId> find(std::string_view wanted);
  /// Promises that names are unique, so that build() does not check.
  void names_are_unique() { unique_names_ = true; }

  /// Renumbers ops in topological order; among ready ops, the one added first comes first. The
  /// members of a collective are adjacent, and it is ready when all of them are. `renumbered`, if
  /// given, receives the new id of each op, in the order in which ops were added.
  /// Throws InputError if two ops have the same name; if there is a cycle, where a collective
  /// counts as one op (the message lists the whole cycle); if an op is a member twice, or a member
  /// has a time of its own; or if the sums of times or sizes do not fit in 62 bits.
  OpGraph build(IdVector<OpId, OpId>* renumbered = nullptr) &&;

 private:
  void index_names();
  void check_names();
  void check_sums() const;
  void check_collectives() const;
  OpId add(std::string_view name, const Op& op);
  LaneKind intern_lane(std::string_view name);
  void set_module(OpId v, std::string_view module);
  /// Per op the first member of its collective, or the op itself; empty without collectives.
  IdVector<OpId, OpId> first_members() const;
  IdVector<OpId, OpId> topological_ids() const;
  void refuse_cycle(const std::vector<Edge>& edges) const;
  void make_groups(OpGraph& graph, const IdVector<OpId, OpId>& new_id) const;

  struct MembersOf {
    Collective collective;
    std::vector<OpId> members;
  };
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
  bool unique_names_ = false;
  std::vector<std::uint64_t> name_slots_;  // hash table: 0, or upper half of the hash, id + 1
  std::size_t indexed_ = 0;                // ops whose names are in the table
  std::vector<OpId> repeated_;             // those of them whose name an earlier op has
  IdVector<TensorId, Tensor> tensors_;
  IdVector<TensorId, Duration> transfers_;
  std::vector<std::pair<OpId, OpWork>> kernels_;
  std::vector<TensorId> control_of_;  // [num_ops or fewer], the op's control tensor or ~0
  std::vector<Edge> edges_;
  std::vector<std::string> kinds_;
  std::vector<std::string> modules_;   // the first is ""; empty if no op has a module
  std::vector<std::uint32_t> module_;  // [num_ops or fewer], into modules_
  std::vector<std::string> labels_;
  std::vector<Label> label_uses_;
  std::vector<std::pair<OpId, MicroBatchCopy>> micro_batches_;
  std::vector<std::pair<OpId, Bytes>> caches_;
  std::vector<std::string> device_kinds_;
  std::vector<KindTime> kind_times_;
  std::vector<std::string> lanes_{"compute"};
  std::vector<MembersOf> collectives_;
  TextIds kind_ids_, label_ids_, module_ids_;
};

}  // namespace baechi
