/// The NICs of nodes: the numbers in use for sending and receiving, and the waiting devices.
#pragma once
#include <cstdint>

#include "sim/cluster/cluster.h"
#include "sim/engine/id_set.h"

namespace baechi {

/// A transfer between nodes holds any free NIC of each node for its length. Transfers within a
/// node, or in a cluster without nodes, hold none.
class NetworkInterfaces {
 public:
  explicit NetworkInterfaces(const Cluster& cluster) : cluster_(cluster) {
    for (const NodeId n : id_range<NodeId>(0, cluster.num_nodes()))
      nodes_.push_back({.nics = cluster.node(n).nics, .waiting = DeviceSet(cluster.num_devices())});
  }

  void reset() {
    for (NodeState& node : nodes_) {
      node.sending = node.receiving = 0;
      node.waiting.clear();
    }
  }

  /// Takes the NICs of a transfer from `src` to `dst`. If one of the nodes has no free NIC, returns
  /// false and remembers that `src` waits.
  bool take(DeviceId src, DeviceId dst) {
    if (one_node(src, dst)) return true;
    NodeState& from = node_of(src);
    NodeState& to = node_of(dst);
    if (from.sending == from.nics || to.receiving == to.nics) {
      (from.sending == from.nics ? from : to).waiting.insert(src);
      return false;
    }
    ++from.sending;
    ++to.receiving;
    return true;
  }

  /// The transfer has ended: adds the devices that waited for a NIC of its nodes to `to_try`.
  void give_back(DeviceId src, DeviceId dst, DeviceSet& to_try) {
    if (one_node(src, dst)) return;
    --node_of(src).sending;
    --node_of(dst).receiving;
    for (NodeState* node : {&node_of(src), &node_of(dst)}) {
      to_try.insert(node->waiting);
      node->waiting.clear();
    }
  }

 private:
  struct NodeState {
    std::uint32_t nics = 0, sending = 0, receiving = 0;
    DeviceSet waiting{};  // senders whose first transfer lacks a NIC of this node
  };

  bool one_node(DeviceId a, DeviceId b) const { return cluster_.node_of(a) == cluster_.node_of(b); }
  NodeState& node_of(DeviceId d) { return nodes_[cluster_.node_of(d)]; }

  const Cluster& cluster_;
  IdVector<NodeId, NodeState> nodes_;
};

}  // namespace baechi
