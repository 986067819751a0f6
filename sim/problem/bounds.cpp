#include <fmt/format.h>

#include <cmath>
#include <set>

#include "sim/graph/analysis.h"
#include "sim/problem/problem.h"

namespace baechi {
namespace {

/// The time each op takes on its fastest device. [num_ops]
IdVector<OpId, Duration> least_times(const OpGraph& graph, const Cluster& cluster,
                                     const CostModel& costs) {
  IdVector<OpId, Duration> least(graph.num_ops(), Duration::max());
  for (const OpId v : graph.ops()) {
    for (const DeviceId d : cluster.devices()) least[v] = std::min(least[v], costs.compute(v, d));
  }
  return least;
}

/// Whether `v` is in lane "compute". Other lanes overlap with it.
bool takes_turns(const OpGraph& graph, OpId v) { return graph.lane(v) == compute_lane; }

/// The total least time of some ops, and the total rate of the devices on them.
struct Shared {
  Duration total{};
  double rates = 0.0;

  /// Time for the ops if they were divisible, in ns.
  double time() const {
    if (rates <= 0.0) return 0.0;
    // Reduced by more than the rounding error: a bound must never exceed the optimum.
    return static_cast<double>(total.count()) / rates * (1.0 - 1e-12);
  }
};

struct SharedWork {
  Shared all, but_updates;
};

/// The rate of device d is the largest ratio of least time to its own time among the ops.
SharedWork shared_work(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                       const IdVector<OpId, Duration>& least) {
  SharedWork work;
  for (const DeviceId d : cluster.devices()) {
    double passes = 0.0, updates = 0.0;
    for (const OpId v : graph.ops()) {
      if (!takes_turns(graph, v)) continue;
      const Duration own = costs.compute(v, d);
      if (own <= Duration::zero()) continue;
      double& rate = graph.op(v).phase == Phase::update ? updates : passes;
      rate =
          std::max(rate, static_cast<double>(least[v].count()) / static_cast<double>(own.count()));
    }
    work.all.rates += std::max(passes, updates);
    work.but_updates.rates += passes;
  }
  for (const OpId v : graph.ops()) {
    if (!takes_turns(graph, v)) continue;
    work.all.total += least[v];
    if (graph.op(v).phase != Phase::update) work.but_updates.total += least[v];
  }
  return work;
}

/// Each byte of weights that devices cannot hold crosses a link in each step.
Duration offload_bound(const OpGraph& graph, const Cluster& cluster) {
  Bytes excess;
  double bandwidth = 0.0;
  for (const OpId v : graph.ops()) excess = saturated_sum(excess, graph.op(v).persistent);
  for (const DeviceId d : cluster.devices()) {
    if (!cluster.device(d).computes()) continue;
    excess = excess - std::min(excess, cluster.device(d).memory);
    double fastest = 0.0;
    for (const DeviceId home : cluster.devices())
      if (!cluster.device(home).computes())
        fastest = std::max(fastest, cluster.link(home, d).bandwidth.bytes_per_second);
    bandwidth += fastest;
  }
  return Duration{static_cast<std::int64_t>(static_cast<double>(excess.count) * 1e9 / bandwidth)};
}

/// The message that weights (in training also gradients and optimizer state) do not fit.
std::string held_text(const OpGraph& graph, Bytes held, std::size_t devices, Bytes all) {
  std::array<Bytes, all_words<Phase>().size()> parts{};
  for (const OpId v : graph.ops())
    parts[static_cast<std::size_t>(graph.op(v).phase)] += graph.op(v).persistent;
  const auto [weights, gradients, optimizer] = parts;
  const std::string what =
      weights == held
          ? fmt::format("weights need {}", to_text(held))
          : fmt::format("a training step holds {} (weights {}, gradients {}, optimizer state {})",
                        to_text(held), to_text(weights), to_text(gradients), to_text(optimizer));
  return fmt::format("{}, all {} devices together have {}", what, devices, to_text(all));
}

void check_memory(const OpGraph& graph, const Cluster& cluster, LowerBounds& bounds) {
  Bytes all, largest;
  std::set<std::string> seen;  // ways to one memory count once
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    if (device.computes()) largest = std::max(largest, device.memory);
    if (device.computes() || seen.insert(device.kind).second)
      all = saturated_sum(all, device.memory);
  }
  const bool stays = seen.empty();  // no weights can wait
  const Bytes most = peak_upper_bound(graph);
  if (most <= largest) return;
  Bytes held;
  for (const OpId v : graph.ops()) held += graph.op(v).persistent;
  if (held > all) bounds.why_not = held_text(graph, held, cluster.num_devices(), all);
  const auto too_large = [&](const std::string& what, Bytes needed, Bytes read) {
    bounds.why_not = fmt::format(
        "{} needs {}{}, the largest device has {}", what, to_text(needed),
        read > Bytes{} ? fmt::format(", {} of it for what it reads", to_text(read)) : "",
        to_text(largest));
  };
  for (const OpId v : graph.ops()) {
    if (!bounds.why_not.empty()) break;
    const Bytes read = bytes_read(graph, v);
    if (footprint(graph, v) + read > largest)
      too_large(fmt::format("op '{}'", graph.name(v)), footprint(graph, v) + read, read);
  }
  for (const GroupId g : graph.groups()) {
    if (!bounds.why_not.empty() || !stays) break;
    Bytes persistent, other, read;
    for (const OpId v : graph.members(g)) {
      persistent += graph.op(v).persistent;
      const Bytes reads = bytes_read(graph, v);
      const Bytes need = footprint(graph, v) - graph.op(v).persistent + reads;
      if (need <= other) continue;
      other = need;
      read = reads;
    }
    if (persistent + other > largest)
      too_large(fmt::format("colocation group '{}'", graph.group_name(g)), persistent + other,
                read);
  }
  if (bounds.why_not.empty() && most > all) {
    const HeldAtOnce held = held_at_once(graph);
    if (held.total() > all)
      bounds.why_not = fmt::format(
          "while op '{}' runs, {} of weights and {} of outputs that it or later ops need are held: "
          "{}; all {} devices together have {}",
          graph.name(held.op), to_text(held.weights), to_text(held.live), to_text(held.total()),
          cluster.num_devices(), to_text(all));
  }
  bounds.fits_in_memory = bounds.why_not.empty();
}

}  // namespace

