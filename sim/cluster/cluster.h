/// A cluster: devices with a memory limit each, and a link for every ordered pair of devices.
/// Devices may be grouped into nodes, whose network interfaces they share.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

struct Device {
  std::string name;
  std::string kind;    ///< device type, selects a trace's op times; "": the trace's first type
  Bytes memory{};      ///< limit on the memory in use
  double speed = 1.0;  ///< relative to the device on which op times were measured
  /// Whether the device is a CPU core, which reads host memory directly. All other devices are
  /// accelerators behind a bus.
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

  /// The cost model of collectives; default: "ring" (sim/cluster/collectives.h).
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

}  // namespace baechi
