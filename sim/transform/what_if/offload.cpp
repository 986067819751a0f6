#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "sim/transform/what_if/attributes.h"
#include "sim/transform/what_if/copying.h"

namespace baechi::what_if {
namespace {

/// Copies what the selected ops write to the memory of the host once no forward op needs it any
/// more, and back before the first op of `to` (backward ops, if not given) reads it; in between it
/// takes no memory of the device. Copies are ops of lane "copy", one after the other: bytes / link.
/// A copy back starts when the op of lane compute that is `back` ops before the first reader, in
/// the order of ids on its device, has ended. Source: vDNN (Rhu et al., MICRO 2016).
class Offload final : public Verb {
 public:
  explicit Offload(Options& o)
      : link_(o.get("link", Bandwidth{12e9}, "rate of copies between device and host")),
        back_(o.get("back", std::int64_t{2}, "ops before the first reader", 1, 1'000'000)),
        to_(read_to(o)) {
    if (link_ <= Bandwidth{}) o.mistake("link", "a rate above 0");
  }

  bool needs_times() const override { return true; }

  Change apply(const Scope& scope, const Selection& selected) const override {
    const OpGraph& graph = scope.graph();
    const Selection late = readers(scope);
    const std::map<TensorId, Plan> plans = plan(scope.step, selected, late);
    Copying copying(graph);
    copying.ops();
    copying.edges([&](const Edge& e) { return !plans.contains(e.tensor) || !late[e.dst]; });
    for (const auto& [t, p] : plans) {
      const Tensor& tensor = graph.tensor(t);
      const OpId v = tensor.producer;
      const auto copy = [&](const char* way, Phase phase) {
        const std::string name = copying.fresh(fmt::format("{}/{}", graph.name(v), way));
        return copying.insert({.name = name,
                               .kind = "HostCopy",
                               .phase = phase,
                               .lane = "copy",
                               .module = graph.module(v)},
                              v, {}, tensor.size / link_);
      };
      const OpId out = copy("to_host", Phase::forward), in = copy("from_host", Phase::backward);
      OpGraphBuilder& builder = copying.builder();
      builder.add_edge(copying.tensor(t), out);
      for (const OpId r : p.early) builder.add_control(copying.made(r), out);
      builder.add_control(out, in);
      if (p.start_after != no_op) builder.add_control(copying.made(p.start_after), in);
      const TensorId again = builder.add_tensor(in, tensor.size);
      for (const OpId r : p.late) builder.add_edge(again, copying.made(r));
    }
    return std::move(copying).built();
  }

 private:
  struct Plan {
    std::vector<OpId> early, late;  ///< readers
    OpId start_after = no_op;
  };

  Selection readers(const Scope& scope) const {
    if (to_) return to_->select(scope);
    const OpGraph& graph = scope.graph();
    Selection late(graph.num_ops());
    for (const OpId v : graph.ops()) late[v] = graph.op(v).phase == Phase::backward;
    return late;
  }

  /// Tensors of selected ops that early and late ops read, all on one device.
  std::map<TensorId, Plan> plan(const Step& step, const Selection& selected,
                                const Selection& late) const {
    const OpGraph& graph = step.graph;
    std::map<DeviceId, std::vector<OpId>> order;  // ops of lane compute
    for (const OpId v : graph.ops())
      if (graph.lane(v) == compute_lane) order[step.device_of(v)].push_back(v);
    std::map<TensorId, Plan> plans;
    for (const TensorId t : graph.tensors()) {
      const Tensor& tensor = graph.tensor(t);
      if (tensor.control || tensor.reference || !selected[tensor.producer]) continue;
      Plan p;
      bool here = true;
      for (const EdgeId e : graph.readers(t)) {
        const OpId r = graph.edge(e).dst;
        here = here && step.device_of(r) == step.device_of(tensor.producer);
        (late[r] ? p.late : p.early).push_back(r);
      }
      if (!here || p.late.empty() || tensor.size <= Bytes{}) continue;
      const std::vector<OpId>& ops = order[step.device_of(tensor.producer)];
      const auto first = std::ranges::lower_bound(ops, std::ranges::min(p.late));
      if (first - ops.begin() >= back_) p.start_after = *(first - back_);
      if (p.start_after != no_op && p.start_after < tensor.producer) p.start_after = no_op;
      plans.emplace(t, std::move(p));
    }
    return plans;
  }

  Bandwidth link_;
  std::int64_t back_;
  std::optional<Where> to_;
};

}  // namespace

std::unique_ptr<Verb> make_offload(Options& o) {
  return std::make_unique<Offload>(o);
}

}  // namespace baechi::what_if
