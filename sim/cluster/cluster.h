/// A cluster: devices with a memory limit each, and a link for every ordered pair of devices.
/// Devices may be grouped into nodes, whose network interfaces they share. Cost models of
/// collectives without contention: the interface, and the ring model, the default; sim/collectives/
/// has the others.
#pragma once
#include <memory>

#include "sim/graph/collective.h"

namespace baechi {

struct Device {
  std::string name;
  std::string kind;    ///< device type, selects a trace's op times; "": the trace's first type
  Bytes memory{};      ///< limit on the memory in use
  double speed = 1.0;  ///< relative to the device on which op times were measured
  /// Whether the device is a CPU core, which reads host memory directly. All other devices are
  /// accelerators behind a bus.
  bool is_core() const { return kind == "cpu"; }
  /// Whether its memory is a host's: a CPU of any type, or a host that only stores.
  bool is_cpu() const { return kind.starts_with("cpu") || kind == "host"; }
  /// Whether ops run there. Others only hold weights that wait between their uses, and come last in
  /// a cluster; all of one kind are ways to one memory, each with links of its own.
  bool computes() const { return kind != "host" && kind != "disk"; }
};

/// As good as no limit, and sums over devices do not overflow.
inline constexpr Bytes unlimited_memory{std::int64_t{1} << 50};

/// One direction of the connection between two devices.
struct Link {
  Bandwidth bandwidth{};
  Duration latency{};
  friend bool operator==(const Link&, const Link&) = default;
};

/// The smaller bandwidth and the larger latency of the two.
Link slower(const Link& a, const Link& b);

enum class NodeId : std::uint32_t {};

/// A machine: devices with adjacent ids, links between them, and shared network interfaces (NICs).
struct Node {
  std::uint32_t devices = 1;
  std::uint32_t nics = 1;
  /// From a NIC to a NIC of another node: bandwidth through the switches while all NICs send.
  Link network{};
  /// Between two devices; if `wires` is given, of one wire.
  Link inside{};
  /// [devices, devices] Number of wires between two devices, symmetric. Empty: every device reaches
  /// all others with `inside`, as through a switch.
  std::vector<std::uint32_t> wires{};
  Link unwired{};  ///< between two devices without a wire

  std::uint32_t wires_between(std::size_t a, std::size_t b) const { return wires[a * devices + b]; }
};

class CollectiveModel;
/// One ring through the members in their order. For n ranks and S bytes, with the largest latency L
/// and the smallest bandwidth B of the ring's links: all_reduce takes 2 (n - 1) (L + S / (n B));
/// reduce_scatter, all_gather and all_to_all half of it; broadcast (n - 1) L + S / B; send_recv
/// L + S / B. S / (n B) and S / B are rounded up to a nanosecond.
/// Source: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
std::shared_ptr<const CollectiveModel> ring_collectives();

class Cluster {
 public:
  Cluster() = default;
  /// A cluster of `devices` with the same `link` between every two.
  static Cluster uniform(IdVector<DeviceId, Device> devices, Link link);
  /// A cluster of `count` equal devices named gpu0, gpu1, ..., with `memory` each.
  static Cluster uniform(std::size_t count, Bytes memory, Link link);
  /// A cluster of `nodes`, with their `devices` in the same order. The link between two nodes is
  /// the slower of the two NICs: the smaller bandwidth, the larger latency.
  static Cluster of_nodes(IdVector<DeviceId, Device> devices, std::vector<Node> nodes);

  void set_link(DeviceId src, DeviceId dst, Link link) {  ///< only src to dst
    links_[index(src) * num_devices() + index(dst)] = link;
  }

  void set_memory(DeviceId d, Bytes memory) { devices_[d].memory = memory; }

  /// The cost model of collectives; default: "ring".
  const CollectiveModel& collectives() const { return *collectives_; }
  void set_collectives(std::shared_ptr<const CollectiveModel> model) {
    collectives_ = std::move(model);
  }

  /// 0 if the cluster has no nodes; devices then share no network interface.
  std::size_t num_nodes() const { return nodes_.size(); }
  const Node& node(NodeId n) const { return nodes_[n]; }
  NodeId node_of(DeviceId d) const { return node_of_[d]; }  ///< requires num_nodes() > 0
  /// The first device of the node; its others follow.
  DeviceId first_device(NodeId n) const { return first_device_[n]; }

  std::size_t num_devices() const { return devices_.size(); }
  std::size_t num_computing() const;  ///< devices that compute
  Cluster computing() const;          ///< the cluster of these alone
  auto devices() const { return devices_.ids(); }
  const Device& device(DeviceId d) const { return devices_[d]; }
  const Link& link(DeviceId src, DeviceId dst) const {
    return links_[index(src) * num_devices() + index(dst)];
  }

 private:
  IdVector<DeviceId, Device> devices_;
  /// [num_devices, num_devices], row = src. Diagonal: to a replica of the device that is not
  /// simulated.
  std::vector<Link> links_;
  IdVector<NodeId, Node> nodes_;
  IdVector<NodeId, DeviceId> first_device_;  // [num_nodes]
  IdVector<DeviceId, NodeId> node_of_;       // [num_devices], or empty without nodes
  std::shared_ptr<const CollectiveModel> collectives_ = ring_collectives();
};

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

/// The formulas of ring_collectives().
Duration ring_time(CollectiveKind kind, std::int64_t ranks, Bytes bytes, const Link& link);

}  // namespace baechi
