#include "sim/transform/what_if/verb.h"

#include <cmath>

namespace baechi::what_if {

MakeVerb make_scale, make_set, make_limit, make_batch, make_remove, make_merge, make_insert,
    make_split, make_offload, make_freeze, make_collective, make_drop_edges, make_add_edge;

std::span<const VerbEntry> verbs() {
  static constexpr VerbEntry table[] = {
      {"scale", "multiplies times, bytes or work", make_scale},
      {"set", "sets times, bytes, work or the lane", make_set},
      {"limit", "limits bytes and traffic, relative to what an op reads", make_limit},
      {"batch", "scales the batch size: everything but weights and updates", make_batch},
      {"remove", "removes ops; their readers wait for their predecessors", make_remove},
      {"merge", "several ops become one", make_merge},
      {"insert", "a new op before or after each selected op, or one for all", make_insert},
      {"split", "an op, or a collective, becomes several equal parts", make_split},
      {"offload", "outputs are copied to the host and back before they are read again",
       make_offload},
      {"freeze", "backward ops compute no gradients of weights", make_freeze},
      {"collective", "a collective of the outputs of the selected ops", make_collective},
      {"drop_edges", "removes edges to readers", make_drop_edges},
      {"add_edge", "selected ops wait for others", make_add_edge},
  };
  return table;
}

namespace {

/// The times on one device type after `change`; -1: none.
IdVector<OpId, Duration> new_times(const OpGraph& before, const Change& change, std::size_t kind,
                                   const DeviceModel& model) {
  const OpGraph& graph = change.graph;
  const IdVector<OpId, Duration> was = roofline_times(before, model);
  const IdVector<OpId, Duration> is = roofline_times(graph, model);
  IdVector<OpId, Duration> by_work(graph.num_ops());  // of the ops mapped to each op
  IdVector<OpId, bool> is_new(graph.num_ops(), true);
  for (const OpId v : before.ops()) {
    const OpId now = change.mapped_op[v];
    if (now == no_op) continue;
    by_work[now] += was[v];
    is_new[now] = false;
  }
  IdVector<OpId, Duration> times(graph.num_ops());
  for (const OpId v : graph.ops()) {
    const std::optional<Duration> known = graph.compute(v, kind);
    times[v] = known.value_or(Duration{-1});
    if (!known && is_new[v] && !graph.kernels(v).empty()) times[v] = is[v];
    if (known && !change.reworked.empty() && change.reworked[v] && by_work[v] > Duration::zero())
      times[v] = Duration{saturated(
          std::round(static_cast<double>(known->count()) * static_cast<double>(is[v].count()) /
                     static_cast<double>(by_work[v].count())))};
  }
  return times;
}

}  // namespace

Step apply_change(const Step& before, Change change, const StepDevices& devices) {
  Step after{.graph = std::move(change.graph)};
  if (before.placed())
    for (const OpId v : after.graph.ops()) after.device.push_back(before.device[change.anchor[v]]);
  for (const auto& model : devices.models) {
    const auto& kinds = after.graph.device_kinds();
    const auto at = std::ranges::find(kinds, model->name);
    if (at == kinds.end() || !after.graph.has_work()) continue;
    change.graph = after.graph;
    after.graph = after.graph.with_times(
        model->name,
        new_times(before.graph, change, static_cast<std::size_t>(at - kinds.begin()), *model));
  }
  return after;
}

Copying::Copying(const OpGraph& graph)
    : graph_(graph), copy_(graph), tensors_(graph.num_tensors()) {}

void Copying::ops() {
  for (const OpId v : graph_.ops()) {
    if (keeps && !keeps(v)) continue;
    if (before) before(v);
    OpSpec spec = copy_.spec(v);
    if (respec) respec(v, spec);
    const OpId made = copy_.add(v, spec, [&](Duration time, std::size_t kind) {
      return retime ? retime(v, time, kind) : time;
    });
    anchor_.push_back(v);
    copy_.add_kernels(v, made, [&](OpWork work) { return rework ? rework(v, work) : work; });
    for (const TensorId t : graph_.outputs(v)) {
      const Tensor& tensor = graph_.tensor(t);
      if (!tensor.control)
        tensors_[t] = copy_.add_tensor(t, made, resize ? resize(t) : tensor.size);
    }
    if (after) after(v);
  }
}

OpId Copying::insert(const OpSpec& spec, OpId anchor, const OpWork& work,
                     std::optional<Duration> time) {
  OpSpec timed = spec;
  const auto& kinds = graph_.device_kinds();
  timed.compute = kinds.empty() ? time.value_or(Duration{}) : Duration{};
  const OpId made = copy_.builder().add_op(timed);
  if (!time && work.none()) time = Duration{};
  for (const std::string& kind : kinds) copy_.builder().set_compute(made, kind, time);
  copy_.builder().add_kernel(made, work);
  anchor_.push_back(anchor);
  colocated_.emplace_back(made, anchor);
  return made;
}

std::string Copying::unique_name(const std::string& name) {
  if (names_.empty())
    for (const OpId v : graph_.ops()) names_.insert(graph_.name(v));
  std::string candidate = name;
  for (int n = 2; names_.contains(candidate) || copy_.builder().find(candidate); ++n)
    candidate = fmt::format("{}_{}", name, n);
  return candidate;
}

Change Copying::built() && {
  for (const auto& [made, v] : colocated_)
    if (copy_.copy_of(v) != no_op) copy_.colocate(made, v);
  IdVector<OpId, OpId> renumbered;
  Transformed copied = std::move(copy_).built(&renumbered);
  Change change{.graph = std::move(copied.graph), .mapped_op = std::move(copied.mapped_op)};
  change.anchor.assign(anchor_.size(), OpId{});
  for (const OpId v : renumbered.ids()) change.anchor[renumbered[v]] = anchor_[v];
  if (rework) {
    change.reworked.assign(anchor_.size(), false);
    for (const OpId v : graph_.ops()) {
      const OpId now = change.mapped_op[v];
      if (now == no_op) continue;
      const auto old = graph_.kernels(v), kernels = change.graph.kernels(now);
      change.reworked[now] = !std::equal(old.begin(), old.end(), kernels.begin(), kernels.end());
    }
  }
  return change;
}

}  // namespace baechi::what_if
