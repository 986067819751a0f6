/// Parts of the section `cluster`, for the files that read them alone.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "scenarios/read/scenario.h"
#include "scenarios/read/section.h"

namespace baechi {

/// {count, kind, memory, speed, name}; the memory of a known kind is the table's. Throws
/// InputError.
DeviceChoice read_device_group(const Options::Value& section, const char* owner,
                               const KnownKinds& kinds);
/// {kind, bandwidth, latency}. Throws InputError.
Link read_link_section(const Options::Value& section, const char* owner, const KnownKinds& kinds);

/// The groups of nodes in `section`, which is one or a list: their devices go to cluster.devices.
/// Returns the settings of collectives of the first kind of nodes, if it has some.
std::optional<Options::Value> read_nodes(const Options::Value& section, const KnownKinds& kinds,
                                         ClusterChoice& cluster, Mistakes& mistakes);

/// NAME, {model: NAME, ...} or {kind: NAME, ...} to `cluster`. Throws InputError.
void read_collectives(const Options::Value& section, const std::string& base,
                      const KnownKinds& kinds, ClusterChoice& cluster);

using Sections = std::map<std::string, SectionModel>;

/// The section that `known` of `kinds` has under the name at key `kind` of `value`, with the other
/// keys of `value` in place of its own; `value` if it has no such key. Throws InputError on an
/// unknown name; `what`: "node kind".
Options::Value with_kind(const Options::Value& value, std::string_view what,
                         const KnownKinds& kinds, Sections DeviceTable::* known);

std::vector<std::string> keys_of(const auto& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

std::vector<SectionKeys> nodes_section_keys();

}  // namespace baechi
