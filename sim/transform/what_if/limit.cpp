#include "sim/transform/what_if/where.h"

namespace baechi::what_if {
namespace {

/// Limits traffic, outputs and workspace of the selected ops; "4x" is four times the largest tensor
/// that the op reads.
class Limit final : public Verb {
 public:
  explicit Limit(Options& o)
      : traffic_(read_amount(o, "traffic", "maximum traffic of each kernel, without weights")),
        bytes_(read_amount(o, "bytes",
                           "maximum size of each output, and of all outputs together that only "
                           "backward ops read")),
        workspace_(read_amount(o, "workspace", "maximum temporary bytes")),
        to_(read_to(o)) {}

  bool needs_times() const override { return to_ && to_->needs_times(); }

  Change apply(const Scope& scope, const Selection& selected) const override {
    const OpGraph& graph = scope.graph();
    const IdVector<TensorId, bool> tensors = tensors_of(scope, selected, to_);
    const auto at_most = [&](const std::optional<Amount>& limit, OpId v, Bytes size) {
      return limit && selected[v] ? std::min(size, limit->of(largest_read(graph, v))) : size;
    };
    Copying copying(graph);
    copying.respec = [&](OpId v, OpSpec& spec) {
      spec.temporary = at_most(workspace_, v, spec.temporary);
    };
    copying.resize = [&](TensorId t) {
      const Tensor& tensor = graph.tensor(t);
      if (!tensors[t]) return tensor.size;
      const Bytes before = is_kept(graph, t) ? kept_before(graph, t) : Bytes{};
      return at_most(bytes_, tensor.producer, before + tensor.size) -
             at_most(bytes_, tensor.producer, before);
    };
    copying.rework = [&](OpId v, OpWork work) {
      work.traffic = work.weights + at_most(traffic_, v, work.traffic - work.weights);
      return work;
    };
    return std::move(copying).whole();
  }

 private:
  static Bytes largest_read(const OpGraph& graph, OpId v) {
    Bytes largest;
    for (const EdgeId e : graph.in_edges(v)) {
      const Tensor& tensor = graph.tensor(graph.edge(e).tensor);
      if (!tensor.control) largest = std::max(largest, tensor.size);
    }
    return largest;
  }

  /// Whether only backward ops read `t`, such as masks, which are limited together.
  static bool is_kept(const OpGraph& graph, TensorId t) {
    return !graph.readers(t).empty() && std::ranges::all_of(graph.readers(t), [&](EdgeId e) {
      return graph.op(graph.edge(e).dst).phase == Phase::backward;
    });
  }
  static Bytes kept_before(const OpGraph& graph, TensorId t) {
    Bytes sum;
    for (const TensorId other : graph.outputs(graph.tensor(t).producer))
      if (other < t && is_kept(graph, other)) sum += graph.tensor(other).size;
    return sum;
  }

  std::optional<Amount> traffic_, bytes_, workspace_;
  std::optional<Where> to_;
};

}  // namespace

std::unique_ptr<Verb> make_limit(Options& o) { return std::make_unique<Limit>(o); }

}  // namespace baechi::what_if
