#include "placers/interface/colocation.h"
#include "placers/original/original.h"
#include "sim/graph/analysis.h"

namespace baechi {

/// The counted bytes depend on the variant:
/// - standard: the footprint of each unit; copies of tensors take no memory.
/// - pytorch: the weights and outputs of each unit, the largest workspace of an op on each device,
///   and copies. A tensor also takes memory on each other device that reads it, once per device, or
///   once per reader if problem.engine.cache_tensors is off.
class TopoMemory {
 public:
  /// `problem` and `units` must outlive this.
  TopoMemory(const Problem& problem, const ColocationUnits& units, Variant variant);

  /// The memory of all units, without copies.
  Bytes total() const { return total_; }
  /// The need() of the largest unit, workspace included.
  Bytes largest() const { return largest_; }
  Bytes need(UnitId u) const { return needs_[u].kept + needs_[u].workspace; }  ///< without copies

  /// Whether, with `u` on `d`, `d` stays within `room` and every other device within its memory.
  bool fits(UnitId u, DeviceId d, Bytes room) const;
  void put(UnitId u, DeviceId d);
  /// The bytes that `d` would hold with `u` on it.
  Bytes used_with(UnitId u, DeviceId d) const { return after(u, d)[d]; }

 private:
  struct Copy {
    TensorId tensor;
    DeviceId to;
    friend auto operator<=>(const Copy&, const Copy&) = default;
  };
  struct Unit {
    Bytes kept{};
    Bytes workspace{};
  };
  std::vector<Copy> new_copies(UnitId u, DeviceId d) const;
  IdVector<DeviceId, Bytes> after(UnitId u, DeviceId d) const;
  bool is_copied(const Copy& c) const {
    return copied_[index(c.tensor) * kept_.size() + index(c.to)];
  }

  const OpGraph& graph_;
  const ColocationUnits& units_;
  const bool copies_count_;
  const bool cached_;
  const IdVector<DeviceId, Bytes> limit_;
  IdVector<UnitId, Unit> needs_;
  Bytes total_;
  Bytes largest_;
  IdVector<OpId, DeviceId> device_;  // `no_device` until the op is placed
  IdVector<DeviceId, Bytes> kept_;
  IdVector<DeviceId, Bytes> workspace_;
  std::vector<bool> copied_;  // [num_tensors, num_devices]; empty if copies do not count
};

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

namespace {

__extension__ using Wide = __int128;  // the product of two byte counts

/// m-TOPO: visits the units in the order of first ops and fills one device after another. A device
/// is full at its memory limit or, if uniform, already at its share of all units' memory plus the
/// largest unit. TopoMemory defines the memory of a unit: outputs are never freed, copies not
/// counted. Source: Baechi (SoCC'20). Differs:
/// - one measure of memory throughout;
/// - shares in proportion to the devices' memory;
/// - a unit that fits on no remaining device goes back to an earlier device.
class MTopo final : public Placer {
 public:
  explicit MTopo(Options& o)
      : variant_(read_variant(o)),
        uniform_(o.get("uniform", true,
                       "fill each device only to its share of the footprints plus the largest; "
                       "false: to its memory")),
        compat_(original::read_options(
            o,
            {.algorithm = original::Algorithm::m_topo, .variant = variant_, .uniform = uniform_})) {
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    if (compat_) return original::place(p, *compat_);
    const ColocationUnits units(p.graph);
    TopoMemory memory(p, units, variant_);
    const IdVector<DeviceId, Bytes> limit = memory_limits(p);
    const IdVector<DeviceId, Bytes> cap = uniform_ ? shares(memory, p.cluster, limit) : limit;
    Placement result{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    DeviceId filling{0};
    for (const UnitId u : units.units()) {
      // Tries, up to their caps: the device being filled, later devices, earlier devices. Then any
      // device up to its memory limit.
      const auto first_fit = [&](const IdVector<DeviceId, Bytes>& room, DeviceId begin,
                                 std::size_t end) -> std::optional<DeviceId> {
        for (const DeviceId d : id_range<DeviceId>(index(begin), end)) {
          if (memory.fits(u, d, room[d])) return d;
        }
        return std::nullopt;
      };
      std::optional<DeviceId> chosen = first_fit(cap, filling, limit.size());
      if (chosen) filling = *chosen;
      if (!chosen) chosen = first_fit(cap, DeviceId{0}, index(filling));
      if (!chosen) chosen = first_fit(limit, DeviceId{0}, limit.size());
      if (!chosen) {
        IdVector<DeviceId, Bytes> missing(limit.size());
        for (const DeviceId d : p.cluster.devices()) missing[d] = memory.used_with(u, d) - limit[d];
        throw InfeasibleError(fmt::format("m_topo: no device has memory for {}, which needs {}; {}",
                                          units.label(u, p.graph), to_text(memory.need(u)),
                                          shortfall(p.cluster, missing)));
      }
      memory.put(u, *chosen);
      for (const OpId v : units.members(u)) result.device[v] = *chosen;
    }
    return result;
  }

 private:
  /// [num_devices] min(limit, floor(total * memory / sum of all memories) + largest), in bytes.
  static IdVector<DeviceId, Bytes> shares(const TopoMemory& needed, const Cluster& cluster,
                                          const IdVector<DeviceId, Bytes>& limit) {
    Wide memories = 0;
    for (const DeviceId d : cluster.devices()) memories += cluster.device(d).memory.count;
    if (memories == 0) return limit;
    IdVector<DeviceId, Bytes> cap;
    for (const DeviceId d : cluster.devices()) {
      const Wide share = Wide{needed.total().count} * cluster.device(d).memory.count / memories;
      cap.push_back(std::min(limit[d], Bytes{static_cast<std::int64_t>(share)} + needed.largest()));
    }
    return cap;
  }

  Variant variant_;
  bool uniform_;
  std::optional<original::PlacerOptions> compat_;
};

}  // namespace

std::unique_ptr<Placer> make_m_topo(Options& o) { return std::make_unique<MTopo>(o); }

}  // namespace baechi
