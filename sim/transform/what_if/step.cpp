#include "sim/transform/what_if/step.h"

#include <algorithm>
#include <cmath>

namespace baechi::what_if {
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
