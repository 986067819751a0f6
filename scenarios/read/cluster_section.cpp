#include <filesystem>

#include "scenarios/read/paths.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "sim/collectives/collective_models.h"

namespace baechi {

namespace {

using Value = Options::Value;
using Sections = std::map<std::string, SectionModel>;

/// `value` merged into `base`, mappings key by key.
Value merged(Value base, const Value& value) {
  if (!is_mapping(base) || !is_mapping(value)) return value;
  for (const auto& [key, child] : value.children) {
    if (Value* old = find(base, key))
      *old = merged(*old, child);
    else
      base.children.emplace_back(key, child);
  }
  return base;
}

/// The section of `kinds` named at key `kind` of `value`, overridden by the other keys of `value`;
/// `value` if it has no such key. Throws InputError on an unknown name; `what`, such as "node
/// kind", is its description.
Value with_kind(const Value& value, std::string_view what, const KnownKinds& kinds,
                Sections DeviceTable::* known) {
  const Value* kind = find(value, "kind");
  if (kind == nullptr) return value;
  const Sections& sections = kinds.table().*known;
  const auto it = sections.find(kind->text);
  if (it == sections.end())
    throw InputError(at(kind->where) + no_such(what, kind->text, keys_of(sections)));
  Value own = value;
  erase(own, "kind");
  Value section = is_mapping(own) ? merged(it->second.section, own) : it->second.section;
  section.where = value.where;
  return section;
}

/// The folder of the file that contains a value; `base` if it is in no file.
std::string folder_of(const Value& value, const std::string& base) {
  const std::string file = value.where.substr(0, value.where.find(':'));
  return is_file(file) ? std::filesystem::path(file).parent_path().string() : base;
}

/// The section with names of types replaced by their sections, and with full paths, also in
/// `inside`.
Value whole(const Value& given, const std::string& base, const KnownKinds& kinds) {
  Value section = with_kind(given, "collective kind", kinds, &DeviceTable::collectives);
  if (Value* file = find(section, "file")) file->text = resolve_path(*file, folder_of(*file, base));
  if (Value* inside = find(section, "inside"); inside != nullptr && is_mapping(*inside))
    *inside = whole(*inside, base, kinds);
  return section;
}

/// Reads NAME, {model: NAME, ...} or {kind: NAME, ...} into `cluster`. Throws InputError.
void read_collectives(const Value& section, const std::string& base, const KnownKinds& kinds,
                      ClusterChoice& cluster) {
  const Value made = whole(section, base, kinds);
  cluster.collectives = make_collectives(made);
  cluster.collectives_text = one_line(made);
}

DeviceChoice read_device(Options& o) {
  DeviceChoice d;
  d.count = static_cast<std::size_t>(o.get("count", std::int64_t{1}, "number of equal devices", 1));
  d.name = o.get("name", "gpu", "devices are numbered through the cluster: gpu0, gpu1, ...");
  d.kind = o.get("kind", "",
                 "which of the trace's times apply, its first if empty; or a type of 'baechi list "
                 "devices', for graphs that give the ops' work");
  d.memory = o.get("memory", Bytes{},
                   "each device's memory; required unless `kind` is in the device table");
  d.speed = o.get("speed", 1.0,
                  "relative to the device the op times are from; times are divided by it, except "
                  "those in lanes of the host");
  if (d.speed == 0.0) o.mistake("speed", "0 is not above 0");
  return d;
}

Link read_link(Options& o, const KnownKinds& kinds) {
  Link link{};
  const std::string kind = o.get("kind", "", "a link of 'baechi list devices'");
  if (!kind.empty()) {
    if (const auto it = kinds->links.find(kind); it != kinds->links.end())
      link = it->second.link;
    else
      o.mistake("kind", no_such("link kind", kind, keys_of(kinds->links)));
  }
  link.bandwidth = o.get("bandwidth", link.bandwidth, "of one direction; required without a kind");
  link.latency = o.get("latency", link.latency, "added to each transfer");
  return link;
}

/// A link's section must state its speed.
void need_speed(const Value& section, std::string_view owner, Mistakes& mistakes) {
  if (find(section, "kind") == nullptr) need(section, owner, {"bandwidth"}, mistakes);
}

/// Reads {count, kind, memory, speed, name}; a device type of the table has its memory by default.
/// Throws InputError.
DeviceChoice read_device_group(const Value& section, const char* owner, const KnownKinds& kinds) {
  DeviceChoice device = read_section(section, owner, read_device);
  if (!device.kind.empty())
    if (const auto it = kinds->devices.find(device.kind); it != kinds->devices.end())
      device.model = it->second;
  if (find(section, "memory") == nullptr && device.model != nullptr) {
    device.memory = device.model->memory;
    return device;
  }
  Mistakes mistakes;
  if (find(section, "memory") == nullptr && !device.kind.empty())
    mistakes.add(fmt::format(
        "{}{}.kind: {}; a device type that only the trace defines needs 'memory', too",
        at(find(section, "kind")->where), owner, no_such_device(device.kind, kinds->devices)));
  else
    need(section, owner, {"memory"}, mistakes);
  mistakes.throw_if_any();
  return device;
}

/// Reads {kind, bandwidth, latency}. Throws InputError.
Link read_link_section(const Value& section, const char* owner, const KnownKinds& kinds) {
  if (section.children.empty() && !section.text.empty())
    throw InputError(fmt::format(
        "{}{}: '{}' is not a mapping of options, such as {{{}}}", at(section.where), owner,
        section.text,
        kinds->links.contains(section.text) ? "kind: " + section.text : "bandwidth: 5.7 GB/s"));
  Mistakes mistakes;
  need_speed(section, owner, mistakes);
  mistakes.throw_if_any();
  return read_section(section, owner, [&](Options& o) { return read_link(o, kinds); });
}

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
  parts.devices =
      o.raw("devices",
            "{count, kind, memory, speed, name}: the devices of one node; required without a kind");
  parts.link = o.raw(
      "link",
      "{kind, bandwidth, latency}: between two devices of a node; with `wires`, of a single wire");
  parts.wires = o.raw("wires",
                      "a list of lists: number of wires between two devices of a node; without it "
                      "each device has `link` to all others, as with a switch");
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

/// Reads `section`, one group of nodes or a list, and adds their devices to cluster.devices.
/// Returns the collectives' settings of the first node type, if it has any.
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

OriginalCosts::Fit read_fit(Options& o) {
  const bool pytorch = o.get("variant", {"baechi", "pytorch"},
                             "baechi: of TensorFlow, in whole microseconds; pytorch: 0.0001788 and "
                             "100 instead, empty tensors take no time") == "pytorch";
  OriginalCosts::Fit fit = pytorch ? OriginalCosts::pytorch_fit : OriginalCosts::Fit{};
  fit.us_per_byte = o.get("us_per_byte", fit.us_per_byte, "microseconds per byte");
  fit.intercept_us = o.get("intercept_us", fit.intercept_us, "microseconds per transfer");
  fit.factor = o.get("factor", fit.factor, "of us_per_byte (pytorch: 1.2)");
  return fit;
}

struct GroupLink {
  std::string from, to;
  Link link{};
};
GroupLink read_group_link(Options& o, const KnownKinds& kinds) {
  GroupLink g;
  g.from = o.get("from", "", "name of a device group");
  g.to = o.get("to", "", "name of a device group; the same: inside the group");
  g.link = read_link(o, kinds);
  return g;
}

struct ClusterParts {
  double memory_fraction = 1.0;
  const Value* devices = nullptr;
  const Value* link = nullptr;
  const Value* links = nullptr;
  const Value* fit = nullptr;
  const Value* nodes = nullptr;
  const Value* collectives = nullptr;
};
ClusterParts read_parts(Options& o) {
  ClusterParts parts;
  parts.devices = o.raw("devices", "{count, kind, memory, speed, name}, or a list of such groups");
  parts.memory_fraction = o.get("memory_fraction", 1.0, "of every device's memory, in (0, 1]");
  parts.link = o.raw("link", "{bandwidth, latency} between any two devices");
  parts.links = o.raw("links", "a list of {from, to, bandwidth, latency} between groups");
  parts.fit = o.raw(
      "fit", "baechi, pytorch, or {variant, us_per_byte, intercept_us, factor}: transfer times");
  parts.nodes = o.raw("nodes",
                      "{count, kind, devices, link, nics, network, ...}, or a list of such groups: "
                      "machines that share network interfaces");
  parts.collectives = o.raw("collectives",
                            "NAME, {model: NAME, option: value, ...} or {kind: NAME}: how long "
                            "collectives take [hierarchical]");
  if (parts.memory_fraction <= 0.0 || parts.memory_fraction > 1.0)
    o.mistake("memory_fraction", fmt::format("{} is not in (0, 1]", parts.memory_fraction));
  return parts;
}

void read_devices(const Value& section, const KnownKinds& kinds, ClusterChoice& cluster,
                  Mistakes& mistakes) {
  const auto group = [&](const Value& v) {
    mistakes.attempt(
        [&] { cluster.devices.push_back(read_device_group(v, "cluster.devices", kinds)); });
  };
  if (!is_list(section)) return group(section);
  for (const auto& [key, v] : section.children) group(v);
}

void read_links(const Value& section, const KnownKinds& kinds, ClusterChoice& cluster,
                Mistakes& mistakes) {
  std::vector<std::string> names;
  names.reserve(cluster.devices.size());
  for (const DeviceChoice& d : cluster.devices) names.push_back(d.name);
  const auto position = [&](const std::string& name, const Value& in) -> std::size_t {
    const auto n = std::ranges::count(names, name);
    if (n == 1) return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    mistakes.add(n == 0 ? fmt::format("{}cluster.links: no device group '{}'{} (groups: {})",
                                      at(in.where), name, did_you_mean(name, names),
                                      fmt::join(names, ", "))
                        : fmt::format("{}cluster.links: {} device groups are named '{}'",
                                      at(in.where), n, name));
    return 0;
  };
  if (!is_list(section)) {
    mistakes.add(fmt::format("{}cluster.links: not a list of {{from, to, bandwidth, latency}}",
                             at(section.where)));
    return;
  }
  for (const auto& [key, entry] : section.children) {
    need(entry, "cluster.links", {"from", "to"}, mistakes);
    need_speed(entry, "cluster.links", mistakes);
    mistakes.attempt([&] {
      const GroupLink g = read_section(entry, "cluster.links",
                                       [&](Options& o) { return read_group_link(o, kinds); });
      cluster.links.push_back(
          {.from = position(g.from, entry), .to = position(g.to, entry), .link = g.link});
    });
  }
}

void check_parts(const Value& section, const ClusterParts& parts, Mistakes& mistakes) {
  if (parts.nodes == nullptr) {
    if (parts.devices == nullptr)
      mistakes.add(at(section.where) + "cluster: it needs 'devices' or 'nodes'");
    return;
  }
  for (const auto& [key, value] : {std::pair("devices", parts.devices),
                                   {"link", parts.link},
                                   {"links", parts.links},
                                   {"fit", parts.fit}}) {
    if (value != nullptr)
      mistakes.add(fmt::format("{}cluster: '{}' cannot be combined with 'nodes', which define it",
                               at(value->where), key));
  }
}

/// Adds the fit and error of the types that `section` names, and of those that they name. `nodes`:
/// the section may name a node type; in a node type, other types may have its name.
void add_evidence(const Value& section, const KnownKinds& kinds, std::vector<Evidence>& evidence,
                  bool nodes = true) {
  const auto add = [&](std::string_view what, const std::string& kind, const std::string& fitted) {
    const std::string of = fmt::format("{} {}", what, kind);
    if (std::ranges::find(evidence, of, &Evidence::of) == evidence.end())
      evidence.push_back({of, fitted.empty() ? "unfitted" : fitted});
  };
  for (const auto& [key, value] : section.children) {
    add_evidence(value, kinds, evidence, nodes);
    if (key != "kind") continue;
    if (const auto it = kinds->links.find(value.text); it != kinds->links.end())
      add("link", value.text, it->second.fitted);
    if (const auto it = kinds->collectives.find(value.text); it != kinds->collectives.end())
      add("collectives", value.text, it->second.fitted);
    if (const auto it = kinds->nodes.find(value.text); nodes && it != kinds->nodes.end()) {
      if (!it->second.fitted.empty()) add("nodes", value.text, it->second.fitted);
      add_evidence(it->second.section, kinds, evidence, false);
    }
  }
}

}  // namespace

ClusterChoice read_cluster(const Value& section, const std::string& base, const KnownKinds& kinds,
                           Mistakes& mistakes) {
  ClusterChoice cluster;
  const std::size_t before = mistakes.size();
  mistakes.attempt([&] {
    Options o = options_of(section, "cluster", "");
    const ClusterParts parts = read_parts(o);
    cluster.memory_fraction = parts.memory_fraction;
    mistakes.attempt([&] { o.finish(); });
    check_parts(section, parts, mistakes);
    if (parts.devices != nullptr) read_devices(*parts.devices, kinds, cluster, mistakes);
    if (parts.link != nullptr)
      mistakes.attempt(
          [&] { cluster.link = read_link_section(*parts.link, "cluster.link", kinds); });
    std::optional<Value> collectives;
    if (parts.nodes != nullptr) collectives = read_nodes(*parts.nodes, kinds, cluster, mistakes);
    if (parts.collectives != nullptr) collectives = *parts.collectives;
    if (collectives)
      mistakes.attempt([&] { read_collectives(*collectives, base, kinds, cluster); });
    if (parts.fit != nullptr) {
      const bool by_name = parts.fit->children.empty() &&
                           (parts.fit->text == "baechi" || parts.fit->text == "pytorch");
      mistakes.attempt([&] {
        if (by_name) {
          cluster.fit =
              parts.fit->text == "pytorch" ? OriginalCosts::pytorch_fit : OriginalCosts::Fit{};
        } else if (is_mapping(*parts.fit)) {
          cluster.fit = read_section(*parts.fit, "cluster.fit", read_fit);
        } else {
          throw InputError(at(parts.fit->where) +
                           "cluster.fit: not 'baechi', 'pytorch' or {variant, us_per_byte, "
                           "intercept_us, factor}");
        }
      });
    }
    if (mistakes.size() != before) return;
    add_evidence(section, kinds, cluster.evidence);
    if (parts.links != nullptr) read_links(*parts.links, kinds, cluster, mistakes);
    std::size_t count = 0;
    for (const DeviceChoice& d : cluster.devices) count += std::min(d.count, most_devices + 1);
    if (count > most_devices)
      mistakes.add(parts.nodes == nullptr ? fmt::format("{}cluster.devices: more than {}",
                                                        at(parts.devices->where), most_devices)
                                          : fmt::format("{}cluster.nodes: more than {} devices",
                                                        at(parts.nodes->where), most_devices));
    if (count > 1 && parts.link == nullptr && parts.fit == nullptr && parts.nodes == nullptr)
      mistakes.add(at(section.where) +
                   "cluster: several devices need 'link: {bandwidth: ...}', 'link: {kind: ...}' or "
                   "'fit: baechi'");
  });
  return cluster;
}

std::vector<SectionKeys> cluster_section_keys() {
  return {{"cluster.devices",
           "one such section, or a list of groups of equal devices",
           keys_of_reader([](Options& o) { read_device(o); }),
           {}},
          {"cluster.link",
           "between any two devices, where `links` says nothing",
           keys_of_reader([](Options& o) { read_link(o, {}); }),
           {}},
          {"cluster.links",
           "a list: both directions between two groups; later ones win",
           keys_of_reader([](Options& o) { read_group_link(o, {}); }),
           {"from", "to"}},
          {"cluster.fit",
           "transfers take the time of the original's fit, not the link's; `baechi` and `pytorch` "
           "alone mean the variants as they are",
           keys_of_reader([](Options& o) { read_fit(o); }),
           {}},
          {"cluster.nodes",
           "one such section, or a list of groups of equal nodes; instead of `devices` and `link`",
           keys_of_reader([](Options& o) { read_node_parts(o); }),
           {}},
          {"cluster",
           "devices and links: such a section, or the path of a file with one; it requires "
           "`devices` or `nodes`",
           keys_of_reader([](Options& o) { read_parts(o); }),
           {}}};
}

}  // namespace baechi
