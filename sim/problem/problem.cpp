#include "sim/problem/problem.h"

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/problem/step.h"

namespace baechi {
namespace {

/// Wide enough for times multiplied by numbers of devices or pairs.
__extension__ typedef __int128 WideTime;

}  // namespace

std::vector<Pairs> pairs_by_link(const Cluster& cluster) {
  std::vector<Pairs> classes;
  std::size_t last = 0;  // the class of the previous pair, usually the same
  for (const DeviceId src : cluster.devices()) {
    for (const DeviceId dst : cluster.devices()) {
      if (src == dst) continue;
      const Link& link = cluster.link(src, dst);
      const auto same = [&](const Pairs& p) { return cluster.link(p.src, p.dst) == link; };
      if (last == classes.size() || !same(classes[last]))
        last = static_cast<std::size_t>(std::ranges::find_if(classes, same) - classes.begin());
      if (last == classes.size()) classes.push_back({src, dst});
      ++classes[last].count;
    }
  }
  return classes;
}

IdVector<OpId, Duration> mean_compute(const Problem& p) {
  IdVector<OpId, Duration> mean(p.graph.num_ops());
  for (const OpId v : p.graph.ops()) {
    WideTime sum = 0;
    std::int64_t able = 0;
    for (const DeviceId d : p.cluster.devices()) {
      const Duration time = p.costs.compute(v, d);
      if (time == cannot_run) continue;
      sum += time.count();
      ++able;
    }
    mean[v] = Duration{static_cast<std::int64_t>(sum / std::max<std::int64_t>(able, 1))};
  }
  return mean;
}

IdVector<TensorId, Duration> mean_transfer(const Problem& p) {
  IdVector<TensorId, Duration> mean(p.graph.num_tensors());
  const std::vector<Pairs> classes = pairs_by_link(p.cluster);
  std::int64_t pairs = 0;
  for (const Pairs& same : classes) pairs += same.count;
  if (pairs == 0) return mean;
  for (const TensorId t : p.graph.tensors()) {
    if (p.graph.readers(t).empty()) continue;
    WideTime sum = 0;
    for (const Pairs& same : classes)
      sum += WideTime{same.count} * p.costs.transfer(t, same.src, same.dst).count();
    mean[t] = Duration{static_cast<std::int64_t>(sum / pairs)};
  }
  return mean;
}

Bytes bytes_read(const OpGraph& graph, OpId v) {
  Bytes sum;
  for (const EdgeId e : graph.in_edges(v)) {
    const Tensor& read = graph.tensor(graph.edge(e).tensor);
    sum += std::min(read.held(), read.copied());
  }
  return sum;
}

std::vector<DeviceClass> device_classes(const Problem& problem) {
  const Cluster& cluster = problem.cluster;
  constexpr Bytes unbounded{std::int64_t{1} << 62};
  std::vector<DeviceClass> classes;
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    const Bytes memory =
        device.is_core() || !problem.engine.enforce_memory ? unbounded : device.memory;
    const auto it = std::ranges::find_if(classes, [&](const DeviceClass& cls) {
      const Device& other = cluster.device(cls.devices.front());
      return other.kind == device.kind && other.speed == device.speed && cls.memory == memory;
    });
    if (it != classes.end())
      it->devices.push_back(d);
    else
      classes.push_back({.devices = {d}, .core = device.is_core(), .memory = memory});
  }
  return classes;
}

PeakMemory peak_memory(const Problem& problem, const Placement& placement, DeviceId device,
                       const MemoryUse& at_peak) {
  PeakMemory peak{.activations = at_peak[MemoryKind::outputs],
                  .workspace = at_peak[MemoryKind::workspace],
                  .copies = at_peak[MemoryKind::copies],
                  .distinguished = !persistent_of_one_kind(problem.graph)};
  Bytes all, left = at_peak[MemoryKind::weights];
  for (const OpId v : problem.graph.ops()) {
    if (placement.device[v] != device) continue;
    const Op& op = problem.graph.op(v);
    all += op.persistent;
    const Bytes held = std::min(op.persistent, left);
    left -= held;
    const Bytes cache = std::min(held, problem.graph.cache(v));
    peak.cache += cache;
    (op.phase == Phase::forward    ? peak.weights
     : op.phase == Phase::backward ? peak.gradients
                                   : peak.optimizer_state) += held - cache;
  }
  if (problem.engine.semantics == Semantics::baechi && at_peak[MemoryKind::weights] < all)
    peak.distinguished = false;
  if (!peak.distinguished) {
    peak.weights = at_peak[MemoryKind::weights] - peak.cache;
    peak.gradients = peak.optimizer_state = {};
  }
  return peak;
}

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

