#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

enum class InsertPosition : std::uint8_t { each, first, last };
constexpr auto names_of(InsertPosition) { return enumerators<InsertPosition::last>(); }

namespace {

struct NewOp {
  std::string name, kind, lane;
  std::optional<Duration> time;
  std::optional<Amount> traffic, bytes, workspace;
  std::int64_t flops = 0;
  std::optional<Phase> phase;
};

NewOp read_op(Options& o) {
  const Options::Value* given =
      o.raw("op", "{name, kind, lane, phase, time, flops, traffic, bytes, workspace}: the new op");
  NewOp op;
  if (given == nullptr) {
    o.mistake("op", "missing: {kind: ..., time: ...} or {kind: ..., traffic: ...}");
    return op;
  }
  Options of_op("insert.op", {given->children.begin(), given->children.end()});
  op.kind = of_op.get("kind", "Inserted", "");
  op.name = of_op.get("name", op.kind.c_str(), "");
  op.lane = of_op.get("lane", "compute", "");
  if (of_op.raw("time", "") != nullptr) op.time = of_op.get("time", Duration{}, "");
  op.flops = of_op.get("flops", std::int64_t{0}, "");
  op.traffic = read_amount(of_op, "traffic", "");
  op.bytes = read_amount(of_op, "bytes", "");
  op.workspace = read_amount(of_op, "workspace", "");
  op.phase = read_enum_unless<Phase>(of_op, "phase", "same", "");
  try {
    of_op.finish();
  } catch (const InputError& e) {
    o.mistake("op", e.what());
  }
  return op;
}

/// Adds ops with a time, or with work from which a device model derives the time.
///   after each: reads the outputs of the selected op. Readers that `read_by` selects read its
///     output (`bytes`) instead, or wait for it.
///   after last: one op, anchored at the last selected one, reads the outputs of all of them.
///   before each: starts when all inputs of the selected op are available. It reads the tensors
///     from ops of `reads`, and the selected op reads its output (`bytes`) instead.
///   before first: one op on which all selected ops wait.
/// After placing, "first" and "last" insert one op per device. "2x" is twice the bytes that the new
/// op reads.
class Insert final : public Verb {
 public:
  explicit Insert(Options& o)
      : op_(read_op(o)),
        after_(read_enum_unless<InsertPosition>(o, "after", "no",
                                                "after each selected op, or the last")),
        before_(read_enum_unless<InsertPosition>(o, "before", "no",
                                                 "before each selected op, or the first")),
        reads_(read_where(o, "reads", other_end)),
        read_by_(read_where(o, "read_by", other_end)) {
    if (after_.has_value() == before_.has_value())
      o.mistake("after",
                "give one of 'after: each', 'after: last', 'before: each', 'before: first'");
    if (after_ == InsertPosition::first) o.mistake("after", "not 'first': each or last");
    if (before_ == InsertPosition::last) o.mistake("before", "not 'last': each or first");
  }

  bool needs_times() const override {
    return op_.time || (reads_ && reads_->needs_times()) || (read_by_ && read_by_->needs_times());
  }

  Change apply(const Scope& scope, const Selection& selected) const override {
    return after_ ? insert_after(scope, selected) : insert_before(scope, selected);
  }

 private:
  static constexpr auto other_end = "conditions of the ops at the other end of redirected edges";

  /// A new op anchored at `v`, which reads `read` bytes.
  OpId add(Copying& copying, const OpGraph& graph, OpId v, Bytes read) const {
    const std::string name = copying.unique_name(fmt::format("{}/{}", graph.name(v), op_.name));
    const OpWork work{.flops = op_.flops, .traffic = op_.traffic.value_or(Amount{}).of(read)};
    return copying.insert({.name = name,
                           .kind = op_.kind,
                           .temporary = op_.workspace.value_or(Amount{}).of(read),
                           .phase = op_.phase.value_or(graph.op(v).phase),
                           .lane = op_.lane,
                           .module = graph.module(v)},
                          v, work, op_.time);
  }

