/// Builds a modified copy of a graph: transforms that keep most of a graph copy it op by op; merges
/// of ops; patterns of kinds of ops.
#pragma once
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
  void join(OpId made, OpId v) {
    if (group_[v] != no_group) grouped_.emplace_back(made, group_[v]);
  }
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

/// A list of words. A word matches every kind that contains it, case-insensitively: "norm" matches
/// LayerNorm and FusedBatchNormV3Backward. With * or ? it is a wildcard pattern of the whole kind.
class KindWords {
 public:
  explicit KindWords(std::vector<std::string> words = {}) : words_(std::move(words)) {}
  /// The option `key`: a word or a list of words; `fallback` if not given.
  static KindWords read(Options& options, const std::string& key, std::vector<std::string> fallback,
                        std::string_view help);

  /// Those of the words that are patterns, or that `others` match.
  KindWords patterns_and(const KindWords& others) const;

  bool empty() const { return words_.empty(); }
  bool describe(std::string_view kind) const;
  /// Which of the graph's kinds they match. [kinds of the graph]
  std::vector<bool> of_kinds(const OpGraph& graph) const;

 private:
  std::vector<std::string> words_;
};

/// Compute-bound kinds of ops; all others are memory-bound. A substitute for a roofline where only
/// times are known.
const KindWords& compute_bound_kinds();

/// What an op contributes to its merged op.
enum class Share : std::uint8_t {
  whole,    ///< time, memory, and its edges to other ops with Share::whole
  needs,    ///< time and memory
  memory,   ///< memory
  nothing,  ///< nothing
};

/// The fate of one op.
struct Part {
  /// Identifies the merged op, which has the leader's name, kind and position in the order. A
  /// leader is its own leader with Share::whole. no_op: the op is dropped.
  OpId leader = no_op;
  Share share = Share::whole;
};

/// The workspace of a merged op.
enum class Workspace : std::uint8_t {
  peak,     ///< peak of workspace and internal tensors while its ops run in id order
  largest,  ///< the largest workspace of its ops; internal tensors are free, as in Baechi's code
};

/// A merged op has
/// - the sums of times on every device type (no time if one of its ops has none), of persistent
///   bytes and of work;
/// - the earliest phase, the groups and the innermost common module of its Share::whole ops;
/// - as outputs the tensors that other merged ops read. The others are internal and part of its
///   workspace, unless the op is merged with no other.
/// `parts`: [num_ops]. Throws InputError if the merged ops form a cycle.
Transformed merge(const OpGraph& graph, const IdVector<OpId, Part>& parts,
                  Workspace workspace = Workspace::peak);

}  // namespace baechi
