#include "sim/cluster/cluster.h"

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

/// The worst link of the ring through `devices`; for one device, the link to its replica.
Link worst_link(std::span<const DeviceId> devices, const Cluster& cluster) {
  Link worst = cluster.link(devices.back(), devices.front());
  for (std::size_t i = 0; i + 1 < devices.size(); ++i)
    worst = slower(worst, cluster.link(devices[i], devices[i + 1]));
  return worst;
}

class Ring final : public CollectiveModel {
 public:
  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const Spread spread = spread_of(c, devices, cluster);
    return ring_time(c.kind, spread.ranks, c.bytes, spread.worst());
  }
};

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

std::size_t Cluster::num_computing() const {
  return static_cast<std::size_t>(std::ranges::count_if(devices_, &Device::computes));
}

Cluster Cluster::computing() const {
  Cluster c = *this;
  c.devices_.clear();
  for (const DeviceId d : id_range<DeviceId>(0, num_computing())) c.devices_.push_back(device(d));
  c.links_.assign(c.num_devices() * c.num_devices(), {});
  for (const DeviceId a : c.devices())
    for (const DeviceId b : c.devices()) c.set_link(a, b, link(a, b));
  return c;
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

Link Spread::network(std::int64_t users) const {
  const double share = static_cast<double>(nics) / static_cast<double>(users * sharing);
  return {.bandwidth = {nic.bandwidth.bytes_per_second * std::min(1.0, share)},
          .latency = nic.latency};
}

Link Spread::worst() const {
  if (nodes <= 1) return inside;
  return per_node > 1 ? slower(network(1), inside) : network(1);
}

Spread spread_of(const Collective& c, std::span<const DeviceId> devices, const Cluster& cluster) {
  Spread spread{.ranks = std::max<std::int64_t>(c.ranks, c.members),
                .sharing = std::max<std::int64_t>(c.sharing, 1)};
  spread.per_node = spread.ranks;
  if (cluster.num_nodes() == 0) {
    if (c.nodes > 1 && c.nodes < spread.ranks)
      throw InputError(
          fmt::format("{} of {} ranks on {} machines: the cluster describes no machines with "
                      "several devices (cluster.nodes)",
                      to_text(c.kind), spread.ranks, c.nodes));
    spread.inside = worst_link(devices, cluster);
    return spread;
  }
  std::set<NodeId> nodes;
  std::int64_t node_size = 1;
  for (const DeviceId d : devices) {
    if (!nodes.insert(cluster.node_of(d)).second) continue;
    const Node& node = cluster.node(cluster.node_of(d));
    const bool first = nodes.size() == 1;
    spread.nic = first ? node.network : slower(spread.nic, node.network);
    spread.nics = first ? node.nics : std::min<std::int64_t>(spread.nics, node.nics);
    node_size = std::max<std::int64_t>(node_size, node.devices);
  }
  // Ranks that are not simulated alternate with those of the collectives that share their nodes.
  const std::int64_t places =
      spread.ranks > std::int64_t{c.members} ? spread.ranks * spread.sharing : spread.ranks;
  spread.nodes = c.nodes != 0 ? c.nodes
                              : std::max<std::int64_t>(static_cast<std::int64_t>(nodes.size()),
                                                       (places + node_size - 1) / node_size);
  spread.nodes = std::clamp<std::int64_t>(spread.nodes, 1, std::max<std::int64_t>(spread.ranks, 1));
  spread.per_node = (spread.ranks + spread.nodes - 1) / spread.nodes;
  if (spread.nodes > 1 && !(spread.nic.bandwidth.bytes_per_second > 0.0))
    throw InputError(
        fmt::format("cluster.nodes: {} of {} ranks spans several nodes, and 'network' is missing",
                    to_text(c.kind), spread.ranks));
  bool first = true;
  std::vector<DeviceId> here;
  for (const NodeId n : nodes) {
    here.clear();
    for (const DeviceId d : devices)
      if (cluster.node_of(d) == n) here.push_back(d);
    const Link worst = worst_link(here, cluster);
    spread.inside = first ? worst : slower(spread.inside, worst);
    first = false;
  }
  return spread;
}

Duration ring_time(CollectiveKind kind, std::int64_t ranks, Bytes bytes, const Link& link) {
  const std::int64_t n = ranks;
  if (n < 2) return Duration{};
  const Bytes part{bytes.count / n + (bytes.count % n != 0 ? 1 : 0)};
  const Duration step = saturated_sum(part / link.bandwidth, link.latency);
  switch (kind) {
    case CollectiveKind::all_reduce:
      return saturated_product(2 * (n - 1), step);
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all:
      return saturated_product(n - 1, step);
    case CollectiveKind::broadcast:
      return saturated_sum(bytes / link.bandwidth, saturated_product(n - 1, link.latency));
    case CollectiveKind::send_recv:
      break;
  }
  return saturated_sum(bytes / link.bandwidth, link.latency);
}

std::shared_ptr<const CollectiveModel> ring_collectives() {
  static const auto ring = std::make_shared<const Ring>();
  return ring;
}

}  // namespace baechi