/// The pairs of devices between which transfer times differ.
std::vector<Pairs> link_classes(const Cluster& cluster, const CostModel& costs) {
  std::vector<Pairs> classes = pairs_by_link(cluster);
  if (costs.uniform_transfers() && !classes.empty()) classes.resize(1);
  return classes;
}

/// A sum, and the number of its largest part; ties: of the first.
struct Sum {
  std::int64_t total = 0, largest = 0;
  std::size_t where = 0;

  void add(std::int64_t part, std::size_t number) {
    total = saturated_sum(total, part);
    if (part <= largest) return;
    largest = part;
    where = number;
  }
};

/// The times of a graph's ops and tensors where they take longest.
class Slowest {
 public:
  Slowest(const OpGraph& graph, const Cluster& cluster, const CostModel& costs)
      : graph_(graph),
        cluster_(cluster),
        costs_(costs),
        devices_(device_classes(cluster, costs)),
        pairs_(link_classes(cluster, costs)) {}

  Sum compute_times() const {
    Sum sum;
    bool all_run = true;
    for (const OpId v : graph_.ops()) {
      Duration slowest{};
      for (const DeviceId d : devices_) {
        const Duration time = costs_.compute(v, d);
        if (time == cannot_run)
          all_run = false;
        else
          slowest = std::max(slowest, time);
      }
      sum.add(slowest.count(), index(v));
    }
    if (!all_run && sum.largest >= cannot_run.count())
      throw InputError(fmt::format(
          "where some ops cannot run on some devices, an op must take less than 19 hours: {}",
          op_text(sum)));
    return sum;
  }

  Sum transfer_times() const {
    Sum sum;
    for (const TensorId t : graph_.tensors()) {
      const auto readers = static_cast<std::int64_t>(graph_.readers(t).size());
      if (readers == 0) continue;
      Duration slowest{};
      for (const Pairs& pair : pairs_)
        slowest = std::max(slowest, costs_.transfer(t, pair.src, pair.dst));
      sum.add(saturated_product(readers, slowest.count()), index(t));
    }
    return sum;
  }

  std::string op_text(const Sum& sum) const {
    const auto v = static_cast<OpId>(sum.where);
    const auto takes_longest = [&](DeviceId d) {
      return costs_.compute(v, d) == Duration{sum.largest};
    };
    const DeviceId on = *std::ranges::find_if(devices_, takes_longest);
    const Device& device = cluster_.device(on);
    return fmt::format("op '{}', {} at speed {} on {}", graph_.name(v),
                       to_text(Duration{sum.largest}), device.speed, device.name);
  }

  std::string link_text(const Sum& sum) const {
    const auto t = static_cast<TensorId>(sum.where);
    const Pairs over = *std::ranges::max_element(
        pairs_, {}, [&](const Pairs& pair) { return costs_.transfer(t, pair.src, pair.dst); });
    return fmt::format("link {}-{}, {}", cluster_.device(over.src).name,
                       cluster_.device(over.dst).name,
                       to_text(cluster_.link(over.src, over.dst).bandwidth));
  }

 private:
  const OpGraph& graph_;
  const Cluster& cluster_;
  const CostModel& costs_;
  std::vector<DeviceId> devices_;
  std::vector<Pairs> pairs_;
};

/// "a step", or "a step of 512 micro-batches".
std::string step_of(std::int64_t times) {
  return times == 1 ? "a step" : fmt::format("a step of {} micro-batches", times);
}

