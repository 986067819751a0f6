#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "placers/colocation.h"
#include "placers/compat/compat.h"
#include "placers/memory_floor.h"
#include "placers/placer.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi {
namespace {

__extension__ using Wide = __int128;  // the product of two byte counts

/// m-TOPO: walk the units in order of first ops and fill one device after another. A device is
/// full at its memory or, if uniform, already at its share of all footprints plus the largest one.
/// A unit takes its whole footprint, for nothing is freed in this plan.
/// Source: Baechi (SoCC'20). Differs: one measure of memory throughout, shares in proportion to the
/// devices' memory, and a unit that fits on none of the devices left returns to an earlier one.
class MTopo final : public Placer {
 public:
  explicit MTopo(Options& o)
      : uniform_(o.get("uniform", true,
                       "fill each device only to its share of the footprints plus the largest; "
                       "false: to its memory")),
        compat_(read_compat(o, {.algorithm = CompatAlgorithm::m_topo, .uniform = uniform_})) {}

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    if (compat_) return place_compat(p, *compat_);
    const ColocationUnits units(p.graph);
    const IdVector<DeviceId, Bytes> limit = memory_limits(p);
    const IdVector<DeviceId, Bytes> cap = uniform_ ? shares(units, p.cluster, limit) : limit;
    IdVector<DeviceId, Bytes> used(limit.size());
    Placement result{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    DeviceId filling{0};
    for (const UnitId u : units.units()) {
      const Bytes need = units.needs(u).footprint;
      // The device being filled, those after it, those before it; then any its memory allows.
      std::optional<DeviceId> chosen = first_fit(used, cap, need, filling, limit.size());
      if (chosen) filling = *chosen;
      if (!chosen) chosen = first_fit(used, cap, need, DeviceId{0}, index(filling));
      if (!chosen) chosen = first_fit(used, limit, need, DeviceId{0}, limit.size());
      if (!chosen) {
        IdVector<DeviceId, Bytes> missing(limit.size());
        for (const DeviceId d : p.cluster.devices()) missing[d] = used[d] + need - limit[d];
        throw InfeasibleError(fmt::format("m_topo: no room for {}, which needs {}; {}",
                                          units.label(u, p.graph), to_text(need),
                                          shortfall(p.cluster, missing)));
      }
      used[*chosen] += need;
      for (const OpId v : units.members(u)) result.device[v] = *chosen;
    }
    return result;
  }

 private:
  /// min(limit, floor(total * memory / sum of memories) + largest) of each device.
  static IdVector<DeviceId, Bytes> shares(const ColocationUnits& units, const Cluster& cluster,
                                          const IdVector<DeviceId, Bytes>& limit) {
    Bytes total;
    Bytes largest;
    for (const UnitId u : units.units()) {
      total += units.needs(u).footprint;
      largest = std::max(largest, units.needs(u).footprint);
    }
    Wide memories = 0;
    for (const DeviceId d : cluster.devices()) memories += cluster.device(d).memory.count;
    if (memories == 0) return limit;
    IdVector<DeviceId, Bytes> cap;
    for (const DeviceId d : cluster.devices()) {
      const Wide share = Wide{total.count} * cluster.device(d).memory.count / memories;
      cap.push_back(std::min(limit[d], Bytes{static_cast<std::int64_t>(share)} + largest));
    }
    return cap;
  }

  /// The first device of [begin, end) that `need` more bytes keep within `room`.
  static std::optional<DeviceId> first_fit(const IdVector<DeviceId, Bytes>& used,
                                           const IdVector<DeviceId, Bytes>& room, Bytes need,
                                           DeviceId begin, std::size_t end) {
    for (const DeviceId d : id_range<DeviceId>(index(begin), end)) {
      if (used[d] + need <= room[d]) return d;
    }
    return std::nullopt;
  }

  bool uniform_;
  std::optional<CompatOptions> compat_;
};

}  // namespace

std::unique_ptr<Placer> make_m_topo(Options& o) {
  return std::make_unique<MTopo>(o);
}

}  // namespace baechi
