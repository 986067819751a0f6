/// Reads scenario files.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "scenarios/read/scenario.h"
#include "sim/error.h"

namespace baechi {

/// What the file says, its sweep expanded to points: graphs vary slowest, then clusters, then
/// engines, each in the order of the sweep's axes, the last axis fastest. `sets`: "KEY=VALUE", each
/// put into the file at the dotted KEY before anything else; a swept key is swept no longer.
/// Everything that is wrong is added to `mistakes`; then there may be fewer points, or none.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets,
                           Mistakes& mistakes);

/// The same from text; `path` is for messages and as the place that paths in it are relative to.
ScenarioFile parse_scenario(std::string text, const std::string& path,
                            std::span<const std::string> sets, Mistakes& mistakes);

/// Throws InputError if anything is wrong.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets = {});

/// Each of `paths` under the same `sets`. A file that is given twice is a mistake, too: each of its
/// runs would stand in the results twice.
std::vector<ScenarioFile> load_scenarios(std::span<const std::string> paths,
                                         std::span<const std::string> sets, Mistakes& mistakes);

/// The keys a scenario has at its top, in the order of the reference.
struct TopKey {
  std::string_view key, help;
};
std::span<const TopKey> top_keys();

}  // namespace baechi
