#include "sim/transform/what_if/bound.h"

#include "sim/transform/kind_words.h"

namespace baechi::what_if {
namespace {

Bound by_work(const OpGraph& graph, OpId v, const DeviceModel& model) {
  double launches = 0.0, arithmetic = 0.0, traffic = 0.0;  // seconds
  for (const OpWork& kernel : graph.kernels(v)) {
    launches += to_us(model.launch) / 1e6;
    const Arithmetic& units = model.at(kernel.precision);
    const double rate = units.peak.flop_per_second * units.efficiency.of(graph.kind(v));
    if (kernel.flops > 0 && rate > 0.0)
      arithmetic += (static_cast<double>(kernel.flops) + units.half_flops) / rate;
    if (kernel.traffic > Bytes{})
      traffic += static_cast<double>((kernel.traffic + model.half_traffic).count) /
                 (model.bandwidth.bytes_per_second * model.bandwidth_efficiency);
  }
  if (launches > arithmetic && launches > traffic) return Bound::host;
  return arithmetic >= traffic ? Bound::compute : Bound::memory;
}

}  // namespace

IdVector<OpId, Bound> bounds_of(const Scope& scope) {
  const OpGraph& graph = scope.graph();
  const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph);
  IdVector<OpId, Bound> bounds(graph.num_ops(), Bound::memory);
  for (const OpId v : graph.ops()) {
    if (!graph.kernels(v).empty() && !scope.devices.models.empty())
      bounds[v] = by_work(graph, v, *scope.devices.models.front());
    else if (graph.lanes()[index(graph.lane(v))].starts_with("host"))
      bounds[v] = Bound::host;
    else if (computes[graph.op(v).kind])
      bounds[v] = Bound::compute;
  }
  return bounds;
}

}  // namespace baechi::what_if
