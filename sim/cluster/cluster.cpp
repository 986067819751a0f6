#include "sim/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"

namespace baechi {
namespace {

/// `a`, `b`: positions of the devices in the node.
Link link_inside(const Node& node, std::size_t a, std::size_t b) {
  if (node.wires.empty() || a == b) return node.inside;
  const std::uint32_t wires = node.wires_between(a, b);
  if (wires == 0) return node.unwired;
  return {.bandwidth = {wires * node.inside.bandwidth.bytes_per_second},
          .latency = node.inside.latency};
}

}  // namespace

Link slower(const Link& a, const Link& b) {
  return {.bandwidth = std::min(a.bandwidth, b.bandwidth),
          .latency = std::max(a.latency, b.latency)};
}

Cluster Cluster::uniform(IdVector<DeviceId, Device> devices, Link link) {
  Cluster c;
  c.links_.assign(devices.size() * devices.size(), link);
  c.devices_ = std::move(devices);
  return c;
}

Cluster Cluster::uniform(std::size_t count, Bytes memory, Link link) {
  IdVector<DeviceId, Device> devices;
  for (std::size_t i = 0; i < count; ++i)
    devices.push_back({.name = fmt::format("gpu{}", i), .kind = {}, .memory = memory});
  return uniform(std::move(devices), link);
}

Cluster Cluster::of_nodes(IdVector<DeviceId, Device> devices, std::vector<Node> nodes) {
  Cluster c = uniform(std::move(devices), {});
  for (Node& node : nodes) {
    c.first_device_.push_back(static_cast<DeviceId>(c.node_of_.size()));
    for (std::uint32_t i = 0; i < node.devices; ++i)
      c.node_of_.push_back(static_cast<NodeId>(c.nodes_.size()));
    c.nodes_.push_back(std::move(node));
  }
  BAECHI_CHECK(c.node_of_.size() == c.num_devices(), "{} devices in nodes, {} in the cluster",
               c.node_of_.size(), c.num_devices());
  for (const DeviceId a : c.devices()) {
    const Node& from = c.nodes_[c.node_of_[a]];
    for (const DeviceId b : c.devices()) {
      const Node& to = c.nodes_[c.node_of_[b]];
      const std::size_t first = index(c.first_device_[c.node_of_[a]]);
      if (c.node_of_[a] == c.node_of_[b])
        c.set_link(a, b, link_inside(from, index(a) - first, index(b) - first));
      else
        c.set_link(a, b, slower(from.network, to.network));
    }
  }
  return c;
}

}  // namespace baechi
