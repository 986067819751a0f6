#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {
namespace {

/// Removes the selected ops. Their readers wait for their predecessors; a reader of an output that
/// is as large as one of the op's inputs reads the first such input instead.
class Remove final : public Verb {
 public:
  Change apply(const Scope& scope, const Selection& selected) const override {
    const OpGraph& graph = scope.graph();
    Behind behind(graph, selected);
    Copying copying(graph);
    copying.keeps = [&](OpId v) { return !selected[v]; };
    copying.ops();
    copying.edges();
    for (const OpId v : graph.ops()) {
      if (selected[v]) continue;
      for (const EdgeId e : graph.in_edges(v)) {
        const Edge& edge = graph.edge(e);
        if (!selected[edge.src]) continue;
        const std::optional<TensorId> source = behind.passed[edge.tensor];
        if (source) copying.builder().add_edge(copying.tensor(*source), copying.made(v));
        for (const OpId p : behind.waits_for[edge.src])
          if (!source || graph.tensor(*source).producer != p)
            copying.builder().add_control(copying.made(p), copying.made(v));
      }
    }
    return std::move(copying).built();
  }

 private:
  /// The kept predecessors and inputs that replace removed ops.
  struct Behind {
    Behind(const OpGraph& graph, const Selection& removed)
        : waits_for(graph.num_ops()), passed(graph.num_tensors()) {
      for (const OpId v : graph.ops()) {
        if (!removed[v]) continue;
        std::vector<OpId>& before = waits_for[v];
        for (const OpId p : graph.predecessors(v)) {
          if (!removed[p])
            before.push_back(p);
          else
            before.insert(before.end(), waits_for[p].begin(), waits_for[p].end());
        }
        std::ranges::sort(before);
        before.erase(std::unique(before.begin(), before.end()), before.end());
        for (const TensorId t : graph.outputs(v)) passed[t] = input_like(graph, removed, v, t);
      }
    }

    std::optional<TensorId> input_like(const OpGraph& graph, const Selection& removed, OpId v,
                                       TensorId t) const {
      if (graph.tensor(t).control) return std::nullopt;
      for (const EdgeId e : graph.in_edges(v)) {
        const TensorId in = graph.edge(e).tensor;
        if (graph.tensor(in).control || graph.tensor(in).size != graph.tensor(t).size) continue;
        if (!removed[graph.edge(e).src]) return in;
        if (passed[in]) return passed[in];
      }
      return std::nullopt;
    }

    IdVector<OpId, std::vector<OpId>> waits_for;         // kept ops, ascending
    IdVector<TensorId, std::optional<TensorId>> passed;  // of removed ops
  };
};

}  // namespace

std::unique_ptr<Verb> make_remove(Options& /*o*/) { return std::make_unique<Remove>(); }

}  // namespace baechi::what_if
