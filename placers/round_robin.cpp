#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"

namespace baechi {
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

}  // namespace baechi
