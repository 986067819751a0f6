#include "placers/interface/placer.h"

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

}  // namespace baechi
