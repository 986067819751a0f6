/// A cluster: devices with a memory limit each, and a link for every ordered pair of devices. The
/// devices may stand in nodes, whose network interfaces they share.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

struct Device {
  std::string name;
  std::string kind;    ///< picks the op times of a trace; "" for the first kind of the trace
  Bytes memory{};      ///< limit on the memory in use
  double speed = 1.0;  ///< relative to the device that the op times were measured on

  /// Whether the device is a core of the host, which reads host memory directly. All other devices
  /// are accelerators, which a bus connects to the host.
  bool is_core() const { return kind == "cpu"; }
};

/// One direction of the connection between two devices.
struct Link {
  Bandwidth bandwidth{};
  Duration latency{};
  friend bool operator==(const Link&, const Link&) = default;
};

/// The smaller bandwidth and the larger latency of the two.
Link slower(const Link& a, const Link& b);

enum class NodeId : std::uint32_t {};

/// A machine: devices with adjacent ids, joined by links, and network interfaces (NICs) that they
/// share. Between two nodes lies a network.
struct Node {
  std::uint32_t devices = 1;
  std::uint32_t nics = 1;
  /// From one NIC to another node's: the bandwidth through the switches when all NICs send.
  Link network{};
  /// Between two devices; with `wires`, of one wire between two devices.
  Link inside{};
  /// [devices, devices] How many wires join two devices, the same in both directions. Empty: each
  /// device has `inside` to all others at once, as through a switch.
  std::vector<std::uint32_t> wires{};
  Link unwired{};  ///< between two devices that no wire joins

  std::uint32_t wires_between(std::size_t a, std::size_t b) const { return wires[a * devices + b]; }
};

class CollectiveModel;
std::shared_ptr<const CollectiveModel> ring_collectives();

class Cluster {
 public:
  Cluster() = default;
  /// A cluster of `devices` with the same `link` between every two.
  static Cluster uniform(IdVector<DeviceId, Device> devices, Link link);
  /// A cluster of `count` equal devices named gpu0, gpu1, ..., with `memory` each.
  static Cluster uniform(std::size_t count, Bytes memory, Link link);
  /// A cluster of `nodes`, in their order; `devices` are theirs, as many as the nodes say. Between
  /// two nodes the link is the slower of the two NICs: the smaller bandwidth, the larger latency.
  static Cluster of_nodes(IdVector<DeviceId, Device> devices, std::vector<Node> nodes);

  void set_link(DeviceId src, DeviceId dst, Link link) {  ///< only src to dst
    links_[index(src) * num_devices() + index(dst)] = link;
  }

  void set_memory(DeviceId d, Bytes memory) { devices_[d].memory = memory; }

  /// How long collectives take. The model of a new cluster is "ring" (sim/cluster/collectives.h).
  const CollectiveModel& collectives() const { return *collectives_; }
  void set_collectives(std::shared_ptr<const CollectiveModel> model) {
    collectives_ = std::move(model);
  }

  /// 0 if the cluster states no nodes. Devices then share no network interface.
  std::size_t num_nodes() const { return nodes_.size(); }
  const Node& node(NodeId n) const { return nodes_[n]; }
  NodeId node_of(DeviceId d) const { return node_of_[d]; }  ///< if there are nodes
  /// The first device of the node; its others follow.
  DeviceId first_device(NodeId n) const { return first_device_[n]; }

  std::size_t num_devices() const { return devices_.size(); }
  auto devices() const { return devices_.ids(); }
  const Device& device(DeviceId d) const { return devices_[d]; }
  const Link& link(DeviceId src, DeviceId dst) const {
    return links_[index(src) * num_devices() + index(dst)];
  }

 private:
  IdVector<DeviceId, Device> devices_;
  /// [num_devices, num_devices], row = src. On the diagonal: to a replica of the device that is not
  /// simulated.
  std::vector<Link> links_;
  IdVector<NodeId, Node> nodes_;
  IdVector<NodeId, DeviceId> first_device_;  // [num_nodes]
  IdVector<DeviceId, NodeId> node_of_;       // [num_devices], or empty without nodes
  std::shared_ptr<const CollectiveModel> collectives_ = ring_collectives();
};

}  // namespace baechi
