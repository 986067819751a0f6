#include "sim/cluster/bound.h"

namespace baechi {

Bound bound_by_work(const OpGraph& graph, OpId op, const DeviceModel& model) {
  if (graph.kernels(op).empty()) return Bound::host;
  double launches = 0.0, arithmetic = 0.0, traffic = 0.0;  // seconds
  for (const OpWork& kernel : graph.kernels(op)) {
    launches += to_us(model.launch) / 1e6;
    const Arithmetic& units = model.at(kernel.precision);
    const double rate = units.peak.flop_per_second * units.efficiency.of(graph.kind(op));
    if (kernel.flops > 0 && rate > 0.0)
      arithmetic += (static_cast<double>(kernel.flops) + units.half_flops) / rate;
    if (kernel.traffic > Bytes{})
      traffic += static_cast<double>((kernel.traffic + model.half_traffic).count) /
                 (model.bandwidth.bytes_per_second *
                  Efficiency::of(graph.kind(op), model.passes, model.bandwidth_efficiency));
  }
  if (launches > arithmetic && launches > traffic) return Bound::host;
  return arithmetic >= traffic ? Bound::compute : Bound::memory;
}

}  // namespace baechi
