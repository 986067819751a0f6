#include "sim/cluster/cost_model.h"

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/random.h"

namespace baechi {

ProfiledCosts::ProfiledCosts(const OpGraph& graph, const Cluster& cluster)
    : graph_(graph),
      cluster_(cluster),
      has_host_(std::ranges::any_of(graph.lanes(), is_host_lane)),
      kind_(cluster.num_devices()) {
  const auto& kinds = graph.device_kinds();
  Mistakes mistakes;
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    if (device.kind.empty() || kinds.empty()) continue;
    const auto it = std::ranges::find(kinds, device.kind);
    if (it == kinds.end() && !device.computes()) continue;
    if (it == kinds.end()) {
      mistakes.add(fmt::format("device '{}' is of kind '{}'{}, but the trace has times for: {}",
                               device.name, device.kind, did_you_mean(device.kind, kinds),
                               fmt::join(kinds, ", ")));
      continue;
    }
    kind_[d] = static_cast<std::size_t>(it - kinds.begin());
  }
  mistakes.throw_if_any();
  if (kinds.empty()) return;
  std::vector<bool> used(kinds.size(), false);
  for (const std::size_t k : kind_) used[k] = true;
  std::vector<std::string_view> used_kinds;
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (used[k]) used_kinds.push_back(kinds[k]);
  for (const OpId v : graph.ops()) {
    bool runs = false;
    for (std::size_t k = 0; k < kinds.size(); ++k) runs = runs || (used[k] && graph.compute(v, k));
    if (!runs)
      throw InputError(fmt::format("op '{}' has no time for any device of the cluster: {}",
                                   graph.name(v), fmt::join(used_kinds, ", ")));
  }
}

Duration ProfiledCosts::compute(OpId op, DeviceId device) const {
  const std::size_t kind = kind_[device];
  Duration base = graph_.op(op).compute;  // on the first device type; < 0: none
  if (kind > 0) base = graph_.compute(op, kind).value_or(not_given);
  if (base < Duration::zero()) return cannot_run;
  const double speed = cluster_.device(device).speed;
  if (speed == 1.0 || (has_host_ && on_host(graph_, op))) return base;
  return Duration{saturated(std::ceil(static_cast<double>(base.count()) / speed))};
}

Duration ProfiledCosts::transfer(TensorId tensor, DeviceId src, DeviceId dst) const {
  if (const auto measured = graph_.measured_transfer(tensor)) return *measured;
  const Link& link = cluster_.link(src, dst);
  return saturated_sum(graph_.tensor(tensor).size / link.bandwidth, link.latency);
}

Duration ProfiledCosts::latency(TensorId tensor, DeviceId src, DeviceId dst) const {
  return graph_.measured_transfer(tensor) ? Duration::zero() : cluster_.link(src, dst).latency;
}

Duration ProfiledCosts::collective(const Collective& c, std::span<const DeviceId> devices) const {
  return cluster_.collectives().time(c, devices, cluster_);
}

bool ProfiledCosts::same_compute(DeviceId a, DeviceId b) const {
  return kind_[a] == kind_[b] && cluster_.device(a).speed == cluster_.device(b).speed;
}

bool ProfiledCosts::uniform_transfers() const {
  std::optional<Link> first;
  for (const DeviceId a : cluster_.devices()) {
    for (const DeviceId b : cluster_.devices()) {
      if (a == b) continue;
      if (!first) first = cluster_.link(a, b);
      if (cluster_.link(a, b) != *first) return false;
    }
  }
  return true;
}

OriginalCosts::OriginalCosts(const OpGraph& graph, const Cluster& cluster, Fit fit)
    : ProfiledCosts(graph, cluster), fit_(fit) {}

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

namespace {

Duration scaled(Duration time, double factor) {
  return Duration{saturated(std::round(static_cast<double>(time.count()) * factor))};
}

}  // namespace

PerturbedCosts::PerturbedCosts(const CostModel& truth, const OpGraph& graph, double error,
                               std::uint64_t seed)
    : truth_(truth), op_(graph.num_ops()), tensor_(graph.num_tensors()) {
  Random random(seed);
  const auto factor = [&] { return 1.0 + error * (2.0 * random.uniform() - 1.0); };
  for (double& f : op_) f = factor();
  for (double& f : tensor_) f = factor();
}

Duration PerturbedCosts::compute(OpId op, DeviceId device) const {
  return scaled(truth_.compute(op, device), op_[op]);
}

Duration PerturbedCosts::latency(TensorId tensor, DeviceId src, DeviceId dst) const {
  return scaled(truth_.latency(tensor, src, dst), tensor_[tensor]);
}

Duration PerturbedCosts::transfer(TensorId tensor, DeviceId src, DeviceId dst) const {
  return scaled(truth_.transfer(tensor, src, dst), tensor_[tensor]);
}

}  // namespace baechi