  Change insert_after(const Scope& scope, const Selection& selected) const {
    const OpGraph& graph = scope.graph();
    const std::map<OpId, OpId> home =
        homes(scope.step, selected, after_ == InsertPosition::last, true);
    const Selection moved = read_by_ ? read_by_->select(scope) : Selection(graph.num_ops());
    std::map<OpId, Bytes> read;  // by home
    for (const auto& [v, at] : home) read[at] += written_by(graph, v);
    Copying copying(graph);
    std::map<OpId, std::pair<OpId, std::optional<TensorId>>> made;  // by home
    copying.after = [&](OpId v) {
      const auto it = home.find(v);
      if (it == home.end() || it->second != v) return;
      const OpId op = add(copying, graph, v, read[v]);
      std::optional<TensorId> out;
      if (op_.bytes) out = copying.builder().add_tensor(op, op_.bytes->of(read[v]));
      made[v] = {op, out};
    };
    copying.ops();
    const auto goes_by = [&](const Edge& e) { return home.contains(e.src) && moved[e.dst]; };
    copying.edges([&](const Edge& e) { return !op_.bytes || !goes_by(e); });
    for (const auto& [v, at] : home) {
      const auto& [op, out] = made[at];
      bool any = false;
      for (const TensorId t : graph.outputs(v)) {
        if (graph.tensor(t).control) continue;
        copying.builder().add_edge(copying.tensor(t), op);
        any = true;
      }
      if (!any) copying.builder().add_control(copying.made(v), op);
      for (const EdgeId e : graph.out_edges(v)) {
        if (!goes_by(graph.edge(e))) continue;
        const OpId reader = copying.made(graph.edge(e).dst);
        if (out)
          copying.builder().add_edge(*out, reader);
        else
          copying.builder().add_control(op, reader);
      }
    }
    return std::move(copying).built();
  }

  Change insert_before(const Scope& scope, const Selection& selected) const {
    const OpGraph& graph = scope.graph();
    const std::map<OpId, OpId> home =
        homes(scope.step, selected, before_ == InsertPosition::first, false);
    const Selection read_from = reads_ ? reads_->select(scope) : Selection(graph.num_ops());
    const auto reads = [&](const Edge& e) {
      return home.contains(e.dst) && read_from[e.src] && !graph.tensor(e.tensor).control;
    };
    std::map<OpId, Bytes> read;
    for (const auto& [v, at] : home)
      for (const EdgeId e : graph.in_edges(v))
        if (reads(graph.edge(e))) read[at] += graph.tensor(graph.edge(e).tensor).size;
    Copying copying(graph);
    std::map<OpId, OpId> made;
    copying.before = [&](OpId v) {
      const auto it = home.find(v);
      if (it != home.end() && it->second == v) made[v] = add(copying, graph, v, read[v]);
    };
    copying.ops();
    copying.edges([&](const Edge& e) { return !op_.bytes || !reads(e); });
    for (const auto& [v, at] : home) {
      const OpId op = made[at];
      for (const EdgeId e : graph.in_edges(v)) {
        const Edge& edge = graph.edge(e);
        if (reads(edge))
          copying.builder().add_edge(copying.tensor(edge.tensor), op);
        else if (before_ == InsertPosition::each)
          copying.builder().add_control(copying.made(edge.src), op);
      }
      if (op_.bytes && read[at] > Bytes{})
        copying.builder().add_edge(copying.builder().add_tensor(op, op_.bytes->of(read[at])),
                                   copying.made(v));
      else
        copying.builder().add_control(op, copying.made(v));
    }
    return std::move(copying).built();
  }

  /// For each selected op the anchor of its new op: itself, or, with `one` per device, the last (or
  /// first) selected op on its device.
  static std::map<OpId, OpId> homes(const Step& step, const Selection& selected, bool one,
                                    bool last) {
    std::map<DeviceId, OpId> chosen;
    std::map<OpId, OpId> home;
    for (const OpId v : step.graph.ops()) {
      if (!selected[v]) continue;
      home[v] = v;
      if (last || !chosen.contains(step.device_of(v))) chosen[step.device_of(v)] = v;
    }
    if (one)
      for (auto& [v, at] : home) at = chosen[step.device_of(v)];
    return home;
  }

  NewOp op_;
  std::optional<InsertPosition> after_, before_;
  std::optional<Where> reads_, read_by_;
};

}  // namespace

std::unique_ptr<Verb> make_insert(Options& o) { return std::make_unique<Insert>(o); }

}  // namespace baechi::what_if
