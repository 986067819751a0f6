#include <algorithm>
#include <bit>

#include "sim/cluster/collectives.h"
#include "sim/options.h"
#include "sim/saturated.h"

namespace baechi {
namespace {

/// For n ranks and S bytes, with the worst latency L and bandwidth B of the links and
/// d = ceil(log2 n): all_reduce 2 d L + 2 S / B, broadcast half of it; reduce_scatter and
/// all_gather by recursive halving and doubling d L + S (n - 1) / (n B); all_to_all by Bruck's
/// algorithm d (L + S / (2 B)).
class Tree final : public CollectiveModel {
 public:
  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const Spread spread = spread_of(c, devices, cluster);
    const std::int64_t n = spread.ranks;
    if (n < 2) return Duration{};
    const Link link = spread.worst();
    const auto depth = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
    const Duration latency = saturated_product(depth, link.latency);
    const Duration moving = c.bytes / link.bandwidth;
    switch (c.kind) {
      case CollectiveKind::all_reduce:
        return saturated_product(2, saturated_sum(latency, moving));
      case CollectiveKind::broadcast:
        return saturated_sum(latency, moving);
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_gather:
        return saturated_sum(latency, Bytes{c.bytes.count - c.bytes.count / n} / link.bandwidth);
      case CollectiveKind::all_to_all:
        return saturated_sum(
            latency,
            saturated_product(depth, Bytes{c.bytes.count - c.bytes.count / 2} / link.bandwidth));
      case CollectiveKind::send_recv:
        break;
    }
    return saturated_sum(link.latency, moving);
  }
};

}  // namespace

std::shared_ptr<const CollectiveModel> make_tree(Options&) {
  return std::make_shared<const Tree>();
}

}  // namespace baechi
