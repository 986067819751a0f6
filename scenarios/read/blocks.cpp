#include "scenarios/read/blocks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "placers/registry.h"
#include "scenarios/read/calibration_file.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/tree.h"
#include "sim/enum_option.h"
#include "sim/find_entry.h"
#include "sim/problem/engine_names.h"
#include "sim/transform/transform.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {
namespace {

using Value = Options::Value;

void expand(Value& value) {
  value.text = resolve_path(value, "");
  for (auto& [key, child] : value.children) expand(child);
}

std::vector<std::string> keys_of(const auto& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

DeviceChoice read_device(Options& o) {
  DeviceChoice d;
  d.count = static_cast<std::size_t>(o.get("count", std::int64_t{1}, "how many alike", 1));
  d.name = o.get("name", "gpu", "devices are numbered through the cluster: gpu0, gpu1, ...");
  d.kind =
      o.get("kind", "",
            "which of the trace's times apply, its first if empty; or a kind that 'baechi list "
            "devices' knows, for graphs that state the ops' work");
  d.memory = o.get("memory", Bytes{}, "each device's memory; needed unless its kind is known");
  d.speed =
      o.get("speed", 1.0, "relative to the device the op times are from; times are divided by it");
  if (d.speed == 0.0) o.mistake("speed", "0 is not above 0");
  return d;
}

Link read_link(Options& o, const DeviceTable& kinds) {
  Link link{};
  const std::string kind = o.get("kind", "", "one that 'baechi list devices' knows");
  if (!kind.empty()) {
    if (const auto it = kinds.links.find(kind); it != kinds.links.end())
      link = it->second.link;
    else
      o.mistake("kind", no_such("link kind", kind, keys_of(kinds.links)));
  }
  link.bandwidth = o.get("bandwidth", link.bandwidth, "of one direction; needed without a kind");
  link.latency = o.get("latency", link.latency, "what each transfer takes besides");
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
GroupLink read_group_link(Options& o, const DeviceTable& kinds) {
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
};
ClusterParts read_parts(Options& o) {
  ClusterParts parts;
  parts.devices = o.raw("devices", "{count, kind, memory, speed, name}, or a list of such groups");
  parts.memory_fraction = o.get("memory_fraction", 1.0, "of every device's memory, in (0, 1]");
  parts.link = o.raw("link", "{bandwidth, latency} between any two devices");
  parts.links = o.raw("links", "a list of {from, to, bandwidth, latency} between groups");
  parts.fit = o.raw(
      "fit", "baechi, pytorch, or {variant, us_per_byte, intercept_us, factor}: transfer times");
  if (parts.memory_fraction <= 0.0 || parts.memory_fraction > 1.0)
    o.mistake("memory_fraction", fmt::format("{} is not in (0, 1]", parts.memory_fraction));
  return parts;
}

EngineOptions read_engine(Options& o) {
  EngineOptions e;
  e.semantics = read_enum(o, "semantics", e.semantics,
                          "event: in order of time; baechi: the original's list simulation");
  e.transfers = read_enum(o, "transfers", e.transfers, "who may move tensors at the same time");
  e.queue = read_enum(o, "queue", e.queue, "which ready op runs next");
  e.cache_tensors = o.get("cache_tensors", e.cache_tensors, "a tensor crosses to a device once");
  e.overlap = o.get("overlap", e.overlap, "a device computes while it sends or receives");
  e.enforce_memory =
      o.get("enforce_memory", e.enforce_memory, "stop at the first request over a device's limit");
  return e;
}

ProfileChoice read_profile(Options& o) {
  ProfileChoice profile;
  profile.error =
      o.get("error", 0.0,
            "op and transfer times that placers see are off by a factor uniform in 1 +- "
            "this, other factors for each seed");
  if (profile.error >= 1.0) o.mistake("error", "not below 1");
  profile.transfers = read_enum_unless<Transfers>(o, "transfers", "engine",
                                                  "what placers take engine.transfers to be");
  return profile;
}

/// The file, and what is switched off.
std::string read_calibration(Options& o, CalibrationChoice& choice) {
  const std::string file = o.path("file", "that 'baechi validate calibrate' wrote");
  choice.use.mode = o.get("mode", {"graph", "stream"}, "how work is submitted");
  choice.use.way = o.get("way", {"link", "host", "peer"}, "how tensors move");
  const Value* off = o.raw("off", "a list of effects to leave out: op_gap, latency, costs");
  if (off == nullptr) return file;
  static const std::vector<std::string> known{"op_gap", "latency", "costs"};
  if (!is_list(*off)) o.mistake("off", "not a list");
  for (const auto& [key, v] : off->children) {
    if (std::ranges::find(known, v.text) == known.end()) {
      o.mistake("off", no_such("effect", v.text, known));
      continue;
    }
    for (const EffectName& effect : effect_names())
      if (effect.name == v.text) choice.use.effects.*(effect.on) = false;
  }
  return file;
}

ReportChoice read_report(Options& o) {
  ReportChoice report;
  report.placements =
      o.get("placements", report.placements, "keep every placement in results.sqlite");
  report.pictures = static_cast<std::size_t>(
      o.get("pictures", static_cast<std::int64_t>(report.pictures),
            "how many steps report.html draws, at most: of more runs those of some points"));
  report.timelines = read_enum(o, "timelines", report.timelines,
                               "ID.PLACER.trace.json.gz of each point's fastest run, or of all");
  return report;
}

/// The block's options as `read` takes them, all of them known and well.
auto read_block(const Value& block, const char* owner, auto read) {
  Options o = options_of(block, owner, "");
  auto result = read(o);
  o.finish();
  return result;
}

void need(const Value& block, std::string_view owner, std::initializer_list<std::string_view> keys,
          Findings& findings) {
  for (const std::string_view key : keys) {
    if (find(block, key) == nullptr)
      findings.add(fmt::format("{}{}: it needs '{}'", at(block.where), owner, key));
  }
}

void read_devices(const Value& block, const DeviceTable& kinds, ClusterChoice& cluster,
                  Findings& findings) {
  const auto group = [&](const Value& v) {
    findings.attempt([&] {
      DeviceChoice device = read_block(v, "cluster.devices", read_device);
      if (const auto it = kinds.devices.find(device.kind); it != kinds.devices.end())
        device.model = it->second;
      if (find(v, "memory") == nullptr && device.model != nullptr)
        device.memory = device.model->memory;
      else
        need(v, "cluster.devices", {"memory"}, findings);
      cluster.devices.push_back(std::move(device));
    });
  };
  if (!is_list(block)) return group(block);
  for (const auto& [key, v] : block.children) group(v);
}

/// A link's block says how fast it is.
void need_speed(const Value& block, std::string_view owner, Findings& findings) {
  if (find(block, "kind") == nullptr) need(block, owner, {"bandwidth"}, findings);
}

void read_links(const Value& block, const DeviceTable& kinds, ClusterChoice& cluster,
                Findings& findings) {
  std::vector<std::string> names;
  names.reserve(cluster.devices.size());
  for (const DeviceChoice& d : cluster.devices) names.push_back(d.name);
  const auto position = [&](const std::string& name, const Value& in) -> std::size_t {
    const auto n = std::ranges::count(names, name);
    if (n == 1) return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    findings.add(n == 0 ? fmt::format("{}cluster.links: no device group '{}'{} (groups: {})",
                                      at(in.where), name, did_you_mean(name, names),
                                      fmt::join(names, ", "))
                        : fmt::format("{}cluster.links: {} device groups are named '{}'",
                                      at(in.where), n, name));
    return 0;
  };
  if (!is_list(block)) {
    findings.add(fmt::format("{}cluster.links: not a list of {{from, to, bandwidth, latency}}",
                             at(block.where)));
    return;
  }
  for (const auto& [key, entry] : block.children) {
    need(entry, "cluster.links", {"from", "to"}, findings);
    need_speed(entry, "cluster.links", findings);
    findings.attempt([&] {
      const GroupLink g =
          read_block(entry, "cluster.links", [&](Options& o) { return read_group_link(o, kinds); });
      cluster.links.push_back(
          {.from = position(g.from, entry), .to = position(g.to, entry), .link = g.link});
    });
  }
}

/// NAME, or {NAME: {option: value, ...}}, in the list `owner`.
Choice read_choice(const Value& entry, std::string_view owner, const std::string& base) {
  if (entry.children.empty() && !entry.text.empty())
    return {.name = entry.text, .options = Options(entry.text), .where = entry.where};
  if (!is_mapping(entry) || entry.children.size() != 1)
    throw InputError(fmt::format("{}{}: not a NAME or {{NAME: {{option: value, ...}}}}",
                                 at(entry.where), owner));
  const auto& [name, options] = entry.children.front();
  return {.name = name, .options = options_of(options, name, base), .where = entry.where};
}

std::string text_with_options(const Value& entry) {
  if (!is_mapping(entry)) return entry.text;
  const auto& [name, options] = entry.children.front();
  std::string text = name;
  for (const auto& [key, value] : options.children)
    text += fmt::format("{}{}={}", text.size() == name.size() ? ':' : ',', key, one_line(value));
  return text;
}

}  // namespace

Options options_of(const Value& block, std::string owner, const std::string& base,
                   const std::vector<std::string>& except) {
  if (is_list(block) || (block.children.empty() && !block.text.empty()))
    throw InputError(fmt::format("{}{}: {} is not a mapping of options", at(block.where), owner,
                                 is_list(block) ? "a list" : fmt::format("'{}'", block.text)));
  std::map<std::string, Value> values;
  for (const auto& [key, child] : block.children) {
    if (std::ranges::find(except, key) != except.end()) continue;
    expand(values.emplace(key, child).first->second);
  }
  return Options(std::move(owner), std::move(values), base);
}

GraphChoice read_graph(const Value& block, const std::string& base, Findings& findings) {
  GraphChoice graph;
  graph.where = block.where;
  graph.text = one_line(block);
  const Value* generate = find(block, "generate");
  const Value* import = find(block, "import");
  if ((generate == nullptr) == (import == nullptr)) {
    findings.add(fmt::format("{}graph: it needs either 'generate: NAME' or 'import: FILE'",
                             at(block.where)));
    return graph;
  }
  findings.attempt([&] {
    if (generate != nullptr) {
      findings.attempt(
          [&] { find_entry(generators(), "generator", generate->text, generate->where); });
      graph.generate = {.name = generate->text,
                        .options = options_of(block, generate->text, base, {"generate"}),
                        .where = generate->where};
      return;
    }
    if (const Value* importer = find(block, "importer")) {
      graph.importer = importer->text;
      findings.attempt(
          [&] { find_entry(importers(), "importer", importer->text, importer->where); });
    }
    graph.import_options = options_of(block, "import", base, {"import", "importer"});
    if (is_pattern(import->text))
      throw InputError(fmt::format(
          "{}graph.import: a pattern ('{}') stands in a sweep: sweep: {{graph.import: [...]}}",
          at(import->where), import->text));
    graph.file = resolve_path(*import, base);
    std::error_code ec;
    if (!std::filesystem::is_regular_file(graph.file, ec))
      throw InputError(fmt::format("{}graph.import: no file '{}'", at(import->where), graph.file));
  });
  return graph;
}

ClusterChoice read_cluster(const Value& block, const DeviceTable& kinds, Findings& findings) {
  ClusterChoice cluster;
  const std::size_t before = findings.size();
  findings.attempt([&] {
    Options o = options_of(block, "cluster", "");
    const ClusterParts parts = read_parts(o);
    cluster.memory_fraction = parts.memory_fraction;
    findings.attempt([&] { o.finish(); });
    need(block, "cluster", {"devices"}, findings);
    if (parts.devices != nullptr) read_devices(*parts.devices, kinds, cluster, findings);
    if (parts.link != nullptr) {
      need_speed(*parts.link, "cluster.link", findings);
      findings.attempt([&] {
        cluster.link = read_block(*parts.link, "cluster.link",
                                  [&](Options& values) { return read_link(values, kinds); });
      });
    }
    if (parts.fit != nullptr) {
      const bool by_name = parts.fit->children.empty() &&
                           (parts.fit->text == "baechi" || parts.fit->text == "pytorch");
      findings.attempt([&] {
        if (by_name) {
          cluster.fit =
              parts.fit->text == "pytorch" ? OriginalCosts::pytorch_fit : OriginalCosts::Fit{};
        } else if (is_mapping(*parts.fit)) {
          cluster.fit = read_block(*parts.fit, "cluster.fit", read_fit);
        } else {
          throw InputError(at(parts.fit->where) +
                           "cluster.fit: not 'baechi', 'pytorch' or {variant, us_per_byte, "
                           "intercept_us, factor}");
        }
      });
    }
    if (findings.size() != before) return;
    if (parts.links != nullptr) read_links(*parts.links, kinds, cluster, findings);
    std::size_t count = 0;
    for (const DeviceChoice& d : cluster.devices) count += std::min(d.count, most_devices + 1);
    if (count > most_devices)
      findings.add(
          fmt::format("{}cluster.devices: more than {}", at(parts.devices->where), most_devices));
    if (count > 1 && parts.link == nullptr && parts.fit == nullptr)
      findings.add(at(block.where) +
                   "cluster: several devices need 'link: {bandwidth: ...}', 'link: {kind: ...}' or "
                   "'fit: baechi'");
  });
  return cluster;
}

CalibrationChoice read_calibration(const Value& block, const std::string& base,
                                   Findings& findings) {
  CalibrationChoice choice;
  findings.attempt([&] {
    if (is_mapping(block)) {
      need(block, "calibration", {"file"}, findings);
      Options o = options_of(block, "calibration", base);
      choice.file = read_calibration(o, choice);
      o.finish();
    } else if (!block.children.empty() || block.text.empty()) {
      throw InputError(at(block.where) + "calibration: not a path or {file, mode, way, off}");
    } else {
      choice.file = resolve_path(block, base);
    }
    if (choice.file.empty()) return;
    try {
      choice.measured = std::make_shared<const Calibration>(baechi::read_calibration(choice.file));
    } catch (const InputError& e) {
      throw InputError(fmt::format("{}calibration: {}", at(block.where), e.what()));
    }
  });
  return choice;
}

EngineOptions read_engine(const Value& block, Findings& findings) {
  EngineOptions engine;
  findings.attempt(
      [&] { engine = read_block(block, "engine", [](Options& o) { return read_engine(o); }); });
  return engine;
}

ProfileChoice read_profile(const Value& block, Findings& findings) {
  ProfileChoice profile;
  findings.attempt(
      [&] { profile = read_block(block, "profile", [](Options& o) { return read_profile(o); }); });
  return profile;
}

ReportChoice read_report(const Value& block, Findings& findings) {
  ReportChoice report;
  findings.attempt(
      [&] { report = read_block(block, "report", [](Options& o) { return read_report(o); }); });
  return report;
}

std::vector<PlacerChoice> read_placers(const Value& block, const std::string& base,
                                       Findings& findings) {
  std::vector<PlacerChoice> choices;
  if (!is_list(block)) {
    findings.add(at(block.where) + "placers: not a list of NAME or {NAME: {option: value, ...}}");
    return choices;
  }
  std::map<std::string, int> uses;
  for (const auto& [key, entry] : block.children) {
    findings.attempt([&] {
      choices.push_back({read_choice(entry, "placers", base)});
      PlacerChoice& choice = choices.back();
      ++uses[choice.name];
      choice.placer = make_placer(choice.name, choice.options, entry.where);
    });
  }
  if (choices.size() != block.children.size()) return choices;
  std::set<std::string> labels;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i].text = text_with_options(block.children[i].second);
    choices[i].label = uses[choices[i].name] > 1 ? choices[i].text : choices[i].name;
    if (!labels.insert(choices[i].label).second)
      findings.add(fmt::format("{}placers: '{}' stands there twice", at(choices[i].where),
                               choices[i].label));
  }
  return choices;
}

