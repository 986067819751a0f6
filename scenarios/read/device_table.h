/// The types of devices, links, nodes and collectives that scenarios name.
#pragma once

#include "sim/cluster/cluster.h"
#include "sim/cluster/device_model.h"
#include "sim/options.h"

namespace baechi {

struct LinkModel {
  Link link{};
  std::string source, fitted;
};

/// The section named by `kind: NAME` of a node of `cluster.nodes`, or of `cluster.collectives`.
struct SectionModel {
  Options::Value section;  ///< without `source` and `fitted`
  std::string source, fitted;
};

using DeviceModels = std::map<std::string, std::shared_ptr<const DeviceModel>>;

struct DeviceTable {
  DeviceModels devices;
  std::map<std::string, LinkModel> links;
  std::map<std::string, SectionModel> nodes, collectives;
  /// The sections of the devices as written, merged with their bases.
  std::map<std::string, Options::Value> device_sections{};

  /// Adds the types in `section`, {devices: {NAME: {...}}, links: {NAME: {...}}, nodes,
  /// collectives}; they replace types of the same name.
  void add(const Options::Value& section, Mistakes& mistakes);
};

/// The types in scenarios/devices.yaml, which is read at the first call: that takes 120 million
/// instructions.
const DeviceTable& built_in_devices();

/// "'rtx_4900' is no device type; the nearest are rtx_4090, ... ('baechi list devices' lists all)".
std::string no_such_device(std::string_view name, const DeviceModels& kinds);

/// Begins `fitted` of a type that key `llamacpp` of its GPU has made.
inline constexpr const char* numbers_of_another = "nothing of this GPU: the numbers of ";

/// The type of `kinds` that a user means: as typed, or the only one of the same name without case,
/// separators, makers' words and the size of its memory: "2060", "NVIDIA A100-SXM4-80GB".
DeviceModels::const_iterator find_device(std::string_view name, const DeviceModels& kinds);

/// The built-in type that `section` names, or one with the numbers that it gives, {base: TYPE,
/// ...}, which has its base's name. Throws InputError, which begins with `owner`.
std::shared_ptr<const DeviceModel> device_of(const Options::Value& section,
                                             const std::string& owner);

/// The types that a section may name: a table that must outlive this, or the built-in types, which
/// are read only when one is requested. Many scenarios name none.
class KnownKinds {
 public:
  KnownKinds() = default;  ///< built in
  KnownKinds(const DeviceTable& table) : table_(&table) {}
  const DeviceTable& table() const { return table_ != nullptr ? *table_ : built_in_devices(); }
  const DeviceTable* operator->() const { return &table(); }

 private:
  const DeviceTable* table_ = nullptr;
};

/// The type that commands assume, and name, for graphs without times on devices without a type.
inline constexpr const char* default_device = "h100";

std::vector<Options::Declared> device_kind_options();
std::vector<Options::Declared> link_kind_options();

}  // namespace baechi
