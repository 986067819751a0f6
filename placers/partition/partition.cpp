#include "placers/partition/partition.h"

#include "placers/exact/descent.h"
#include "placers/interface/placer.h"
#include "sim/random.h"

namespace baechi::partition {
namespace {

/// The best of several descents of max_load: from random devices for all bundles, always applies
/// the move of one bundle between accelerators that gains most, until none gains. Source: Tarnawski
/// et al., NeurIPS 2020, the local search baseline. Ignores memory and contiguity. Differs: bundles
/// that no accelerator runs stay on a core.
class LocalSearch final : public Placer {
 public:
  explicit LocalSearch(Options& o)
      : restarts_(
            o.get("restarts", std::int64_t{10}, "descents, each from another random split", 1)) {}

  Placement place(const Problem& p, std::uint64_t seed) const override {
    const Partition partition(p);
    const exact::Bundles& bundles = partition.bundles();
    Random random(seed);
    exact::Loads loads(bundles, partition.classes());
    for (const exact::BundleId b : bundles.bundles())
      if (!partition.free(b)) loads.move(b, loads.of(partition.fixed(b)));
    std::optional<Duration> best;
    IdVector<exact::BundleId, DeviceId> device(bundles.size());
    for (std::int64_t restart = 0; restart < restarts_; ++restart) {
      draw(loads, partition, random);
      while (move_best(loads, partition)) {
      }
      const Duration load = loads.load(loads.busiest());
      if (best && load >= *best) continue;
      best = load;
      for (const exact::BundleId b : bundles.bundles()) device[b] = loads.device(loads.of(b));
    }
    Placement placement = partition.in_ops(device);
    placement.facts["max_load_us"] = best ? to_us(*best) : 0.0;
    return placement;
  }

 private:
  static void draw(exact::Loads& loads, const Partition& partition, Random& random) {
    const auto devices = partition.devices();
    for (const exact::BundleId b : partition.bundles().bundles())
      if (partition.free(b))
        loads.move(b, loads.of(devices[random.below(static_cast<std::uint32_t>(devices.size()))]));
  }

  /// False if no move gains. Only moves from or to the busiest device can gain. Ties: the lower
  /// bundle, then the device listed first.
  static bool move_best(exact::Loads& loads, const Partition& partition) {
    const exact::Loads::DeviceIndex busiest = loads.busiest();
    Duration least = loads.load(busiest);
    std::optional<std::pair<exact::BundleId, exact::Loads::DeviceIndex>> best;
    const auto consider = [&](exact::BundleId b, exact::Loads::DeviceIndex to) {
      const exact::Loads::DeviceIndex from = loads.of(b);
      if (from == to || !loads.can_run(b, to)) return;
      loads.move(b, to);
      const Duration load = loads.load(loads.busiest());
      if (load < least) {
        least = load;
        best = {b, to};
      }
      loads.move(b, from);
    };
    for (const exact::BundleId b : partition.bundles().bundles()) {
      if (!partition.free(b)) continue;
      if (loads.of(b) != busiest) {
        consider(b, busiest);
        continue;
      }
      for (const DeviceId d : partition.devices()) consider(b, loads.of(d));
    }
    if (best) loads.move(best->first, best->second);
    return best.has_value();
  }

  std::int64_t restarts_;
};

}  // namespace

std::unique_ptr<Placer> make_local_search(Options& o) { return std::make_unique<LocalSearch>(o); }

Partition::Partition(const Problem& problem)
    : problem_(problem),
      classes_(device_classes(problem)),
      bundles_(problem, ColocationUnits(problem.graph), classes_,
               {.leaves = exact::BundleRules::Leaves::apart}),
      home_(bundles_.size()),
      vertex_(bundles_.size(), fixed_vertex) {
  const bool cores_too = std::ranges::all_of(classes_, &DeviceClass::core);
  std::vector<std::size_t> class_of(problem.cluster.num_devices());
  for (std::size_t s = 0; s < classes_.size(); ++s)
    for (const DeviceId d : classes_[s].devices) {
      class_of[index(d)] = s;
      if (cores_too || !classes_[s].core) devices_.push_back(d);
    }
  std::ranges::sort(devices_);
  class_ = class_of[index(devices_.front())];
  for (const exact::BundleId b : bundles_.bundles()) {
    const auto runs = [&](DeviceId d) { return bundles_.time(b, class_of[index(d)]).has_value(); };
    if (std::ranges::all_of(devices_, runs)) {
      vertex_[b] = static_cast<std::uint32_t>(num_vertices_++);
      continue;
    }
    const auto all = problem.cluster.devices();
    const auto home = std::ranges::find_if(all, runs);
    if (home == all.end()) throw InfeasibleError("no device runs all ops that must share one");
    home_[b] = *home;
  }
}

Partition::Graph Partition::graph() const {
  const OpGraph& ops = problem_.graph;
  const IdVector<TensorId, Duration> transfer = mean_transfer(problem_);
  std::vector<std::map<std::uint32_t, std::int64_t>> costs(num_vertices_);
  for (const TensorId t : ops.tensors()) {
    const std::uint32_t from = vertex_[bundles_.of(ops.tensor(t).producer)];
    std::vector<std::uint32_t> readers;
    for (const EdgeId e : ops.readers(t)) readers.push_back(vertex_[bundles_.of(ops.edge(e).dst)]);
    std::ranges::sort(readers);
    readers.erase(std::ranges::unique(readers).begin(), readers.end());
    for (const std::uint32_t to : readers) {
      if (from == fixed_vertex || to == fixed_vertex || from == to) continue;
      costs[from][to] += transfer[t].count();
      costs[to][from] += transfer[t].count();
    }
  }
  Graph graph;
  for (const exact::BundleId b : bundles_.bundles())
    if (free(b)) graph.weight.push_back(bundles_.time(b, class_)->count());
  for (const auto& neighbours : costs) {
    for (const auto& [to, cost] : neighbours) {
      graph.neighbour.push_back(to);
      graph.cost.push_back(cost);
    }
    graph.begin.push_back(graph.neighbour.size());
  }
  return graph;
}

Placement Partition::in_ops(const IdVector<exact::BundleId, DeviceId>& device) const {
  Placement placement;
  for (const OpId v : problem_.graph.ops()) placement.device.push_back(device[bundles_.of(v)]);
  return placement;
}

Placement Partition::in_ops(std::span<const std::int64_t> part) const {
  IdVector<exact::BundleId, DeviceId> device = home_;
  for (const exact::BundleId b : bundles_.bundles())
    if (free(b)) device[b] = devices_[static_cast<std::size_t>(part[vertex_[b]])];
  return in_ops(device);
}

}  // namespace baechi::partition
