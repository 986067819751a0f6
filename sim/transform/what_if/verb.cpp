#include "sim/transform/what_if/verb.h"

#include <algorithm>
#include <cmath>

namespace baechi::what_if {

MakeVerb make_scale, make_set, make_limit, make_batch, make_remove, make_merge, make_insert,
    make_split, make_offload, make_collective, make_drop_edges, make_add_edge;

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
      times[v] = Duration{
          std::llround(static_cast<double>(known->count()) * static_cast<double>(is[v].count()) /
                       static_cast<double>(by_work[v].count()))};
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

}  // namespace baechi::what_if
