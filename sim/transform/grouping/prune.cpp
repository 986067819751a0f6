#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

/// Drops ops that have no edge. Source: Baechi's code, which does so when it reads a graph.
class Prune final : public Transform {
 public:
  Transformed apply(const OpGraph& graph) const override {
    IdVector<OpId, Part> parts;
    parts.reserve(graph.num_ops());
    for (const OpId v : graph.ops()) {
      const bool dangling = graph.in_edges(v).empty() && graph.out_edges(v).empty();
      parts.push_back({.leader = dangling ? no_op : v});
    }
    return merge(graph, parts);
  }
};

}  // namespace

std::unique_ptr<Transform> make_prune(Options& /*o*/) { return std::make_unique<Prune>(); }

}  // namespace baechi
