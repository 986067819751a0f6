#include "placers/topo_memory.h"

#include <algorithm>

#include "placers/interface/memory_floor.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

constexpr DeviceId unknown{~std::uint32_t{0}};

}  // namespace

TopoMemory::TopoMemory(const Problem& problem, const ColocationUnits& units, Variant variant)
    : graph_(problem.graph),
      units_(units),
      copies_count_(variant == Variant::pytorch),
      cached_(problem.engine.cache_tensors),
      limit_(memory_limits(problem)),
      needs_(units.size()),
      device_(problem.graph.num_ops(), unknown),
      kept_(problem.cluster.num_devices()),
      workspace_(problem.cluster.num_devices()) {
  if (copies_count_) copied_.assign(graph_.num_tensors() * kept_.size(), false);
  for (const UnitId u : units.units()) {
    Unit& need = needs_[u];
    if (!copies_count_) {
      need.kept = units.needs(u).footprint;
    } else {
      for (const OpId v : units.members(u)) {
        need.kept += graph_.op(v).persistent + output_bytes(graph_, v);
        need.workspace = std::max(need.workspace, graph_.op(v).temporary);
      }
    }
    total_ += need.kept;
    largest_ = std::max(largest_, need.kept + need.workspace);
  }
}

/// The copies that placing `u` on `d` adds, each as often as it takes memory:
/// - tensors that `u` reads from other devices;
/// - tensors of `u` that ops already placed on other devices read: a group is placed with its first
///   member, so a later member may be placed before the ops that it reads.
std::vector<TopoMemory::Copy> TopoMemory::new_copies(UnitId u, DeviceId d) const {
  std::vector<Copy> copies;
  if (!copies_count_) return copies;
  const auto add = [&](const Edge& edge, DeviceId other, DeviceId to) {
    if (other != unknown && other != d) copies.push_back({edge.tensor, to});
  };
  for (const OpId v : units_.members(u)) {
    for (const EdgeId e : graph_.in_edges(v)) add(graph_.edge(e), device_[graph_.edge(e).src], d);
    for (const EdgeId e : graph_.out_edges(v)) {
      const DeviceId reader = device_[graph_.edge(e).dst];
      add(graph_.edge(e), reader, reader);
    }
  }
  if (!cached_) return copies;
  std::ranges::sort(copies);
  const auto same = std::ranges::unique(copies);
  copies.erase(same.begin(), same.end());
  std::erase_if(copies, [this](const Copy& c) { return is_copied(c); });
  return copies;
}

IdVector<DeviceId, Bytes> TopoMemory::after(UnitId u, DeviceId d) const {
  IdVector<DeviceId, Bytes> used = kept_;
  used[d] += needs_[u].kept;
  for (const Copy& c : new_copies(u, d)) used[c.to] += graph_.tensor(c.tensor).copied();
  for (const DeviceId other : used.ids())
    used[other] += other == d ? std::max(workspace_[d], needs_[u].workspace) : workspace_[other];
  return used;
}

bool TopoMemory::fits(UnitId u, DeviceId d, Bytes room) const {
  if (kept_[d] + needs_[u].kept + std::max(workspace_[d], needs_[u].workspace) > room) return false;
  if (!copies_count_) return true;
  const IdVector<DeviceId, Bytes> used = after(u, d);
  return std::ranges::all_of(used.ids(), [&](DeviceId other) {
    return used[other] <= (other == d ? room : limit_[other]);
  });
}

void TopoMemory::put(UnitId u, DeviceId d) {
  kept_[d] += needs_[u].kept;
  if (!copies_count_) return;
  for (const Copy& c : new_copies(u, d)) {
    kept_[c.to] += graph_.tensor(c.tensor).copied();
    copied_[index(c.tensor) * kept_.size() + index(c.to)] = true;
  }
  workspace_[d] = std::max(workspace_[d], needs_[u].workspace);
  for (const OpId v : units_.members(u)) device_[v] = d;
}

}  // namespace baechi
