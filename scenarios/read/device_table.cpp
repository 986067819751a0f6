#include "scenarios/read/device_table.h"

#include "scenarios/read/blocks.h"
#include "scenarios/read/tree.h"
#include "scenarios/read/yaml.h"
#include "sim/error.h"

namespace baechi {

extern const char* const devices_yaml;  // made by CMake of scenarios/devices.yaml

namespace {

using Value = Options::Value;

void read_efficiency(const Value& block, DeviceModel& model, Options& o) {
  if (!is_mapping(block)) return o.mistake("efficiency", "not {KIND OF OP: SHARE, default: SHARE}");
  for (const auto& [kind, share] : block.children) {
    const auto value = parse_number<double>(share.text);
    if (!value || !(*value > 0.0) || *value > 10.0) {
      o.mistake("efficiency",
                fmt::format("{}: '{}' is not a share of the peak above 0", kind, share.text));
    } else if (kind == "default") {
      model.efficiency = *value;
    } else {
      model.kind[kind] = *value;
    }
  }
}

DeviceModel read_device_kind(Options& o) {
  using namespace std::chrono_literals;
  DeviceModel model;
  model.peak = o.get("peak", FlopRate{}, "arithmetic of the units that the model's kernels use");
  model.bandwidth = o.get("bandwidth", Bandwidth{}, "of the device's memory");
  model.memory = o.get("memory", Bytes{}, "where `cluster.devices.memory` says nothing");
  model.launch = o.get("launch", Duration{5us}, "what each kernel takes besides its work");
  model.no_kernel = o.get("no_kernel", Duration{1us}, "what an op that runs no kernel takes");
  model.bandwidth_efficiency =
      o.get("bandwidth_efficiency", 0.75, "share of the bandwidth reached");
  if (const Value* efficiency = o.raw("efficiency", "share of the peak reached, by kind of op"))
    read_efficiency(*efficiency, model, o);
  model.source = o.get("source", "", "where the figures are from");
  return model;
}

LinkModel read_link_kind(Options& o) {
  LinkModel model;
  model.link.bandwidth = o.get("bandwidth", Bandwidth{}, "of one direction");
  model.link.latency = o.get("latency", Duration{}, "what each transfer takes besides");
  model.source = o.get("source", "", "where the figures are from");
  return model;
}

/// Each entry of `block` as `read` takes it; `needed` keys must be there.
template <class T>
void read_kinds(const Value& block, const std::string& owner,
                std::initializer_list<std::string_view> needed, T (*read)(Options&),
                Mistakes& mistakes, auto keep) {
  if (!is_mapping(block))
    return mistakes.add(fmt::format("{}{}: not {{NAME: {{...}}, ...}}", at(block.where), owner));
  for (const auto& [name, entry] : block.children) {
    mistakes.attempt([&, &label = name, &value = entry] {
      for (const std::string_view key : needed)
        if (find(value, key) == nullptr)
          throw InputError(
              fmt::format("{}{}.{}: it needs '{}'", at(value.where), owner, label, key));
      Options o = options_of(value, fmt::format("{}.{}", owner, label), "");
      T model = read(o);
      o.finish();
      keep(label, std::move(model));
    });
  }
}

/// Each entry of `block` as it is.
void read_blocks(const Value& block, const std::string& owner, Mistakes& mistakes,
                 std::map<std::string, BlockModel>& into) {
  if (!is_mapping(block))
    return mistakes.add(fmt::format("{}{}: not {{NAME: {{...}}, ...}}", at(block.where), owner));
  for (const auto& [name, entry] : block.children) {
    BlockModel model{.block = entry, .source = {}};
    if (const Value* source = find(entry, "source")) model.source = source->text;
    erase(model.block, "source");
    into[name] = std::move(model);
  }
}

}  // namespace

void DeviceTable::add(const Value& block, Mistakes& mistakes) {
  mistakes.attempt([&] {
    Options o = options_of(block, "kinds", "");
    const Value* new_devices = o.raw("devices", "{NAME: {peak, bandwidth, ...}}");
    const Value* new_links = o.raw("links", "{NAME: {bandwidth, latency}}");
    const Value* new_nodes = o.raw("nodes", "{NAME: {devices, link, nics, network, ...}}");
    const Value* new_collectives = o.raw("collectives", "{NAME: {model, ...}}");
    for (const auto& [key, value] : block.children)
      if (key.starts_with("x-")) o.raw(key, "");
    mistakes.attempt([&] { o.finish(); });
    if (new_devices != nullptr)
      read_kinds<DeviceModel>(
          *new_devices, "kinds.devices", {"peak", "bandwidth", "memory"}, read_device_kind,
          mistakes, [&](const std::string& name, DeviceModel model) {
            model.name = name;
            devices[name] = std::make_shared<const DeviceModel>(std::move(model));
          });
    if (new_links != nullptr)
      read_kinds<LinkModel>(
          *new_links, "kinds.links", {"bandwidth"}, read_link_kind, mistakes,
          [&](const std::string& name, LinkModel model) { links[name] = std::move(model); });
    if (new_nodes != nullptr) read_blocks(*new_nodes, "kinds.nodes", mistakes, nodes);
    if (new_collectives != nullptr)
      read_blocks(*new_collectives, "kinds.collectives", mistakes, collectives);
  });
}

const DeviceTable& built_in_devices() {
  static const DeviceTable table = [] {
    Mistakes mistakes;
    DeviceTable built_in;
    built_in.add(parse_yaml(devices_yaml, "devices.yaml"), mistakes);
    mistakes.sort_by_place();
    mistakes.throw_if_any();
    return built_in;
  }();
  return table;
}

std::vector<Options::Declared> device_kind_options() {
  Options o;
  read_device_kind(o);
  return o.declared();
}

std::vector<Options::Declared> link_kind_options() {
  Options o;
  read_link_kind(o);
  return o.declared();
}

}  // namespace baechi
