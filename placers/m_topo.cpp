#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "placers/interface/colocation.h"
#include "placers/interface/memory_floor.h"
#include "placers/interface/placer.h"
#include "placers/original/original.h"
#include "placers/topo_memory.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi {
namespace {

__extension__ using Wide = __int128;  // the product of two byte counts

/// m-TOPO: visits the units in the order of first ops and fills one device after another. A device
/// is full at its memory limit or, if uniform, already at its share of all units' memory plus the
/// largest unit. TopoMemory defines the memory of a unit: outputs are never freed, copies not
/// counted. Source: Baechi (SoCC'20). Differs:
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

std::unique_ptr<Placer> make_m_topo(Options& o) {
  return std::make_unique<MTopo>(o);
}

}  // namespace baechi
