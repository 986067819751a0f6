#include "sim/transform/graph_copy.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

/// Applies activation checkpointing to one graph.
class Recomputing {
 public:
  /// `from_host`: dropped tensors are loaded from the host instead of recomputed.
  Recomputing(const OpGraph& graph, Segments segments, const std::vector<bool>& keep,
              bool from_host)
      : graph_(graph),
        segment_(std::move(segments)),
        from_host_(from_host),
        copy_(graph),
        again_(graph.num_ops(), no_op),
        before_(graph.num_ops()) {
    for (const OpId v : graph.ops())
      if (keep[graph.op(v).kind]) kept_.insert(v);
    for (const Collective& c : graph.collectives()) keep_or_drop(c);
  }

  Transformed run() && {
    find_needed();
    find_gates();
    IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
    IdVector<TensorId, TensorId> tensors_again(graph_.num_tensors());
    for (const OpId v : graph_.ops()) {
      for (const OpId u : before_[v]) add_again(u, tensors_again);
      copy_.add_whole(v, tensors);
    }
    // Backward ops read recomputed tensors; all other edges are unchanged.
    copy_.add_edges(tensors, [&](const Edge& e) { return !reads_again(e); });
    for (const OpId v : graph_.ops()) {
      for (const EdgeId e : graph_.out_edges(v)) {
        const Edge& edge = graph_.edge(e);
        if (reads_again(edge))
          copy_.builder().add_edge(tensors_again[edge.tensor], copy_.copy_of(edge.dst));
      }
      if (again_[v] != no_op) add_inputs(v, tensors, tensors_again);
    }
    for (const Collective& c : graph_.collectives()) {
      if (from_host_) break;
      std::vector<OpId> members;
      for (const OpId v : c.member_ids()) members.push_back(again_[v]);
      if (members.front() != no_op) copy_.builder().add_collective(c, members);
    }
    return std::move(copy_).built();
  }

 private:
  /// The members of a collective are recomputed all or none.
  void keep_or_drop(const Collective& c) {
    const auto members = c.member_ids();
    const bool together = std::ranges::all_of(
        members, [&](OpId v) { return segment_[v] == segment_[c.first] && !kept_.contains(v); });
    if (!together) kept_.insert(members.begin(), members.end());
  }

  bool is_forward(OpId v) const { return graph_.op(v).phase == Phase::forward; }

  /// Whether `t` is dropped: after its segment only backward ops read it.
  bool is_dropped(TensorId t) const {
    return is_inside(t) && std::ranges::any_of(graph_.readers(t), [&](EdgeId e) {
             return !is_forward(graph_.edge(e).dst);
           });
  }
  /// Whether only its own segment and backward ops read `t`, so that recomputed ops read a
  /// recomputed `t`. References, such as a weight that is read, are always available, except those
  /// that a collective overwrites.
  bool is_inside(TensorId t) const {
    const Tensor& tensor = graph_.tensor(t);
    const std::uint32_t segment = segment_[tensor.producer];
    if (segment == no_segment || tensor.control || kept_.contains(tensor.producer) ||
        (tensor.reference && !is_overwritten(t)))
      return false;
    return std::ranges::all_of(graph_.readers(t), [&](EdgeId e) {
      const OpId reader = graph_.edge(e).dst;
      return graph_.op(reader).phase == Phase::backward || segment_[reader] == segment;
    });
  }
  bool is_overwritten(TensorId t) const {
    return std::ranges::all_of(graph_.readers(t), [&](EdgeId e) {
      return graph_.collective_of(graph_.edge(e).dst) != no_collective;
    });
  }
  bool reads_again(const Edge& e) const { return !is_forward(e.dst) && is_dropped(e.tensor); }

