#include <cmath>

#include "sim/transform/training/gradients.h"
#include "sim/transform/what_if/verb.h"

namespace baechi::what_if {
namespace {

/// Scales the batch size. In forward and backward ops, flops, traffic except weights
/// (OpWork::weights), workspace and outputs are multiplied by `factor`; without work, also the
/// time, except on the host. Not scaled: weights; gradients of weights, which updates read; ops
/// that hold weights and read nothing, and ops that depend on these alone.
class Batch final : public Verb {
 public:
  explicit Batch(Options& o)
      : factor_(o.get("factor", 2.0, "factor on the batch size", 1e-3, 1e6)) {}

  double samples() const override { return factor_; }

  Change apply(const Scope& scope, const Selection& /*all*/) const override {
    const OpGraph& graph = scope.graph();
    const IdVector<OpId, bool> grows = of_samples(graph);
    Copying copying(graph);
    copying.respec = [&](OpId v, OpSpec& spec) {
      const Bytes fixed = gradient_workspace(graph, v);
      if (grows[v]) spec.temporary = fixed + scaled(spec.temporary - fixed);
    };
    copying.retime = [&](OpId v, Duration time, std::size_t) {
      if (!grows[v] || !graph.kernels(v).empty() || graph.lane(v) != compute_lane) return time;
      return Duration{saturated(std::round(factor_ * static_cast<double>(time.count())))};
    };
    copying.rework = [&](OpId v, OpWork work) {
      if (!grows[v]) return work;
      work.flops = saturated(std::round(factor_ * static_cast<double>(work.flops)));
      work.traffic = work.weights + scaled(work.traffic - work.weights);
      return work;
    };
    copying.resize = [&](TensorId t) {
      const Bytes size = graph.tensor(t).size;
      return is_of_samples(graph, grows, t) ? scaled(size) : size;
    };
    copying.copy().change_collectives([&](const Collective& c) {
      return sums_samples(graph, grows, c) ? scaled(c.bytes) : c.bytes;
    });
    return std::move(copying).whole();
  }

 private:
  Bytes scaled(Bytes size) const {
    return {static_cast<std::int64_t>(std::ceil(factor_ * static_cast<double>(size.count)))};
  }
  /// [num_ops] Forward and backward ops that scale with the batch: not those that hold weights and
  /// read nothing, or read only outputs of such ops.
  static IdVector<OpId, bool> of_samples(const OpGraph& graph) {
    IdVector<OpId, bool> grows;
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      const auto reads = graph.predecessors(v);
      const bool of_weights =
          reads.empty()
              ? op.persistent > Bytes{} && graph.kernels(v).empty() && op.compute == Duration{}
              : std::ranges::none_of(reads, [&](OpId u) { return bool{grows[u]}; });
      grows.push_back(op.phase != Phase::update && !of_weights);
    }
    return grows;
  }
  static bool is_of_samples(const OpGraph& graph, const IdVector<OpId, bool>& grows, TensorId t) {
    return grows[graph.tensor(t).producer] && std::ranges::none_of(graph.readers(t), [&](EdgeId e) {
             return graph.op(graph.edge(e).dst).phase == Phase::update;
           });
  }
  /// Whether `c` communicates activations, as in tensor parallelism, and not gradients of weights.
  static bool sums_samples(const OpGraph& graph, const IdVector<OpId, bool>& grows,
                           const Collective& c) {
    return std::ranges::any_of(graph.in_edges(c.first), [&](EdgeId e) {
      const TensorId t = graph.edge(e).tensor;
      return graph.tensor(t).size == c.bytes && is_of_samples(graph, grows, t);
    });
  }

  double factor_;
};

}  // namespace

std::unique_ptr<Verb> make_batch(Options& o) { return std::make_unique<Batch>(o); }

}  // namespace baechi::what_if
