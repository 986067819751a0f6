#include "sim/cluster/collectives.h"

#include <algorithm>

#include "sim/saturated.h"

namespace baechi {
namespace {

/// The worst of the ring's links: the largest latency, the smallest bandwidth. A single member's
/// is the link to a replica beside it.
Link worst_link(std::span<const DeviceId> devices, const Cluster& cluster) {
  Link worst = cluster.link(devices.back(), devices.front());
  for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
    const Link& link = cluster.link(devices[i], devices[i + 1]);
    worst.latency = std::max(worst.latency, link.latency);
    if (link.bandwidth.bytes_per_second < worst.bandwidth.bytes_per_second)
      worst.bandwidth = link.bandwidth;
  }
  return worst;
}

Duration times(std::int64_t n, Duration time) {
  return Duration{saturated_product(n, time.count())};
}

class Ring final : public CollectiveModel {
 public:
  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const std::int64_t n = c.ranks;
    if (n < 2) return Duration{};
    const Link link = worst_link(devices, cluster);
    const Bytes part{(c.bytes.count + n - 1) / n};
    const Duration step = saturated_sum(part / link.bandwidth, link.latency);
    switch (c.kind) {
      case CollectiveKind::all_reduce:
        return times(2 * (n - 1), step);
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_gather:
      case CollectiveKind::all_to_all:
        return times(n - 1, step);
      case CollectiveKind::broadcast:
        return saturated_sum(c.bytes / link.bandwidth, times(n - 1, link.latency));
      case CollectiveKind::send_recv:
        break;
    }
    return saturated_sum(c.bytes / link.bandwidth, link.latency);
  }
};

}  // namespace

std::shared_ptr<const CollectiveModel> ring_collectives() {
  static const auto ring = std::make_shared<const Ring>();
  return ring;
}

}  // namespace baechi
