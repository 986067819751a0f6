#include "scenarios/read/cluster_parts.h"
#include "scenarios/read/tree.h"
#include "sim/error.h"

namespace baechi {
namespace {

using Value = Options::Value;

constexpr std::int64_t most_nics = 1024;
/// The default: the fraction of the line rate between nodes that NCCL achieves in public logs.
constexpr double network_efficiency = 0.95;

struct NodeParts {
  std::size_t count = 1;
  std::string kind;
  const Value* devices = nullptr;
  const Value* link = nullptr;
  const Value* wires = nullptr;
  const Value* unwired = nullptr;
  const Value* network = nullptr;
  std::uint32_t nics = 1;
  double oversubscription = 1.0, efficiency = network_efficiency;
  const Value* collectives = nullptr;
};
NodeParts read_node_parts(Options& o) {
  NodeParts parts;
  parts.count = static_cast<std::size_t>(
      o.get("count", std::int64_t{1}, "number of equal nodes", 1, std::int64_t{most_devices}));
  parts.kind =
      o.get("kind", "", "a node type of 'baechi list nodes'; other keys override its keys");
  parts.devices = o.raw("devices",
                        "{count, kind, memory, speed, name}: the devices of one node; required "
                        "without a kind");
  parts.link = o.raw("link",
                     "{kind, bandwidth, latency}: between two devices of a node; with "
                     "`wires`, of a single wire");
  parts.wires =
      o.raw("wires",
            "a list of lists: number of wires between two devices of a node; without it each "
            "device has `link` to all others, as with a switch");
  parts.unwired = o.raw("unwired", "{kind, bandwidth, latency}: between devices without a wire");
  parts.nics = static_cast<std::uint32_t>(o.get(
      "nics", std::int64_t{1}, "network interfaces, which the node's devices share", 1, most_nics));
  parts.network = o.raw("network", "{kind, bandwidth, latency} of one network interface");
  parts.oversubscription =
      o.get("oversubscription", 1.0,
            "oversubscription of the switches: divides the bandwidth of each network interface",
            1.0, 1e6);
  parts.efficiency = o.get("network_efficiency", parts.efficiency,
                           "achieved fraction of the network interfaces' bandwidth", 0.01, 1.0);
  parts.collectives = o.raw("collectives", "default of `cluster.collectives`");
  return parts;
}

/// Symmetric, without wires from a device to itself. [devices, devices]
std::vector<std::uint32_t> read_wires(const Value& section, std::size_t devices) {
  const auto wrong = [&](const Value& at_value) {
    return InputError(
        fmt::format("{}cluster.nodes.wires: not {} lists of {} whole numbers, symmetric, 0 from a "
                    "device to itself",
                    at(at_value.where), devices, devices));
  };
  if (section.children.size() != devices) throw wrong(section);
  std::vector<std::uint32_t> wires;
  for (const auto& [key, row] : section.children) {
    if (row.children.size() != devices) throw wrong(row);
    for (const auto& [none, cell] : row.children) {
      const auto count = parse_number<std::uint32_t>(cell.text);
      if (!count || *count > 1000) throw wrong(cell);
      wires.push_back(*count);
    }
  }
  for (std::size_t a = 0; a < devices; ++a)
    for (std::size_t b = 0; b <= a; ++b)
      if (wires[a * devices + b] != (a == b ? 0 : wires[b * devices + a])) throw wrong(section);
  return wires;
}

void add_group(const Value& given, const KnownKinds& kinds, ClusterChoice& cluster) {
  const Value section = with_kind(given, "node kind", kinds, &DeviceTable::nodes);
  Options o = options_of(section, "cluster.nodes", "");
  const NodeParts parts = read_node_parts(o);
  o.finish();
  const auto lacks = [&](std::string_view what) {
    return InputError(fmt::format("{}cluster.nodes: it needs {}", at(section.where), what));
  };
  if (parts.devices == nullptr) throw lacks("'devices' or 'kind'");
  DeviceChoice device = read_device_group(*parts.devices, "cluster.nodes.devices", kinds);
  if (device.count > most_devices / parts.count)
    throw InputError(
        fmt::format("{}cluster.nodes: more than {} devices", at(section.where), most_devices));
  Node node{.devices = static_cast<std::uint32_t>(device.count), .nics = parts.nics};
  if (parts.network != nullptr) {
    node.network = read_link_section(*parts.network, "cluster.nodes.network", kinds);
    node.network.bandwidth.bytes_per_second *= parts.efficiency / parts.oversubscription;
  } else if (parts.count > 1) {
    throw lacks("'network', between the nodes");
  }
  if (parts.link != nullptr)
    node.inside = read_link_section(*parts.link, "cluster.nodes.link", kinds);
  else if (device.count > 1)
    throw lacks("'link', between the devices of a node");
  else
    node.inside = node.network;
  if (parts.wires != nullptr) {
    node.wires = read_wires(*parts.wires, device.count);
    if (parts.unwired == nullptr) throw lacks("'unwired' with 'wires'");
    node.unwired = read_link_section(*parts.unwired, "cluster.nodes.unwired", kinds);
  }
  device.count *= parts.count;
  cluster.devices.push_back(std::move(device));
  cluster.nodes.push_back({.count = parts.count, .node = std::move(node)});
}

}  // namespace

std::optional<Value> read_nodes(const Value& section, const KnownKinds& kinds,
                                ClusterChoice& cluster, Mistakes& mistakes) {
  std::optional<Value> collectives;
  const auto group = [&](const Value& given) {
    mistakes.attempt([&] {
      add_group(given, kinds, cluster);
      const Value whole = with_kind(given, "node kind", kinds, &DeviceTable::nodes);
      const Value* own = find(whole, "collectives");
      if (own != nullptr && !collectives) collectives = *own;
      if (cluster.nodes.size() > 1) need(whole, "cluster.nodes", {"network"}, mistakes);
    });
  };
  if (!is_list(section)) {
    group(section);
  } else {
    for (const auto& [key, given] : section.children) group(given);
    if (!section.children.empty() && cluster.nodes.size() > 1)
      need(with_kind(section.children.front().second, "node kind", kinds, &DeviceTable::nodes),
           "cluster.nodes", {"network"}, mistakes);
  }
  return collectives;
}

std::vector<SectionKeys> nodes_section_keys() {
  return {{"cluster.nodes",
           "one such section, or a list of groups of equal nodes; instead of `devices` and `link`",
           keys_of_reader([](Options& o) { read_node_parts(o); }),
           {}}};
}

}  // namespace baechi
