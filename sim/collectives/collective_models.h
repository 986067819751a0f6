/// The registry of cost models of collectives, and rings on nodes with point-to-point wires, such
/// as a DGX-1.
#pragma once
#include "sim/cluster/cluster.h"
#include "sim/options.h"

namespace baechi {

using MakeCollectiveModel = std::shared_ptr<const CollectiveModel>(Options&);
struct CollectiveModelEntry {
  std::string_view name;     ///< as in a scenario: `cluster.collectives: {model: ring}`
  std::string_view summary;  ///< one line for `list collectives`
  std::string_view source;   ///< where the formula is from
  MakeCollectiveModel* make;
};
std::span<const CollectiveModelEntry> collective_models();

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::shared_ptr<const CollectiveModel> make_collectives(std::string_view name, Options options,
                                                        const std::string& where = {});

/// The model that NAME or {model: NAME, option: value, ...} describes. Throws InputError as above.
std::shared_ptr<const CollectiveModel> make_collectives(const Options::Value& value);

/// Edge-disjoint rings or chains: no direction of a wire is used twice.
struct Rings {
  /// The most concurrent rings through all devices. A cycle of wires carries two, one in each
  /// direction; a wire between two devices carries one.
  std::int64_t rings = 0;
  std::int64_t chains = 0;  ///< only if there is no ring: chains through all devices and back
  /// The bus bandwidth of an all_reduce of n ranks, for the bytes 2 S (n - 1) / n that each rank
  /// sends. A chain has half the bandwidth of its wires, as in NCCL's tuning of trees; 0 without
  /// either.
  Bandwidth bus(std::int64_t n, Bandwidth wire) const;
};

/// `devices`: positions in the node. Exhaustive search up to a fixed number of steps, which nodes
/// of 8 devices do not reach; then the best found.
Rings rings_of(const Node& node, std::span<const std::size_t> devices);

/// The rings of the members in the first member's node, or of the node's first `per_node` devices
/// if it has fewer members than ranks. The node has wires.
Rings rings_of(std::span<const DeviceId> members, std::int64_t per_node, const Cluster& cluster);

}  // namespace baechi
