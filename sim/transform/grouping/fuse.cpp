#include "sim/transform/graph_copy.h"
#include "sim/transform/grouping/fusion.h"

namespace baechi {
namespace {

/// Operator fusion: neighbours in one group become one op (rules in fusion.h), so that the placer
/// sees fewer ops. Source: Baechi (SoCC'20), section 3.1. Differs: rejected pairs are retried, and
/// tensors between fused ops take memory while these run; `compat` is as in Baechi's code.
class Fuse final : public Transform {
 public:
  explicit Fuse(Options& o)
      : rules_{.disjoint_paths =
                   o.get("disjoint_paths", false,
                         "fuse a pair with other neighbours if no other path connects the two"),
               .allow_cycle =
                   o.get("allow_cycle", false, "fuse every pair; a resulting cycle is an error"),
               .requeue = o.get("requeue", true, "retry pairs that may have become safe to fuse")} {
    if (o.get("compat", false, "as the original's code, quirk by quirk")) {
      rules_.requeue = false;  // Q24
      workspace_ = Workspace::largest;
    }
  }

  Transformed apply(const OpGraph& graph) const override {
    IdVector<OpId, GroupId> group;
    group.reserve(graph.num_ops());
    for (const OpId v : graph.ops()) group.push_back(graph.op(v).group);
    const Fusion fusion(group, pairs(graph), rules_);
    IdVector<OpId, Part> parts;
    parts.reserve(graph.num_ops());
    for (const OpId v : graph.ops()) parts.push_back({.leader = fusion.leader(v)});
    try {
      return merge(graph, parts, workspace_);
    } catch (const InputError& e) {
      throw InputError(
          fmt::format("fuse.allow_cycle: fusing every pair leads to a cycle ({})", e.what()));
    }
  }

 private:
  /// The pairs of ops with an edge between them, each once, in the order of the graph's edges.
  static std::vector<FusionEdge> pairs(const OpGraph& graph) {
    std::vector<FusionEdge> result;
    result.reserve(graph.num_edges());
    IdVector<OpId, OpId> last_src(graph.num_ops(),
                                  no_op);  // [dst]: the src of its last pair
    std::vector<EdgeId> out;
    const auto added = [&graph](EdgeId e) { return graph.added(e); };
    for (const OpId v : graph.ops()) {
      out.clear();
      for (const EdgeId e : graph.out_edges(v)) out.push_back(e);
      if (!std::ranges::is_sorted(out, {}, added)) std::ranges::sort(out, {}, added);
      for (const EdgeId e : out) {
        const OpId dst = graph.edge(e).dst;
        if (last_src[dst] != v) result.push_back({v, dst});
        last_src[dst] = v;
      }
    }
    return result;
  }

  FusionRules rules_;
  Workspace workspace_ = Workspace::peak;
};

}  // namespace

std::unique_ptr<Transform> make_fuse(Options& o) { return std::make_unique<Fuse>(o); }

}  // namespace baechi