void check_bytes(const OpGraph& graph, std::int64_t times) {
  Sum sum;  // of ops, then of tensors
  for (const OpId v : graph.ops()) sum.add(footprint(graph, v).count, index(v));
  for (const TensorId t : graph.tensors()) {
    const auto readers = static_cast<std::int64_t>(graph.readers(t).size());
    sum.add(saturated_product(readers, graph.tensor(t).size.count), graph.num_ops() + index(t));
  }
  // List schedulers reserve more: memory of groups, and a spare of twice as much.
  constexpr std::int64_t limit = count_limit / 4;
  if (saturated_product(times, sum.total) < limit) return;
  std::string where;
  if (sum.where < graph.num_ops()) {
    where = fmt::format("op '{}'", graph.name(static_cast<OpId>(sum.where)));
  } else {
    const auto t = static_cast<TensorId>(sum.where - graph.num_ops());
    const Tensor& tensor = graph.tensor(t);
    where = fmt::format("an output of op '{}', {}, {} readers", graph.name(tensor.producer),
                        to_text(tensor.size), graph.readers(t).size());
  }
  throw InputError(fmt::format("{} could move or hold more than 1 EiB: {}", step_of(times), where));
}

/// Times over adjacent devices and over devices spread over the cluster, whichever is longer.
Sum collective_times(const OpGraph& graph, const Cluster& cluster, const CostModel& costs) {
  Sum sum;
  const auto known = cluster.devices();
  const std::vector<DeviceId> devices(known.begin(), known.end());
  for (const CollectiveId id : graph.collectives().ids()) {
    const Collective& c = graph.collectives()[id];
    const std::size_t count = std::min<std::size_t>(c.members, devices.size());
    std::vector<DeviceId> apart;
    for (std::size_t i = 0; i < count; ++i) apart.push_back(devices[i * devices.size() / count]);
    const Duration near = costs.collective(c, std::span(devices).first(count));
    sum.add(std::max(near, costs.collective(c, apart)).count(), index(id));
  }
  return sum;
}

std::string collective_text(const OpGraph& graph, const Sum& sum) {
  const Collective& c = graph.collectives()[static_cast<CollectiveId>(sum.where)];
  return fmt::format("{} of '{}', {}", to_text(c.kind), graph.name(c.first), to_text(c.bytes));
}

}  // namespace

void refuse_factor(std::string_view key, double factor) {
  throw InputError(
      fmt::format("engine.{}: {}: a step could take more than 146 years", key, factor));
}

void check_factors(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                   const EngineOptions& engine) {
  const auto fits = [](const Sum& sum, double factor) {
    return static_cast<double>(sum.largest) * factor < static_cast<double>(count_limit);
  };
  if (engine.overlapped != 1.0 && !fits(collective_times(graph, cluster, costs), engine.overlapped))
    refuse_factor("overlapped", engine.overlapped);
  if (engine.disturbed != 1.0 && !graph.collectives().empty() &&
      !fits(Slowest(graph, cluster, costs).compute_times(), engine.disturbed))
    refuse_factor("disturbed", engine.disturbed);
}

std::vector<SplitGroup> split_groups(const Placement& placement, const OpGraph& graph) {
  std::vector<SplitGroup> split;
  for (const GroupId g : graph.groups()) {
    const auto members = graph.members(g);
    const DeviceId device = placement.device[members.front()];
    const auto other =
        std::ranges::find_if(members, [&](OpId v) { return placement.device[v] != device; });
    if (other != members.end()) split.push_back({g, members.front(), *other});
  }
  return split;
}

void check_limits(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                  std::int64_t times) {
  check_bytes(graph, times);
  const Slowest slowest(graph, cluster, costs);
  const Sum compute = slowest.compute_times();
  const Sum transfers = slowest.transfer_times();
  const Sum collectives = collective_times(graph, cluster, costs);
  if (collectives.total >= count_limit && cluster.num_devices() == 1 &&
      cluster.link(DeviceId{}, DeviceId{}).bandwidth == Bandwidth{})
    throw InputError(fmt::format(
        "the cluster has no link (cluster.link) over which replicas could exchange anything: {}",
        collective_text(graph, collectives)));
  const std::int64_t once =
      saturated_sum(saturated_sum(compute.total, transfers.total), collectives.total);
  if (saturated_product(times, once) < count_limit) return;
  const std::int64_t largest = std::max({compute.largest, transfers.largest, collectives.largest});
  throw InputError(fmt::format("{} could take more than 146 years: {}", step_of(times),
                               compute.largest == largest ? slowest.op_text(compute)
                               : transfers.largest == largest
                                   ? slowest.link_text(transfers)
                                   : collective_text(graph, collectives)));
}

}  // namespace baechi
