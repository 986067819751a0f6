/// The baselines that are a few lines each.
#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "sim/random.h"

namespace baechi {

/// Places every op on one device. Ignores memory: the engine reports whether the placement fits.
std::unique_ptr<Placer> make_single(Options& o) {
  const auto device = static_cast<std::uint32_t>(o.get("device", std::int64_t{0}, "which device"));
  return placer_of([device](const Problem& p, std::uint64_t /*seed*/) -> Placement {
    if (device >= p.cluster.num_devices())
      throw InfeasibleError(
          fmt::format("single: no device {} among {}", device, p.cluster.num_devices()));
    return {.device = IdVector<OpId, DeviceId>(p.graph.num_ops(), DeviceId{device})};
  });
}

/// Assigns the units to the devices in turn, in the order of first ops. Ignores memory.
std::unique_ptr<Placer> make_round_robin(Options&) {
  return placer_of([](const Problem& p, std::uint64_t /*seed*/) -> Placement {
    const ColocationUnits units(p.graph);
    Placement result{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    for (const OpId v : p.graph.ops())
      result.device[v] = static_cast<DeviceId>(index(units.of(v)) % p.cluster.num_devices());
    return result;
  });
}

/// Draws a device for each unit uniformly, in the order of first ops. Ignores memory.
std::unique_ptr<Placer> make_random(Options&) {
  return placer_of([](const Problem& p, std::uint64_t seed) -> Placement {
    const ColocationUnits units(p.graph);
    Random random(seed);
    IdVector<UnitId, DeviceId> drawn(units.size());
    for (DeviceId& d : drawn)
      d = DeviceId{random.below(static_cast<std::uint32_t>(p.cluster.num_devices()))};
    Placement result{.device = IdVector<OpId, DeviceId>(p.graph.num_ops())};
    for (const OpId v : p.graph.ops()) result.device[v] = drawn[units.of(v)];
    return result;
  });
}

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
