/// Cost models of collectives without contention: the interface, and the ring model, the default.
/// sim/collectives/ has the others.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "sim/cluster/cluster.h"
#include "sim/graph/collective.h"

namespace baechi {

class CollectiveModel {
 public:
  virtual ~CollectiveModel() = default;
  /// `devices`: the members' devices, in the order of the members. At most 2^62 ns; 0 for fewer
  /// than two ranks. A pure function. Throws InputError if the model does not cover the collective.
  virtual Duration time(const Collective& collective, std::span<const DeviceId> devices,
                        const Cluster& cluster) const = 0;
};

/// The topology of a collective: where its ranks are, and the links between them.
struct Spread {
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;     ///< the ranks are spread evenly over them
  std::int64_t per_node = 0;  ///< ranks per node, rounded up
  /// The worst link of the ring through a node's members: largest latency, smallest bandwidth.
  Link inside{};
  Link nic{};             ///< the worst of all nodes; unset with one node
  std::int64_t nics = 0;  ///< the fewest of any node
  std::int64_t sharing = 1;
  /// The network share of one of `users` ranks of a node that all send at once: an equal part of
  /// the NICs, at most one NIC.
  Link network(std::int64_t users) const;
  /// The worst link of a ring in which one rank of each node sends to the next node.
  Link worst() const;
};
/// In a cluster without nodes all ranks are in one node. If the collective has more ranks than
/// members, they are on as many nodes as it states, or else on as few as hold them. A member that
/// represents several ranks of a node has its node's `inside` to them. Throws InputError if the
/// ranks are on several nodes without a network.
Spread spread_of(const Collective& collective, std::span<const DeviceId> devices,
                 const Cluster& cluster);

/// One ring through the members in their order. For n ranks and S bytes, with the largest latency L
/// and the smallest bandwidth B of the ring's links: all_reduce takes 2 (n - 1) (L + S / (n B));
/// reduce_scatter, all_gather and all_to_all half of it; broadcast (n - 1) L + S / B; send_recv
/// L + S / B. S / (n B) and S / B are rounded up to a nanosecond.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
// NOLINTNEXTLINE(readability-redundant-declaration): cluster.h declares it for a default
std::shared_ptr<const CollectiveModel> ring_collectives();

/// The formulas of ring_collectives().
Duration ring_time(CollectiveKind kind, std::int64_t ranks, Bytes bytes, const Link& link);

}  // namespace baechi
