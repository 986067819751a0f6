#include "sim/cluster/device_model.h"
#include "sim/measure/measure.h"

namespace baechi {
namespace {

/// Sums over ops and devices; times in seconds.
struct Sums {
  double step = 0.0, busy = 0.0;
  double flops = 0.0, traffic = 0.0;
  double at_peak = 0.0, at_bandwidth = 0.0;
  std::array<double, all<Bound>().size()> bound{};
  bool known = true;  ///< the models of all devices with ops are known

  void add(const Sums& other) {
    step += other.step;
    busy += other.busy;
    flops += other.flops;
    traffic += other.traffic;
    at_peak += other.at_peak;
    at_bandwidth += other.at_bandwidth;
    for (std::size_t b = 0; b < bound.size(); ++b) bound[b] += other.bound[b];
    known = known && other.known;
  }
};

double seconds(Duration time) {
  return to_us(time) / 1e6;
}

std::optional<double> fraction(double part, double whole) {
  if (!(whole > 0.0)) return std::nullopt;
  return part / whole;
}

void add_op(Sums& sums, const Problem& problem, OpId v, DeviceId d, const DeviceModel* model) {
  for (const OpWork& kernel : problem.graph.kernels(v)) {
    sums.flops += static_cast<double>(kernel.flops);
    sums.traffic += static_cast<double>(kernel.traffic.count);
    if (model == nullptr) continue;
    const double peak = model->at(kernel.precision).peak.flop_per_second;
    if (kernel.flops > 0 && peak <= 0.0) sums.known = false;
    if (peak > 0.0) sums.at_peak += static_cast<double>(kernel.flops) / peak;
    sums.at_bandwidth +=
        static_cast<double>(kernel.traffic.count) / model->bandwidth.bytes_per_second;
  }
  if (model == nullptr) {
    sums.known = false;
  } else if (index(problem.graph.lane(v)) == 0) {
    const Bound bound = bound_by_work(problem.graph, v, *model);
    sums.bound[static_cast<std::size_t>(bound)] += seconds(problem.costs.compute(v, d));
  }
}

Utilisation fractions(const Sums& sums, bool has_work) {
  Utilisation found{.busy = fraction(sums.busy, sums.step)};
  if (!has_work || !found.busy) return found;
  found.flops = sums.flops;
  found.traffic = sums.traffic;
  if (!sums.known) return found;
  found.flops_of_step = fraction(sums.at_peak, sums.step);
  found.flops_of_busy = fraction(sums.at_peak, sums.busy);
  found.traffic_of_step = fraction(sums.at_bandwidth, sums.step);
  const double ops = sums.bound[0] + sums.bound[1] + sums.bound[2];
  found.compute_bound = fraction(sums.bound[static_cast<std::size_t>(Bound::compute)], ops);
  found.memory_bound = fraction(sums.bound[static_cast<std::size_t>(Bound::memory)], ops);
  found.launch_bound = fraction(sums.bound[static_cast<std::size_t>(Bound::host)], ops);
  return found;
}

}  // namespace

std::optional<double> Utilisation::intensity() const {
  return flops ? fraction(*flops, *traffic) : std::nullopt;
}

StepUtilisation utilisation(const Problem& problem, const Placement& placement,
                            std::span<const DeviceModel* const> models, Duration step,
                            std::span<const Duration> busy) {
  IdVector<DeviceId, Sums> sums(problem.cluster.num_devices());
  for (const DeviceId d : problem.cluster.devices()) {
    sums[d].step = seconds(step);
    sums[d].busy = seconds(busy[index(d)]);
  }
  const bool has_work = problem.graph.has_work();
  if (has_work)
    for (const OpId v : problem.graph.ops()) {
      const DeviceId d = placement.device[v];
      add_op(sums[d], problem, v, d, models[index(d)]);
    }
  StepUtilisation found;
  Sums total;
  for (const Sums& device : sums) {
    total.add(device);
    found.devices.push_back(fractions(device, has_work));
  }
  found.step = fractions(total, has_work);
  return found;
}

}  // namespace baechi
