#include "sim/problem/limits.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/saturated.h"

namespace baechi {
namespace {

/// One device for each class of devices on which every op takes the same time.
std::vector<DeviceId> device_classes(const Cluster& cluster, const CostModel& costs) {
  std::vector<DeviceId> classes;
  for (const DeviceId d : cluster.devices()) {
    if (std::ranges::none_of(classes, [&](DeviceId c) { return costs.same_compute(c, d); }))
      classes.push_back(d);
  }
  return classes;
}

struct Pair {
  DeviceId src{}, dst{};
};

/// One pair of devices for each class of links.
std::vector<Pair> link_classes(const Cluster& cluster, const CostModel& costs) {
  std::vector<Pair> classes;
  for (const DeviceId src : cluster.devices()) {
    for (const DeviceId dst : cluster.devices()) {
      if (src == dst) continue;
      const auto same = [&](const Pair& c) {
        return cluster.link(c.src, c.dst) == cluster.link(src, dst);
      };
      if (std::ranges::none_of(classes, same)) classes.push_back({src, dst});
      if (costs.uniform_transfers()) return classes;
    }
  }
  return classes;
}

/// A sum of times, and where its largest part comes from.
struct Sum {
  std::int64_t total = 0, largest = 0;
  std::string where;

  void add(std::int64_t part, auto describe) {
    total = saturated_sum(total, part);
    if (part <= largest) return;
    largest = part;
    where = describe();
  }
};

Sum compute_times(const OpGraph& graph, const Cluster& cluster, const CostModel& costs) {
  Sum sum;
  bool all_run = true;
  const std::vector<DeviceId> classes = device_classes(cluster, costs);
  for (const OpId v : graph.ops()) {
    Duration slowest{};
    DeviceId on{};
    for (const DeviceId d : classes) {
      const Duration time = costs.compute(v, d);
      if (time == cannot_run)
        all_run = false;
      else if (time > slowest)
        std::tie(slowest, on) = std::pair(time, d);
    }
    sum.add(slowest.count(), [&] {
      const Device& device = cluster.device(on);
      return fmt::format("op '{}', {} at speed {} on {}", graph.name(v), to_text(slowest),
                         device.speed, device.name);
    });
  }
  if (!all_run && sum.largest >= cannot_run.count())
    throw InputError(fmt::format(
        "where some ops cannot run on some devices, an op must take less than 19 hours: {}",
        sum.where));
  return sum;
}

Sum transfer_times(const OpGraph& graph, const Cluster& cluster, const CostModel& costs) {
  Sum sum;
  const std::vector<Pair> classes = link_classes(cluster, costs);
  for (const TensorId t : graph.tensors()) {
    const auto readers = static_cast<std::int64_t>(graph.readers(t).size());
    if (readers == 0) continue;
    Duration slowest{};
    Pair over{};
    for (const Pair& pair : classes) {
      const Duration time = costs.transfer(t, pair.src, pair.dst);
      if (time > slowest) std::tie(slowest, over) = std::pair(time, pair);
    }
    sum.add(saturated_product(readers, slowest.count()), [&] {
      return fmt::format("link {}-{}, {}", cluster.device(over.src).name,
                         cluster.device(over.dst).name,
                         to_text(cluster.link(over.src, over.dst).bandwidth));
    });
  }
  return sum;
}

/// "a step", or "a step of 512 micro-batches".
std::string step_of(std::int64_t times) {
  return times == 1 ? "a step" : fmt::format("a step of {} micro-batches", times);
}

void check_bytes(const OpGraph& graph, std::int64_t times) {
  Sum sum;
  for (const OpId v : graph.ops())
    sum.add(footprint(graph, v).count, [&] { return fmt::format("op '{}'", graph.name(v)); });
  for (const TensorId t : graph.tensors()) {
    const Tensor& tensor = graph.tensor(t);
    const auto readers = static_cast<std::int64_t>(graph.readers(t).size());
    sum.add(saturated_product(readers, tensor.size.count), [&] {
      return fmt::format("an output of op '{}', {}, {} readers", graph.name(tensor.producer),
                         to_text(tensor.size), readers);
    });
  }
  // List schedulers ask for room beside all that: reserved for groups, and twice as much spare.
  constexpr std::int64_t limit = count_limit / 4;
  if (saturated_product(times, sum.total) >= limit)
    throw InputError(
        fmt::format("{} could move or hold more than 1 EiB: {}", step_of(times), sum.where));
}

/// Each collective over the first devices, and over devices as far apart as it gets.
Sum collective_times(const OpGraph& graph, const Cluster& cluster, const CostModel& costs) {
  Sum sum;
  const auto known = cluster.devices();
  const std::vector<DeviceId> devices(known.begin(), known.end());
  for (const Collective& c : graph.collectives()) {
    const std::size_t count = std::min<std::size_t>(c.members, devices.size());
    std::vector<DeviceId> apart;
    for (std::size_t i = 0; i < count; ++i) apart.push_back(devices[i * devices.size() / count]);
    const Duration near = costs.collective(c, std::span(devices).first(count));
    sum.add(std::max(near, costs.collective(c, apart)).count(), [&] {
      return fmt::format("{} of '{}', {}", to_text(c.kind), graph.name(c.first), to_text(c.bytes));
    });
  }
  return sum;
}

}  // namespace

void check_limits(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                  std::int64_t times) {
  check_bytes(graph, times);
  const Sum compute = compute_times(graph, cluster, costs);
  const Sum transfers = transfer_times(graph, cluster, costs);
  const Sum collectives = collective_times(graph, cluster, costs);
  if (collectives.total >= count_limit && cluster.num_devices() == 1 &&
      cluster.link(DeviceId{}, DeviceId{}).bandwidth == Bandwidth{})
    throw InputError(fmt::format(
        "the cluster has no link (cluster.link) over which replicas could exchange anything: {}",
        collectives.where));
  const std::int64_t once =
      saturated_sum(saturated_sum(compute.total, transfers.total), collectives.total);
  if (saturated_product(times, once) < count_limit) return;
  const auto by_largest = [](const Sum& a, const Sum& b) { return a.largest < b.largest; };
  throw InputError(fmt::format("{} could take more than 146 years: {}", step_of(times),
                               std::max({compute, transfers, collectives}, by_largest).where));
}

}  // namespace baechi
