#include "sim/random.h"

#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"

namespace baechi {
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

}  // namespace baechi