  /// Finds the ops to be recomputed, and for each the first backward op that needs it. The new
  /// edges close no cycle, because ids are topological: that backward op's id is above those of the
  /// inputs.
  void find_needed() {
    first_use_ = IdVector<OpId, OpId>(graph_.num_ops(), no_op);
    for (std::size_t i = graph_.num_ops(); i-- > 0;) {
      const OpId v{static_cast<std::uint32_t>(i)};
      if (segment_[v] == no_segment || kept_.contains(v)) continue;
      OpId& use = first_use_[v];
      for (const TensorId t : graph_.outputs(v)) {
        if (graph_.tensor(t).control) continue;
        const bool dropped = is_dropped(t), inside = is_inside(t);
        for (const EdgeId e : graph_.readers(t)) {
          const OpId reader = graph_.edge(e).dst;
          if (dropped && !is_forward(reader)) use = std::min(use, reader);
          if (inside && is_forward(reader)) use = std::min(use, first_use_[reader]);
        }
      }
      const CollectiveId c = graph_.collective_of(v);
      if (c == no_collective)
        run_again(v);
      else if (graph_.collectives()[c].first == v)
        run_again_together(graph_.collectives()[c]);
    }
  }
  void run_again(OpId v) {
    const OpId use = first_use_[v];
    if (use != no_op) before_[use].insert(before_[use].begin(), v);
  }
  void run_again_together(const Collective& c) {
    OpId use = no_op;
    for (const OpId v : c.member_ids()) use = std::min(use, first_use_[v]);
    std::size_t at = 0;
    for (const OpId v : c.member_ids()) {
      first_use_[v] = use;
      if (use != no_op)
        before_[use].insert(before_[use].begin() + static_cast<std::ptrdiff_t>(at++), v);
    }
  }

  /// For each segment: the gradients from outside, available before its first backward op, on which
  /// its backward ops wait.
  void find_gates() {
    for (const OpId v : graph_.ops()) {
      if (first_use_[v] == no_op) continue;
      for (const TensorId t : graph_.outputs(v))
        for (const EdgeId e : graph_.readers(t))
          if (reads_again(graph_.edge(e))) backward_[segment_[v]].insert(graph_.edge(e).dst);
    }
    for (const OpId b : graph_.ops()) {
      const OpId f = graph_.op(b).forward;
      if (graph_.op(b).phase != Phase::backward || f == no_op || segment_[f] == no_segment)
        continue;
      const auto of_segment = backward_.find(segment_[f]);
      if (of_segment != backward_.end()) of_segment->second.insert(b);
    }
    for (const auto& [segment, ops] : backward_) {
      Gate& gate = gates_[segment];
      const OpId first = *ops.begin();
      for (const OpId b : ops) {
        for (const EdgeId e : graph_.in_edges(b)) {
          const OpId src = graph_.edge(e).src;
          if (!is_forward(src) && !ops.contains(src) && src < first) gate.gradients.insert(e);
        }
      }
      for (const OpId v : graph_.ops())
        if (v < first && is_forward(v) && segment_[v] == segment) gate.last_forward = v;
    }
  }

  void add_again(OpId v, IdVector<TensorId, TensorId>& tensors) {
    OpSpec spec = copy_.spec(v);
    const std::string name = fmt::format("{}/again", graph_.name(v));
    spec.name = name;
    spec.phase = Phase::backward;
    spec.persistent = {};
    if (from_host_) spec.temporary = {};
    again_[v] = copy_.add(
        v, spec, [&](Duration time, std::size_t) { return from_host_ ? Duration::zero() : time; });
    if (!from_host_) copy_.add_kernels(v, again_[v]);
    copy_.builder().set_forward(again_[v], copy_.copy_of(v));
    if (graph_.op(v).persistent > Bytes{}) copy_.colocate(again_[v], v);
    for (const TensorId t : graph_.outputs(v))
      if (is_dropped(t) || is_inside(t))
        tensors[t] = copy_.add_tensor(t, again_[v], graph_.tensor(t).size);
  }

  /// Adds the inputs of the recomputed `v`: recomputed or kept tensors. The first recomputed ops of
  /// a segment wait for the gradient that enters it.
  void add_inputs(OpId v, const IdVector<TensorId, TensorId>& tensors,
                  const IdVector<TensorId, TensorId>& tensors_again) {
    bool first = true;
    for (const EdgeId e : graph_.in_edges(v)) {
      const Edge& edge = graph_.edge(e);
      if (graph_.tensor(edge.tensor).control) {
        copy_.builder().add_control(copy_.copy_of(edge.src), again_[v]);
      } else if (is_inside(edge.tensor) && again_[edge.src] != no_op) {
        copy_.builder().add_edge(tensors_again[edge.tensor], again_[v]);
        first = false;
      } else {
        copy_.builder().add_edge(tensors[edge.tensor], again_[v]);
      }
    }
    if (!first) return;
    const Gate& gate = gates_.at(segment_[v]);
    for (const EdgeId e : gate.gradients) {
      const Edge& edge = graph_.edge(e);
      if (graph_.tensor(edge.tensor).control)
        copy_.builder().add_control(copy_.copy_of(edge.src), again_[v]);
      else
        copy_.builder().add_edge(tensors[edge.tensor], again_[v]);
    }
    if (gate.gradients.empty() && gate.last_forward != no_op)
      copy_.builder().add_control(copy_.copy_of(gate.last_forward), again_[v]);
  }

