#include "sim/transform/grouping/fusion.h"
#include "sim/transform/transform.h"

namespace baechi {
namespace {

/// Co-placement: an op that exactly one other op reads joins the group of that op. Merging groups
/// changes no op's readers, so one pass reaches the fixed point.
/// Source: Baechi (SoCC'20), section 3.1.
class Coplace final : public Transform {
 public:
  explicit Coplace(Options& o)
      : control_edges_(o.get("control_edges", true,
                             "an op that waits for another by a control edge counts as its "
                             "reader")) {}

  Transformed apply(const OpGraph& graph) const override {
    GroupSets sets(graph);
    for (const OpId v : graph.ops()) {
      if (const auto reader = only_reader(graph, v)) sets.join(v, *reader);
    }
    return same_ops(sets.regrouped());
  }

 private:
  /// The only op that reads tensors of `v`; no_op if there is none or more than one.
  std::optional<OpId> only_reader(const OpGraph& graph, OpId v) const {
    std::optional<OpId> reader;
    for (const EdgeId e : graph.out_edges(v)) {
      const Edge& edge = graph.edge(e);
      if (!control_edges_ && graph.tensor(edge.tensor).control) continue;
      if (reader && *reader != edge.dst) return std::nullopt;
      reader = edge.dst;
    }
    return reader;
  }

  bool control_edges_;
};

}  // namespace

std::unique_ptr<Transform> make_coplace(Options& o) { return std::make_unique<Coplace>(o); }

}  // namespace baechi
