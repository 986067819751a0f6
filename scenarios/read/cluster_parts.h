/// Readers of parts of the section `cluster`, for files that contain them alone.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "scenarios/read/scenario.h"
#include "scenarios/read/section.h"

namespace baechi {

/// Reads {count, kind, memory, speed, name}; a device type of the table has its memory by default.
/// Throws InputError.
DeviceChoice read_device_group(const Options::Value& section, const char* owner,
                               const KnownKinds& kinds);
/// Reads {kind, bandwidth, latency}. Throws InputError.
Link read_link_section(const Options::Value& section, const char* owner, const KnownKinds& kinds);

/// Reads `section`, one group of nodes or a list, and adds their devices to cluster.devices.
/// Returns the collectives' settings of the first node type, if it has any.
std::optional<Options::Value> read_nodes(const Options::Value& section, const KnownKinds& kinds,
                                         ClusterChoice& cluster, Mistakes& mistakes);

/// Reads NAME, {model: NAME, ...} or {kind: NAME, ...} into `cluster`. Throws InputError.
void read_collectives(const Options::Value& section, const std::string& base,
                      const KnownKinds& kinds, ClusterChoice& cluster);

using Sections = std::map<std::string, SectionModel>;

/// The section of `kinds` named at key `kind` of `value`, overridden by the other keys of `value`;
/// `value` if it has no such key. Throws InputError on an unknown name; `what`, such as "node
/// kind", is its description.
Options::Value with_kind(const Options::Value& value, std::string_view what,
                         const KnownKinds& kinds, Sections DeviceTable::* known);

std::vector<std::string> keys_of(const auto& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

std::vector<SectionKeys> nodes_section_keys();

}  // namespace baechi