  struct Gate {
    std::set<EdgeId> gradients{};  // that enter the segment
    OpId last_forward = no_op;     // used if there are none, in the last segment
  };

  const OpGraph& graph_;
  Segments segment_;
  bool from_host_;
  GraphCopy copy_;
  IdVector<OpId, OpId> again_;  // [num_ops] the recomputed op, in the builder; or no_op
  IdVector<OpId, std::vector<OpId>> before_;  // [num_ops] ops to recompute just before this one
  IdVector<OpId, OpId> first_use_;  // [num_ops] first backward user; no_op: not recomputed
  std::set<OpId> kept_;
  std::map<std::uint32_t, std::set<OpId>> backward_;  // by segment, ops of its backward pass
  std::map<std::uint32_t, Gate> gates_;
};

/// Activation checkpointing: of each segment of the forward pass only the tensors that later
/// segments read are kept. Tensors that only the backward pass reads are dropped and recomputed, by
/// copies of the segment's ops in phase backward and the op's group, once the gradient that enters
/// the segment is available. An op is recomputed only if a dropped tensor depends on it. With
/// `from_host` the same tensors are dropped and loaded back (Transformer Engine, cpu_offload.py),
/// and the copies of the ops take no time. Source: Chen et al., "Training deep nets with sublinear
/// memory cost", 2016; `keep`: Korthikanti et al., "Reducing activation recomputation in large
/// transformer models", MLSys 2023.
class Recompute final : public Transform {
 public:
  explicit Recompute(Options& o)
      : keep_(KindWords::read(o, "keep", {}, "kinds of ops whose outputs are always kept")),
        last_(o.get("last", true, "also in the last segment, whose backward pass begins at once")),
        from_host_(o.get("from_host", false,
                         "offload instead of recompute: dropped tensors are loaded from host "
                         "memory, fully overlapped, in no time")) {
    const std::string segments = o.get("segments", "layer",
                                       "layer: ops whose names are equal up to the first part with "
                                       "a number; or N parts that write about equal bytes");
    if (segments != "layer") {
      const auto count = parse_number<std::uint32_t>(segments);
      if (!count || *count == 0)
        o.mistake("segments",
                  fmt::format("'{}' is neither layer nor a whole number from 1", segments));
      count_ = count.value_or(1);
    }
    const Options::Value* names =
        o.raw("names", "[pattern, ...]: instead, one segment per pattern of forward op names");
    if (names == nullptr) return;
    if (!names->text.empty()) names_.push_back(names->text);
    for (const auto& [key, pattern] : names->children) {
      if (!key.empty() || pattern.text.empty()) o.mistake("names", "not a list of patterns");
      names_.push_back(pattern.text);
    }
  }

  Transformed apply(const OpGraph& graph) const override {
    Segments segments = !names_.empty() ? segments_by_names(graph, names_)
                        : count_ > 0    ? segments_by_bytes(graph, count_)
                                        : segments_by_layer(graph);
    if (!last_) leave_out_last(graph, segments);
    return Recomputing(graph, std::move(segments), keep_.of_kinds(graph), from_host_).run();
  }

 private:
  /// Removes the segment of the last forward op that is in one.
  static void leave_out_last(const OpGraph& graph, Segments& segments) {
    std::uint32_t last = no_segment;
    for (const OpId v : graph.ops())
      if (segments[v] != no_segment) last = segments[v];
    std::ranges::replace(segments, last, no_segment);
  }

  KindWords keep_;
  bool last_, from_host_;
  std::uint32_t count_ = 0;  // 0: by layer
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Transform> make_recompute(Options& o) { return std::make_unique<Recompute>(o); }

}  // namespace baechi