TransformChoice made_transform(Choice choice) {
  TransformChoice made{std::move(choice)};
  made.transform = make_transform(made.name, made.options, made.where);
  made.use = std::ranges::find(transforms(), made.name, &TransformEntry::name)->use;
  return made;
}

std::vector<TransformChoice> read_transforms(const Value& block, const std::string& base,
                                             Findings& findings) {
  std::vector<TransformChoice> choices;
  const auto one = [&](const Value& entry) {
    findings.attempt(
        [&] { choices.push_back(made_transform(read_choice(entry, "transforms", base))); });
  };
  if (block.text.empty() && block.children.empty()) return choices;
  if (block.text == "none") return choices;  // what a sweep compares with
  if (!is_list(block)) {
    one(block);
    return choices;
  }
  for (const auto& [key, entry] : block.children) one(entry);
  return choices;
}

std::vector<std::uint64_t> read_seeds(const Value& block, Findings& findings) {
  std::vector<std::uint64_t> seeds;
  std::set<std::uint64_t> known;
  const auto one = [&](const Value& v) {
    std::uint64_t seed = 0;
    const char* last = v.text.data() + v.text.size();
    const auto [end, ec] = std::from_chars(v.text.data(), last, seed);
    if (ec != std::errc{} || end != last || !v.children.empty() || v.text.empty())
      findings.add(fmt::format("{}seeds: '{}' is not a whole number >= 0", at(v.where),
                               v.children.empty() ? v.text : one_line(v)));
    else if (!known.insert(seed).second)
      findings.add(fmt::format("{}seeds: {} stands there twice", at(v.where), seed));
    else
      seeds.push_back(seed);
  };
  if (is_list(block)) {
    for (const auto& [key, v] : block.children) one(v);
  } else {
    one(block);
  }
  return seeds;
}

