#include "sim/transform/what_if/where.h"

namespace baechi::what_if {
namespace {

/// Offloads outputs of the selected ops to host memory while their last forward reader runs, and
/// loads them back before the first op of `to` (backward ops, if not given) reads them; in between
/// they take no device memory. Copies are serial ops of lane "copy" that take bytes / link. In the
/// order of ids of the device's compute lane, a copy to the host starts when the op before the last
/// forward reader has ended, and the op after that reader waits for it; a copy back starts when the
/// op `back` ops before the first reader has ended.
/// Source: vDNN (Rhu et al., MICRO 2016), section 3.2.
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
      const auto copy = [&](const char* suffix, Phase phase) {
        const std::string name = copying.unique_name(fmt::format("{}/{}", graph.name(v), suffix));
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
      if (p.out_after != no_op) builder.add_control(copying.made(p.out_after), out);
      if (p.waits != no_op) builder.add_control(out, copying.made(p.waits));
      builder.add_control(out, in);
      if (p.start_after != no_op) builder.add_control(copying.made(p.start_after), in);
      const TensorId again = builder.add_tensor(in, tensor.size);
      for (const OpId r : p.late) builder.add_edge(again, copying.made(r));
    }
    return std::move(copying).built();
  }

 private:
  struct Plan {
    std::vector<OpId> early, late;  ///< readers, ascending
    OpId out_after = no_op;         ///< the copy to the host starts after it
    OpId waits = no_op;             ///< starts after the copy to the host
    OpId start_after = no_op;       ///< the copy back starts after it
  };

  Selection readers(const Scope& scope) const {
    if (to_) return to_->select(scope);
    const OpGraph& graph = scope.graph();
    Selection late(graph.num_ops());
    for (const OpId v : graph.ops()) late[v] = graph.op(v).phase == Phase::backward;
    return late;
  }

  /// Plans for the tensors of selected ops that have `late` readers, with all readers on the
  /// producer's device.
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
      std::vector<OpId> readers;
      for (const EdgeId e : graph.readers(t)) readers.push_back(graph.edge(e).dst);
      std::ranges::sort(readers);
      for (const OpId r : readers) {
        here = here && step.device_of(r) == step.device_of(tensor.producer);
        (late[r] || !p.late.empty() ? p.late : p.early).push_back(r);
      }
      if (!here || p.late.empty() || tensor.size <= Bytes{}) continue;
      const std::vector<OpId>& ops = order[step.device_of(tensor.producer)];
      const auto first = std::ranges::lower_bound(ops, p.late.front());
      const auto back = first - ops.begin() >= back_ ? first - back_ : first;
      if (back < first && *back >= tensor.producer) p.start_after = *back;
      const auto reads = p.early.empty() ? std::ranges::upper_bound(ops, tensor.producer)
                                         : std::ranges::lower_bound(ops, p.early.back());
      if (reads < first && reads + 1 != ops.end()) p.waits = *(reads + 1);
      if (reads > ops.begin() && reads <= first && *(reads - 1) > tensor.producer)
        p.out_after = *(reads - 1);
      plans.emplace(t, std::move(p));
    }
    return plans;
  }

  Bandwidth link_;
  std::int64_t back_;
  std::optional<Where> to_;
};

}  // namespace

std::unique_ptr<Verb> make_offload(Options& o) { return std::make_unique<Offload>(o); }

}  // namespace baechi::what_if
