#include <algorithm>
#include <memory>

#include "sim/transform/what_if/amount.h"
#include "sim/transform/what_if/attributes.h"
#include "sim/transform/what_if/copying.h"

namespace baechi::what_if {
namespace {

/// Limits what the selected ops read, write and hold: "4x" is four times the largest tensor that
/// the op reads.
class Limit final : public Verb {
 public:
  explicit Limit(Options& o)
      : traffic_(read_amount(o, "traffic",
                             "bytes that each kernel reads and writes beside weights, at most")),
        bytes_(read_amount(o, "bytes", "size of each tensor that is written, at most")),
        workspace_(read_amount(o, "workspace", "temporary bytes, at most")),
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
      return tensors[t] ? at_most(bytes_, tensor.producer, tensor.size) : tensor.size;
    };
    copying.rework = [&](OpId v, OpWork work) {
      work.traffic = work.weights + at_most(traffic_, v, work.traffic - work.weights);
      return work;
    };
    copying.ops();
    copying.edges();
    return std::move(copying).built();
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

  std::optional<Amount> traffic_, bytes_, workspace_;
  std::optional<Where> to_;
};

}  // namespace

std::unique_ptr<Verb> make_limit(Options& o) {
  return std::make_unique<Limit>(o);
}

}  // namespace baechi::what_if
