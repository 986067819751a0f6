/// Rings through devices that wires join one by one, as in a DGX-1.
#pragma once
#include <cstdint>
#include <span>

#include "sim/cluster/cluster.h"

namespace baechi {

/// Rings or chains that use no direction of a wire twice.
struct Rings {
  /// As many as can run at once, each through all devices. A circle of wires carries two, one each
  /// way; a wire between two devices carries one.
  std::int64_t rings = 0;
  std::int64_t chains = 0;  ///< if there is no ring: chains through all devices, there and back

  /// The bandwidth of an all_reduce of n ranks in terms of the bytes 2 S (n - 1) / n that each rank
  /// sends. A chain's is half that of its wires, as in NCCL's tuning of trees; 0 without either.
  Bandwidth bus(std::int64_t n, Bandwidth wire) const;
};

/// `devices`: positions in the node. Searches exactly, up to a fixed number of steps that nodes of
/// 8 devices do not reach; after that, the most that it has found.
Rings rings_of(const Node& node, std::span<const std::size_t> devices);

/// The rings of the members in the first member's node; of its first devices, if they stand for
/// more ranks than they are. `per_node` ranks. The node has wires.
Rings rings_of(std::span<const DeviceId> members, std::int64_t per_node, const Cluster& cluster);

}  // namespace baechi
