#include "sim/cluster/device_model.h"

#include <algorithm>
#include <cmath>

#include "sim/error.h"

namespace baechi {

IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model) {
  std::vector<double> flop_per_second;  // by kind of op
  for (const std::string& kind : graph.kinds()) {
    const auto it = model.kind.find(kind);
    flop_per_second.push_back(model.peak.flop_per_second *
                              (it == model.kind.end() ? model.efficiency : it->second));
  }
  const double bytes_per_second = model.bandwidth.bytes_per_second * model.bandwidth_efficiency;
  IdVector<OpId, Duration> times(graph.num_ops(), model.no_kernel);
  for (const Collective& c : graph.collectives())
    for (const OpId member : c.member_ids()) times[member] = Duration::zero();
  for (const OpId v : graph.ops()) {
    const auto kernels = graph.kernels(v);
    if (!kernels.empty()) times[v] = Duration::zero();
    for (const OpWork& kernel : kernels) {
      const double seconds =
          std::max(static_cast<double>(kernel.flops) / flop_per_second[graph.op(v).kind],
                   static_cast<double>(kernel.traffic.count) / bytes_per_second);
      constexpr double most = 4.6e9;  // seconds: 146 years
      if (!(to_us(times[v]) / 1e6 + seconds < most))
        throw InputError(fmt::format(
            "op '{}' takes more than 146 years on {}: a kernel of {} flops and {} bytes",
            graph.name(v), model.name, kernel.flops, kernel.traffic.count));
      times[v] += model.launch + Duration{static_cast<std::int64_t>(std::ceil(seconds * 1e9))};
    }
  }
  return times;
}

}  // namespace baechi
