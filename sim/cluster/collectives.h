/// How long collective operations take, alone on their links: the interface of the models, and the
/// plainest of them. sim/collectives/ has the others.
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
  /// `devices`: the members' devices, in the order of the members. At most 2^62 ns; 0 for less than
  /// two ranks. Equal arguments give an equal time. Throws InputError if the model has no time for
  /// it.
  virtual Duration time(const Collective& collective, std::span<const DeviceId> devices,
                        const Cluster& cluster) const = 0;
};

/// Where the ranks of a collective are, and the links between them.
struct Spread {
  std::int64_t ranks = 0;
  std::int64_t nodes = 1;     ///< over which they are spread evenly
  std::int64_t per_node = 0;  ///< ranks of a node, rounded up
  /// The worst of the links along the members of a node and back to its first: the largest latency,
  /// the smallest bandwidth.
  Link inside{};
  Link nic{};             ///< the worst of the nodes'; nothing with one node
  std::int64_t nics = 0;  ///< of the node that has the fewest
  std::int64_t sharing = 1;

  /// The part of the network for one of `users` ranks of a node if all send at once: an even part
  /// of the NICs, at most one NIC.
  Link network(std::int64_t users) const;
  /// The worst link where one rank of each node sends to the next node, and the others inside.
  Link worst() const;
};
/// Without nodes in the cluster all ranks are in one. With more ranks than members the ranks are on
/// as many nodes as the collective says, or as they need if it says nothing. A member that stands
/// for several ranks of a node has its node's `inside` to them. Throws InputError if the ranks are
/// on several nodes without a network.
Spread spread_of(const Collective& collective, std::span<const DeviceId> devices,
                 const Cluster& cluster);

/// One ring passes the members in their order and back to the first. For n ranks and S bytes, with
/// the largest latency L and the smallest bandwidth B of the ring's links: all_reduce takes
/// 2 (n - 1) (L + S / (n B)); reduce_scatter, all_gather and all_to_all half of it; broadcast
/// (n - 1) L + S / B; send_recv L + S / B. Times are rounded up once per S / (n B) and S / B.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
// NOLINTNEXTLINE(readability-redundant-declaration): cluster.h declares it for a default
std::shared_ptr<const CollectiveModel> ring_collectives();

/// The formulas of ring_collectives().
Duration ring_time(CollectiveKind kind, std::int64_t ranks, Bytes bytes, const Link& link);

}  // namespace baechi
