#include "scenarios/read/device_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>

#include "scenarios/read/sections.h"
#include "scenarios/read/tree.h"
#include "scenarios/read/yaml.h"
#include "sim/error.h"
#include "sim/find_entry.h"

namespace baechi {

extern const char* const devices_yaml;  // made by CMake of scenarios/devices.yaml

namespace {

using Value = Options::Value;

/// Calls `one` for each number format that `value` gives, {fp32: ..., fp16: ...}, with what it
/// gives; for all of them if it is one value for all. False if it is neither.
bool for_formats(const Value& value, bool one_for_all, auto one) {
  if (one_for_all) {
    for (const Precision p : all<Precision>()) one(p, value);
    return true;
  }
  for (const auto& [format, own] : value.children) {
    const auto p = parse<Precision>(format);
    if (!p) return false;
    one(*p, own);
  }
  return is_mapping(value);
}

std::string formats() {
  return fmt::format("{}", fmt::join(all_words<Precision>(), ", "));
}

void read_peak(const Value& value, DeviceModel& model, Options& o) {
  const bool formats_named = for_formats(value, value.children.empty(), [&](Precision p, auto& v) {
    if (const auto rate = parse_flop_rate(v.text))
      model.at(p).peak = *rate;
    else
      o.mistake("peak", fmt::format("'{}' is not a rate such as 15.7 TFLOP/s", v.text));
  });
  if (!formats_named)
    o.mistake("peak", fmt::format("not RATE, nor {{FORMAT: RATE, ...}} (formats: {})", formats()));
}

Efficiency read_shares(const Value& section, Options& o) {
  Efficiency efficiency;
  for (const auto& [kind, share] : section.children) {
    const auto value = parse_number<double>(share.text);
    if (!value || !(*value > 0.0) || *value > 10.0) {
      o.mistake("efficiency",
                fmt::format("{}: '{}' is not a share of the peak above 0", kind, share.text));
    } else if (kind == "default") {
      efficiency.other = *value;
    } else {
      efficiency.by_kind[kind] = *value;
    }
  }
  return efficiency;
}

/// {KIND: SHARE, default: SHARE} for all number formats, or {FORMAT: {KIND: SHARE, ...}, ...}.
void read_efficiency(const Value& section, DeviceModel& model, Options& o) {
  const bool kinds = std::ranges::all_of(
      section.children, [](const auto& entry) { return entry.second.children.empty(); });
  const bool known =
      is_mapping(section) && for_formats(section, kinds, [&](Precision p, auto& shares) {
        model.at(p).efficiency = read_shares(shares, o);
      });
  if (!known)
    o.mistake(
        "efficiency",
        fmt::format("not {{KIND OF OP: SHARE, default: SHARE}}, nor such a section for each of "
                    "the formats {}",
                    formats()));
}

/// {FORMAT: FLOP, ..., traffic: SIZE}
void read_half(const Value& section, DeviceModel& model, Options& o) {
  if (!is_mapping(section)) return o.mistake("half", "not {FORMAT: 60 MFLOP, ..., traffic: 1 MB}");
  for (const auto& [key, value] : section.children) {
    if (key == "traffic") {
      if (const auto size = parse_bytes(value.text))
        model.half_traffic = *size;
      else
        o.mistake("half", fmt::format("traffic: '{}' is not a size", value.text));
    } else if (const auto p = parse<Precision>(key); !p) {
      o.mistake("half", fmt::format("'{}' is neither traffic nor one of {}", key, formats()));
    } else if (const auto flops = parse_flop_rate(value.text + "/s")) {
      model.at(*p).half_flops = flops->flop_per_second;
    } else {
      o.mistake("half", fmt::format("{}: '{}' is not work such as 60 MFLOP", key, value.text));
    }
  }
}

template <class Numbers>
Numbers read_numbers(const Value& section, const std::string& owner,
                     std::span<const MeasuredNumber<Numbers>> fields) {
  Options o = options_of(section, owner, "");
  Numbers numbers;
  for (const auto& [key, member, unit, least, most, help] : fields) {
    const std::string name(key);
    double& value = numbers.*member;
    if (unit == NumberUnit::us)
      value = to_us(o.get(name, from_us(value).value_or(Duration{}), help));
    else if (unit == NumberUnit::bytes)
      value = static_cast<double>(o.get(name, Bytes{}, help).count);
    else
      value = o.get(name, value, help, 0.0, most);
    if ((value < least && value != 0.0) || value > most)
      o.mistake(name, fmt::format("not from {:g} to {:g}", least, most));
  }
  if (!(numbers.efficiency > 0.0)) o.mistake("efficiency", "not above 0");
  o.finish();
  return numbers;
}

/// {FORMAT: {efficiency, launch, ...}, default: {...}}
void read_products(const Value& section, DeviceModel& model, Options& o) {
  if (!is_mapping(section)) return o.mistake("products", "not {FORMAT: {efficiency, ...}}");
  for (const auto& [format, value] : section.children) {
    const auto numbers = read_numbers(value, "products." + format, product_numbers());
    const auto p = parse<Precision>(format);
    if (!p && format != "default")
      o.mistake("products",
                fmt::format("'{}' is neither default nor one of {}", format, formats()));
    for (const Precision q : all<Precision>())
      if (p ? q == *p : !find(section, to_text(q))) model.at(q).products = numbers;
  }
}

/// {SIZE OF A HEAD: {efficiency, launch, ...}}
void read_attention(const Value& section, DeviceModel& model, Options& o) {
  if (!is_mapping(section)) return o.mistake("attention", "not {HEAD: {efficiency, ...}}");
  for (const auto& [head, value] : section.children) {
    const auto size = parse_number<std::int64_t>(head);
    if (!size || *size < 1)
      o.mistake("attention", fmt::format("'{}' is not the size of a head", head));
    else
      model.attention[*size] = read_numbers(value, "attention." + head, attention_numbers());
  }
}

DeviceModel read_device_kind(Options& o) {
  using namespace std::chrono_literals;
  DeviceModel model;
  o.get("base", "", "another kind, above or built in, that has what this one leaves out");
  if (const Value* peak = o.raw("peak",
                                "arithmetic of the units that the kernels use; or by number "
                                "format, {fp32: 15.7 TFLOP/s, fp16: 125 TFLOP/s}"))
    read_peak(*peak, model, o);
  model.bandwidth = o.get("bandwidth", Bandwidth{}, "of the device's memory");
  model.memory = o.get("memory", Bytes{}, "where `cluster.devices.memory` says nothing");
  model.launch = o.get("launch", Duration{5us}, "time of each kernel beside its work");
  model.no_kernel = o.get("no_kernel", Duration{1us}, "time of an op without a kernel");
  model.bandwidth_efficiency =
      o.get("bandwidth_efficiency", 0.75, "share of the bandwidth reached");
  model.unaligned = o.get("unaligned", 1.0,
                          "of its efficiency, what a product in 16 bits reaches whose rows have an "
                          "odd number of numbers; the root of it if they are no multiple of 16 "
                          "bytes",
                          0.01, 1.0);
  if (const Value* passes = o.raw("passes", "other shares of the bandwidth, by kind of op"))
    model.passes = read_shares(*passes, o).by_kind;
  if (const Value* efficiency = o.raw("efficiency",
                                      "efficiency (achieved / peak rate) by kind of op; or a "
                                      "section of these by number format"))
    read_efficiency(*efficiency, model, o);
  if (const Value* half = o.raw("half",
                                "work of a kernel that reaches half of its share, by number "
                                "format: {fp32: 60 MFLOP, traffic: 1 MB}"))
    read_half(*half, model, o);
  model.compute_capability = o.get("compute_capability", 0.0,
                                   "CUDA's compute capability, such as 9.0; 0: none", 0.0, 99.0);
  model.framework =
      o.get("framework", "", "the framework whose kernels were measured: plan's default");
  model.processors =
      o.get("processors", std::int64_t{0}, "SMs or CUs, for products and attention", 0, 1'000'000);
  if (const Value* products = o.raw("products",
                                    "times of matrix products by tiles and waves, by number "
                                    "format or {default: {...}}; instead of the roofline"))
    read_products(*products, model, o);
  if (const Value* attention = o.raw("attention",
                                     "times of fused attention in 16 bits by size of head, {128: "
                                     "{...}}; instead of the roofline"))
    read_attention(*attention, model, o);
  const double clock =
      o.get("clock", 1.0,
            "share of the clock that products keep at the limit of power: of the one that "
            "`sustained` says, where a base has a higher limit",
            0.1, 1.0);
  for (Arithmetic& a : model.arithmetic) a.products.sustained *= clock;
  const bool measured =
      !model.attention.empty() || std::ranges::any_of(model.arithmetic, [](const Arithmetic& a) {
        return a.products.efficiency > 0.0;
      });
  if (measured && model.processors == 0)
    o.mistake("processors", "missing, with products or attention");
  model.host_op = o.get("host_op", Duration{},
                        "host time of the framework for an op; for the "
                        "transform `host`, not in the op's time");
  model.host_step = o.get("host_step", Duration{}, "host time of a step besides");
  const std::pair<const char*, Duration> small[] = {
      {"launch", model.launch}, {"no_kernel", model.no_kernel}, {"host_op", model.host_op}};
  for (const auto& [key, time] : small)
    if (time > 60s) o.mistake(key, "at most 60 s");
  model.source = o.get("source", "", "where the figures are from");
  model.fitted =
      o.get("fitted", "", "what the numbers were fitted to, and the error on other rows");
  return model;
}

LinkModel read_link_kind(Options& o) {
  LinkModel model;
  model.link.bandwidth = o.get("bandwidth", Bandwidth{}, "of one direction");
  model.link.latency = o.get("latency", Duration{}, "what each transfer takes besides");
  model.source = o.get("source", "", "where the figures are from");
  model.fitted =
      o.get("fitted", "", "what the numbers were fitted to, and the error on other rows");
  return model;
}

/// Each entry of `section` as `read` takes it; `needed` keys must be there.
template <class T>
void read_kinds(const Value& section, const std::string& owner,
                std::initializer_list<std::string_view> needed, T (*read)(Options&),
                Mistakes& mistakes, auto keep) {
  if (!is_mapping(section))
    return mistakes.add(fmt::format("{}{}: not {{NAME: {{...}}, ...}}", at(section.where), owner));
  for (const auto& [name, entry] : section.children) {
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

/// The section of a device with what it leaves out as its base has it. Without words of its own on
/// what it was fitted to, it says what it has of the base.
Value with_base(const std::string& name, Value device,
                const std::map<std::string, Value>& earlier) {
  const Value* base_name = find(device, "base");
  if (base_name == nullptr) return device;
  const auto base = earlier.find(base_name->text);
  if (base == earlier.end())
    throw InputError(fmt::format("{}kinds.devices.{}.base: '{}' is not one of {}",
                                 at(base_name->where), name, base_name->text,
                                 fmt::join(std::views::keys(earlier), ", ")));
  std::vector<std::string> own;
  for (const auto& [key, value] : device.children)
    if (key != "base" && key != "source" && key != "fitted") own.push_back(key);
  if (find(device, "fitted") == nullptr)
    device.children.emplace_back(
        "fitted",
        Value{.text = fmt::format("as {}, but for: {}", base->first, fmt::join(own, ", ")),
              .where = device.where});
  for (const auto& [key, value] : base->second.children)
    if (find(device, key) == nullptr) device.children.emplace_back(key, value);
  return device;
}

/// The devices of a section, each with what its base has; `sections` gets them, too.
Value with_bases(const Value& devices, std::map<std::string, Value>& sections, Mistakes& mistakes) {
  if (!is_mapping(devices)) return devices;
  Value whole{.text = devices.text, .where = devices.where};
  for (const auto& [name, device] : devices.children)
    mistakes.attempt([&, &label = name, &entry = device] {
      sections[label] = with_base(label, entry, sections);
      whole.children.emplace_back(label, sections[label]);
    });
  return whole;
}

/// Each entry of `section` as it is.
void read_sections(const Value& section, const std::string& owner, Mistakes& mistakes,
                   std::map<std::string, SectionModel>& into) {
  if (!is_mapping(section))
    return mistakes.add(fmt::format("{}{}: not {{NAME: {{...}}, ...}}", at(section.where), owner));
  for (const auto& [name, entry] : section.children) {
    SectionModel model{.section = entry, .source = {}, .fitted = {}};
    for (const auto& [key, text] :
         {std::pair("source", &model.source), {"fitted", &model.fitted}}) {
      if (const Value* own = find(entry, key)) *text = own->text;
      erase(model.section, key);
    }
    constexpr std::string_view says = "fitted to ";
    if (model.fitted.empty() && model.source.starts_with(says))
      model.fitted = model.source.substr(says.size());
    into[name] = std::move(model);
  }
}

}  // namespace

void DeviceTable::add(const Value& section, Mistakes& mistakes) {
  mistakes.attempt([&] {
    Options o = options_of(section, "kinds", "");
    const Value* new_devices = o.raw("devices", "{NAME: {peak, bandwidth, ...}}");
    const Value* new_links = o.raw("links", "{NAME: {bandwidth, latency}}");
    const Value* new_nodes = o.raw("nodes", "{NAME: {devices, link, nics, network, ...}}");
    const Value* new_collectives = o.raw("collectives", "{NAME: {model, ...}}");
    for (const auto& [key, value] : section.children)
      if (key.starts_with("x-")) o.raw(key, "");
    mistakes.attempt([&] { o.finish(); });
    if (new_devices != nullptr)
      read_kinds<DeviceModel>(with_bases(*new_devices, device_sections, mistakes), "kinds.devices",
                              {"peak", "bandwidth", "memory"}, read_device_kind, mistakes,
                              [&](const std::string& name, DeviceModel model) {
                                model.name = name;
                                devices[name] =
                                    std::make_shared<const DeviceModel>(std::move(model));
                              });
    if (new_links != nullptr)
      read_kinds<LinkModel>(
          *new_links, "kinds.links", {"bandwidth"}, read_link_kind, mistakes,
          [&](const std::string& name, LinkModel model) { links[name] = std::move(model); });
    if (new_nodes != nullptr) read_sections(*new_nodes, "kinds.nodes", mistakes, nodes);
    if (new_collectives != nullptr)
      read_sections(*new_collectives, "kinds.collectives", mistakes, collectives);
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

std::shared_ptr<const DeviceModel> device_of(const Value& section, const std::string& owner) {
  const DeviceTable& table = built_in_devices();
  const Value* base = find(section, "base");
  const std::string name = base != nullptr ? base->text : section.text;
  const auto found = table.devices.find(name);
  if (found == table.devices.end()) {
    std::vector<std::string> names;
    for (const auto& [known, unused] : table.devices) names.push_back(known);
    throw InputError(fmt::format("{}: {}", owner, not_one_of(name, names)));
  }
  if (section.children.empty()) return found->second;
  Options o = options_of(with_base(name, section, table.device_sections), owner, "");
  DeviceModel model = read_device_kind(o);
  o.finish();
  model.name = name;
  return std::make_shared<const DeviceModel>(std::move(model));
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
