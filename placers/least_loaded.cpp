#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"

namespace baechi {
/// Graham's list rule by load alone. Each unit, in the order of first ops, goes to the device where
/// the sum of op times including the unit is least, among the devices where the unit fits. Ties:
/// the lower device id. Ignores precedence and transfers.
/// Source: Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 1969.
std::unique_ptr<Placer> make_least_loaded(Options&) {
  return placer_of([](const Problem& p, std::uint64_t /*seed*/) -> Placement {
    const ColocationUnits units(p.graph);
    MemoryFloor memory(p);
    IdVector<DeviceId, Duration> load(p.cluster.num_devices());
    Placement result{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    for (const UnitId u : units.units()) {
      std::optional<DeviceId> best;
      Duration best_load{};
      for (const DeviceId d : p.cluster.devices()) {
        if (!memory.fits(units.needs(u), d)) continue;
        Duration with = load[d];
        for (const OpId v : units.members(u)) with += p.costs.compute(v, d);
        if (best && with >= best_load) continue;
        best = d;
        best_load = with;
      }
      if (!best)
        throw InfeasibleError("least_loaded: " +
                              memory.why_not(units.label(u, p.graph), units.needs(u)));
      load[*best] = best_load;
      memory.add(units.needs(u), *best);
      for (const OpId v : units.members(u)) result.device[v] = *best;
    }
    return result;
  });
}

}  // namespace baechi
