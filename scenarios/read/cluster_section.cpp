#include <algorithm>

#include "scenarios/read/cluster_parts.h"
#include "scenarios/read/tree.h"
#include "sim/options.h"

namespace baechi {
namespace {

using Value = Options::Value;

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

OriginalCosts::Fit read_fit(Options& o) {
  const bool pytorch =
      o.get("variant", {"baechi", "pytorch"},
            "baechi: of TensorFlow, in whole microseconds; pytorch: 0.0001788 and 100 instead, "
            "empty tensors take no time") == "pytorch";
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
                      "{count, kind, devices, link, nics, network, ...}, or a list of such "
                      "groups: machines that share network interfaces");
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

/// A link's section must state its speed.
void need_speed(const Value& section, std::string_view owner, Mistakes& mistakes) {
  if (find(section, "kind") == nullptr) need(section, owner, {"bandwidth"}, mistakes);
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

/// Checks for parts that exclude each other or are missing.
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
  std::vector<SectionKeys> all{
      {"cluster.devices",
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
       {}}};
  std::ranges::move(nodes_section_keys(), std::back_inserter(all));
  all.push_back({"cluster",
                 "devices and links: such a section, or the path of a file with one; it requires "
                 "`devices` or `nodes`",
                 keys_of_reader([](Options& o) { read_parts(o); }),
                 {}});
  return all;
}

}  // namespace baechi
