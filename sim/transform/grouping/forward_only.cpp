#include "sim/graph/analysis.h"
#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

/// Assigns each backward and update op to a forward op.
class Followers {
 public:
  explicit Followers(const OpGraph& graph) : graph_(graph), leader_(graph.num_ops(), no_op) {
    for (const OpId v : graph.ops())
      if (graph.op(v).phase == Phase::forward) leader_[v] = v;
    follow_groups();
    follow_forwards();
    for (const bool control : {false, true}) {
      while (follow_neighbours(control)) {
      }
    }
  }

  /// The forward op of each op; the op itself for forward ops, and if no path connects it to one.
  /// [num_ops]
  IdVector<OpId, OpId> leaders() && {
    for (const OpId v : graph_.ops())
      if (leader_[v] == no_op) leader_[v] = v;
    return std::move(leader_);
  }

 private:
  /// Assigns `v` and its whole group, which has no forward op, to `leader`.
  void lead(OpId v, OpId leader) {
    leader_[v] = leader;
    if (graph_.op(v).group == no_group) return;
    for (const OpId w : graph_.members(graph_.op(v).group)) leader_[w] = leader;
  }

  void follow_groups() {
    for (const GroupId g : graph_.groups()) {
      const auto members = graph_.members(g);
      const auto forward = std::ranges::find_if(members, [&](OpId v) { return leader_[v] == v; });
      if (forward == members.end()) continue;
      for (const OpId v : members) {
        if (leader_[v] != no_op) continue;
        const OpId own = graph_.op(v).forward;
        leader_[v] =
            own != no_op && graph_.op(own).group == g && leader_[own] == own ? own : *forward;
      }
    }
  }

  void follow_forwards() {
    for (const OpId v : graph_.ops()) {
      if (leader_[v] != no_op) continue;
      const OpId forward = graph_.op(v).forward;
      if (forward != no_op && leader_[forward] != no_op) lead(v, leader_[forward]);
    }
  }

  /// Gives ops without a leader the leader of the op from which they read most bytes, or else of
  /// the op that reads most bytes from them. Returns whether any op got one.
  bool follow_neighbours(bool control) {
    bool any = false;
    const auto follow = [&](OpId v, const auto& edges, auto neighbour) {
      if (leader_[v] != no_op) return;
      OpId best = no_op;
      Bytes most{-1};
      for (const EdgeId e : edges) {
        const Tensor& tensor = graph_.tensor(graph_.edge(e).tensor);
        const OpId leader = leader_[neighbour(graph_.edge(e))];
        if (leader == no_op || (tensor.control && !control) || tensor.size <= most) continue;
        best = leader;
        most = tensor.size;
      }
      if (best == no_op) return;
      lead(v, best);
      any = true;
    };
    for (const OpId v : graph_.ops())
      follow(v, graph_.in_edges(v), [](const Edge& e) { return e.src; });
    for (std::size_t i = graph_.num_ops(); i-- > 0;)
      follow(static_cast<OpId>(i), graph_.out_edges(static_cast<OpId>(i)),
             [](const Edge& e) { return e.dst; });
    return any;
  }

  const OpGraph& graph_;
  IdVector<OpId, OpId> leader_;
};

/// Only forward ops are placed; sim/transform/README.md says which of them a backward or update op
/// follows. Control edges are used if an op has no data edges. Ops without a path to a forward op
/// are placed by themselves.
/// Source: Baechi (SoCC'20), section 3.1; its code places the graph of the loss, and TensorFlow
/// colocates gradients with it.
class ForwardOnly final : public Transform {
 public:
  explicit ForwardOnly(Options& o)
      : count_(share_of(o.get("count", {"forward", "memory", "all"},
                              "a placer's view of the backward and update ops that go with an op: "
                              "nothing; their weights and workspace; also their time"))),
        force_(o.get("force", false, "even if no device could hold the whole model")) {}

  Transformed apply(const OpGraph& graph) const override {
    const IdVector<OpId, OpId> leaders = Followers(graph).leaders();
    IdVector<OpId, Part> parts;
    parts.reserve(graph.num_ops());
    for (const OpId v : graph.ops())
      parts.push_back({.leader = leaders[v], .share = leaders[v] == v ? Share::whole : count_});
    Transformed result = merge(graph, parts);
    if (force_ || result.graph.num_ops() == graph.num_ops()) return result;
    result.needs = one_device_peak(graph);
    result.needs_why = fmt::format(
        "forward_only is for models that fit on one device, and this one needs {} there; 'force: "
        "true' places it anyway",
        to_text(result.needs));
    return result;
  }

 private:
  static Share share_of(std::string_view count) {
    return count == "all" ? Share::needs : count == "memory" ? Share::memory : Share::nothing;
  }

  Share count_;
  bool force_;
};

}  // namespace

std::unique_ptr<Transform> make_forward_only(Options& o) {
  return std::make_unique<ForwardOnly>(o);
}

}  // namespace baechi
