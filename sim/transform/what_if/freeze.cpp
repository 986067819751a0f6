#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {
namespace {

/// Whether a kernel of a backward op is a GEMM over the batch, as that of weight gradients is.
bool sums_over_batch(const OpWork& kernel) {
  return kernel.matrix.kind != MatrixKind::none && kernel.matrix.inner == 0;
}

bool has_products_only(const OpGraph& graph, OpId v) {
  const auto kernels = graph.kernels(v);
  return !kernels.empty() && std::ranges::all_of(kernels, [](const OpWork& kernel) {
    return kernel.matrix.kind == MatrixKind::product ||
           kernel.matrix.kind == MatrixKind::prepared_product;
  });
}

/// The selected backward ops compute no gradients of weights: their GEMMs over the batch go, and
/// half of the work, or time, of other compute-bound ones, which have as much for the gradients of
/// their inputs. A GEMM then no longer needs what its forward op read.
class Freeze final : public Verb {
 public:
  Change apply(const Scope& scope, const Selection& selected) const override {
    const OpGraph& graph = scope.graph();
    const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph);
    IdVector<OpId, bool> halved(graph.num_ops(), false), reads_less(graph.num_ops(), false);
    for (const OpId v : graph.ops()) {
      if (!selected[v]) continue;
      if (graph.op(v).phase != Phase::backward)
        throw InputError(fmt::format("'{}' is not a backward op", graph.name(v)));
      const OpId forward = graph.op(v).forward;
      reads_less[v] = forward != no_op && has_products_only(graph, forward);
      halved[v] =
          computes[graph.op(v).kind] && std::ranges::none_of(graph.kernels(v), sums_over_batch);
    }
    Copying copying(graph);
    copying.respec = [&](OpId v, OpSpec& spec) {
      if (selected[v]) spec.persistent = {};  // gradients
    };
    copying.retime = [&](OpId v, Duration time, std::size_t /*kind*/) {
      return halved[v] && graph.kernels(v).empty() ? time / 2 : time;
    };
    copying.rework = [&](OpId v, OpWork work) {
      if (selected[v] && sums_over_batch(work)) return OpWork{};
      if (halved[v]) {
        work.flops /= 2;
        work.traffic = {work.traffic.count / 2};
        work.weights = {work.weights.count / 2};
      }
      return work;
    };
    copying.resize = [&](TensorId t) {
      const Tensor& tensor = graph.tensor(t);
      return selected[tensor.producer] && is_for_updates(graph, t) ? Bytes{} : tensor.size;
    };
    copying.ops();
    copying.edges([&](const Edge& e) {
      if (!reads_less[e.dst] || graph.tensor(e.tensor).control) return true;
      const auto read = graph.predecessors(graph.op(e.dst).forward);
      return graph.op(e.src).phase != Phase::forward ||
             std::ranges::find(read, e.src) == read.end();
    });
    return std::move(copying).built();
  }

 private:
  static bool is_for_updates(const OpGraph& graph, TensorId t) {
    return std::ranges::all_of(graph.readers(t), [&](EdgeId e) {
      return graph.op(graph.edge(e).dst).phase == Phase::update;
    });
  }
};

}  // namespace

std::unique_ptr<Verb> make_freeze(Options& /*o*/) { return std::make_unique<Freeze>(); }

}  // namespace baechi::what_if
