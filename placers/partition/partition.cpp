#include "placers/partition/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/error.h"
#include "sim/problem/problem.h"

namespace baechi::partition {

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
