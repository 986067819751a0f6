#include "sim/cluster/original_costs.h"

#include <algorithm>
#include <cmath>

#include "sim/saturated.h"

namespace baechi {

OriginalCosts::OriginalCosts(const OpGraph& graph, const Cluster& cluster, Fit fit)
    : graph_(graph), profiled_(graph, cluster), fit_(fit) {}

Duration OriginalCosts::transfer_time(Bytes size, Fit fit) {
  if (fit.empty_free && size == Bytes{}) return Duration::zero();
  // nearbyint rounds half to even in the default mode, as Python's round() does.
  const double us =
      fit.factor * fit.us_per_byte * static_cast<double>(size.count) + fit.intercept_us;
  if (!fit.whole_us) return Duration{saturated(std::nearbyint(us * 1000.0))};
  return Duration{saturated_product(saturated(std::nearbyint(us)), 1000)};
}

Duration OriginalCosts::transfer(TensorId tensor, DeviceId /*src*/, DeviceId /*dst*/) const {
  if (const auto measured = graph_.measured_transfer(tensor)) return *measured;
  return transfer_time(graph_.tensor(tensor).size, fit_);
}

Duration OriginalCosts::latency(TensorId tensor, DeviceId src, DeviceId dst) const {
  if (graph_.measured_transfer(tensor)) return Duration::zero();
  return std::min(transfer(tensor, src, dst),
                  transfer_time(Bytes{}, {.us_per_byte = 0.0, .intercept_us = fit_.intercept_us}));
}

}  // namespace baechi
