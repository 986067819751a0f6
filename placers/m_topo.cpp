#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "placers/feasible.h"
#include "placers/interface/colocation.h"
#include "placers/interface/memory_floor.h"
#include "placers/interface/placer.h"
#include "placers/original/original.h"
#include "placers/topo_memory.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi {
namespace {

__extension__ using Wide = __int128;  // the product of two byte counts

/// m-TOPO: walks the units in the order of first ops and fills one device after another. A device
/// is full at its memory limit or, if uniform, already at its share of all units' memory plus the
/// largest unit. TopoMemory says how much memory a unit takes. TopoMemory counts outputs as if they
/// were never freed; so if a unit fits nowhere, the uniform standard variant fills the devices
/// again by shares alone, without memory limits, and the simulation (problem.engine) says whether
/// that placement fits. It does not count copies; so if footprints and copies together might be too
/// much for a device, the standard variant simulates what it found. Where that runs out of memory,
/// or nothing was found, the last resort (feasible.h) looks for another placement. Source: Baechi
/// (SoCC'20). Differs:
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
        fallback_(o.get("fallback", true,
                        "where stuck or out of memory, look for any placement that fits")),
        compat_(original::read_options(
            o,
            {.algorithm = original::Algorithm::m_topo, .variant = variant_, .uniform = uniform_})) {
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    if (compat_) return original::place(p, *compat_);
    const ColocationUnits units(p.graph);
    std::string failure;
    try {
      Placement result = own(p, units);
      if (!falls_back() || surely_fits(p, units, result)) return result;
      failure = out_of_memory(p, result);
      if (failure.empty()) return result;
    } catch (const InfeasibleError& error) {
      if (!falls_back()) throw InfeasibleError(fmt::format("m_topo: {}", error.what()));
      failure = error.what();
    }
    static constexpr std::string_view m_topo[] = {"m_topo"};
    return last_resort(p, "m_topo", failure, std::span(m_topo).first(uniform_ ? 1 : 0));
  }
  bool falls_back() const override {
    return fallback_ && variant_ == Variant::standard && !compat_;
  }

 private:
  /// Whether every device has room for the footprints of its units and for a copy of each input
  /// that comes from another device, all at once.
  static bool surely_fits(const Problem& p, const ColocationUnits& units,
                          const Placement& placement) {
    IdVector<DeviceId, Bytes> most(p.cluster.num_devices());
    for (const UnitId u : units.units())
      most[placement.device[units.members(u).front()]] += units.needs(u).footprint;
    for (const OpId v : p.graph.ops()) {
      const DeviceId d = placement.device[v];
      for (const EdgeId e : p.graph.in_edges(v)) {
        const Edge& edge = p.graph.edge(e);
        if (placement.device[edge.src] != d) most[d] += p.graph.tensor(edge.tensor).copied();
      }
    }
    const IdVector<DeviceId, Bytes> limit = memory_limits(p);
    return std::ranges::all_of(limit.ids(), [&](DeviceId d) { return most[d] <= limit[d]; });
  }

  /// Throws InfeasibleError if some unit fits nowhere.
  Placement own(const Problem& p, const ColocationUnits& units) const {
    try {
      return fill(p, units, memory_limits(p));
    } catch (const InfeasibleError&) {
      if (!uniform_ || variant_ == Variant::pytorch) throw;
      constexpr Bytes no_limit{std::int64_t{1} << 62};
      Placement by_shares =
          fill(p, units, IdVector<DeviceId, Bytes>(p.cluster.num_devices(), no_limit));
      if (simulate(p, by_shares).oom) throw;
      by_shares.detail = "by shares alone: counted as kept to the end, the outputs do not fit";
      return by_shares;
    }
  }

  Placement fill(const Problem& p, const ColocationUnits& units,
                 const IdVector<DeviceId, Bytes>& limit) const {
    TopoMemory memory(p, units, variant_);
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
        throw InfeasibleError(fmt::format("no room for {}, which needs {}; {}",
                                          units.label(u, p.graph), to_text(memory.need(u)),
                                          shortfall(p.cluster, missing)));
      }
      memory.put(u, *chosen);
      for (const OpId v : units.members(u)) result.device[v] = *chosen;
    }
    return result;
  }

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
  bool fallback_;
  std::optional<original::PlacerOptions> compat_;
};

}  // namespace

std::unique_ptr<Placer> make_m_topo(Options& o) {
  return std::make_unique<MTopo>(o);
}

}  // namespace baechi