Duration LowerBounds::best() const { return std::max({critical_path, work, group, offload}); }

std::string_view LowerBounds::binding() const {
  if (critical_path == best()) return "critical path";
  if (work == best()) return "work";
  return group == best() ? "group" : "offload";
}

LowerBounds lower_bounds(const OpGraph& graph, const Cluster& cluster, const CostModel& costs) {
  LowerBounds bounds;
  // Update ops may run on hosts.
  const bool trains =
      std::ranges::any_of(graph.ops(), [&](OpId v) { return graph.op(v).phase == Phase::update; });
  if (!trains && cluster.num_computing() < cluster.num_devices()) {
    bounds = lower_bounds(graph, cluster.computing(), costs);
    bounds.offload = offload_bound(graph, cluster);
    bounds.why_not.clear();
    check_memory(graph, cluster, bounds);
    return bounds;
  }
  const IdVector<OpId, Duration> least = least_times(graph, cluster, costs);
  const IdVector<TensorId, Duration> free_transfers(graph.num_tensors());
  for (const Duration d : b_levels(graph, least, free_transfers))
    bounds.critical_path = std::max(bounds.critical_path, d);
  const SharedWork work = shared_work(graph, cluster, costs, least);
  // A step takes whole nanoseconds.
  bounds.work = Duration{static_cast<std::int64_t>(std::ceil(work.all.time()))};
  // Rounded down with a tolerance for the reduction in time(), which is negligible for the at most
  // 100 000 micro-batches of a pipeline.
  bounds.repeated = Duration{static_cast<std::int64_t>(work.but_updates.time() + 1e-6)};
  for (const GroupId g : graph.groups()) {
    Duration fastest = Duration::max();
    for (const DeviceId d : cluster.devices()) {
      Duration sum{};
      for (const OpId v : graph.members(g))
        if (takes_turns(graph, v)) sum = saturated_sum(sum, costs.compute(v, d));
      fastest = std::min(fastest, sum);
    }
    bounds.group = std::max(bounds.group, fastest);
  }
  check_memory(graph, cluster, bounds);
  return bounds;
}

}  // namespace baechi
