/// The kinds of devices and links that scenarios name.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/device_model.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi {

struct LinkModel {
  Link link{};
  std::string source, fitted;
};

/// A section that `kind: NAME` stands for: a node of `cluster.nodes`, or `cluster.collectives`.
struct SectionModel {
  Options::Value section;  ///< without `source` and `fitted`
  std::string source, fitted;
};

struct DeviceTable {
  std::map<std::string, std::shared_ptr<const DeviceModel>> devices;
  std::map<std::string, LinkModel> links;
  std::map<std::string, SectionModel> nodes, collectives;
  /// The devices as they were written, with what each has of its `base`.
  std::map<std::string, Options::Value> device_sections{};

  /// Adds the kinds in `section`, {devices: {NAME: {...}}, links: {NAME: {...}}, nodes,
  /// collectives}; they replace kinds of the same name.
  void add(const Options::Value& section, Mistakes& mistakes);
};

/// The kinds in scenarios/devices.yaml, which are read at the first call: that takes 120 million
/// instructions.
const DeviceTable& built_in_devices();

/// The built-in kind that `section` names, or one with the numbers that it gives, {base: KIND, ...},
/// which is called as its base. Throws InputError, which begins with `owner`.
std::shared_ptr<const DeviceModel> device_of(const Options::Value& section,
                                             const std::string& owner);

/// The kinds that a section may name: a table that outlives this, or those built in, which are not
/// read before one is asked for. Many scenarios name none.
class KnownKinds {
 public:
  KnownKinds() = default;  ///< built in
  KnownKinds(const DeviceTable& table) : table_(&table) {}
  const DeviceTable& table() const { return table_ != nullptr ? *table_ : built_in_devices(); }
  const DeviceTable* operator->() const { return &table(); }

 private:
  const DeviceTable* table_ = nullptr;
};

/// Generated graphs have the times of this kind: Baechi's GPU.
inline constexpr const char* default_device = "rtx_2080";

/// The options of a kind, for the reference and the schema.
std::vector<Options::Declared> device_kind_options();
std::vector<Options::Declared> link_kind_options();

}  // namespace baechi
