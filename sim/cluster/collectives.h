/// How long collective operations take, alone on their links.
#pragma once
#include <memory>
#include <span>

#include "sim/cluster/cluster.h"
#include "sim/graph/collective.h"

namespace baechi {

class CollectiveModel {
 public:
  virtual ~CollectiveModel() = default;
  /// `devices`: those of the members, in the order of the members. At most 2^62 ns.
  virtual Duration time(const Collective& collective, std::span<const DeviceId> devices,
                        const Cluster& cluster) const = 0;
};

/// The ring passes the members in their order and back to the first. Of n ranks and S bytes, with
/// the largest latency L and the smallest bandwidth B of the ring's links: all_reduce takes
/// 2 (n - 1) (L + S / (n B)); reduce_scatter, all_gather and all_to_all half of it; broadcast
/// (n - 1) L + S / B; send_recv L + S / B. Times are rounded up once per S / (n B) and S / B.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
std::shared_ptr<const CollectiveModel> ring_collectives();

}  // namespace baechi