std::vector<BlockKeys> block_keys() {
  const auto keys = [](auto read) {
    Options o;
    read(o);
    return o.declared();
  };
  return {
      {"cluster.devices",
       "one such block, or a list of groups of equal devices",
       keys([](Options& o) { read_device(o); }),
       {}},
      {"cluster.link",
       "between any two devices, where `links` says nothing",
       keys([](Options& o) { read_link(o, {}); }),
       {}},
      {"cluster.links",
       "a list: both directions between two groups; later ones win",
       keys([](Options& o) { read_group_link(o, {}); }),
       {"from", "to"}},
      {"cluster.fit",
       "transfers take the time of the original's fit, not the link's; `baechi` and `pytorch` "
       "alone mean the variants as they are",
       keys([](Options& o) { read_fit(o); }),
       {}},
      {"cluster",
       "what the graph runs on: such a block, or the path of a file with one",
       keys([](Options& o) { read_parts(o); }),
       {"devices"}},
      {"kinds.devices",
       "entries NAME: {...}; an op of known work takes launch + the longer of flops / (peak x "
       "efficiency) and traffic / (bandwidth x bandwidth_efficiency)",
       device_kind_options(),
       {"peak", "bandwidth", "memory"}},
      {"kinds.links", "entries NAME: {...}", link_kind_options(), {"bandwidth"}},
      {"calibration",
       "costs as measured of a machine: such a block, or the path of the file alone; each op with "
       "the gap that follows it, each transfer with its latency",
       keys([](Options& o) {
         CalibrationChoice choice;
         read_calibration(o, choice);
       }),
       {"file"}},
      {"engine", "how the step is executed", keys([](Options& o) { read_engine(o); }), {}},
      {"profile", "what placers know of the costs", keys([](Options& o) { read_profile(o); }), {}},
      {"report", "what the results hold", keys([](Options& o) { read_report(o); }), {}},
  };
}

}  // namespace baechi
