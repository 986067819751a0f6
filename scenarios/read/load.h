/// Reads scenario files.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "scenarios/read/scenario.h"
#include "sim/error.h"

namespace baechi {

/// Reads the file and expands its sweep to points. `sets`: "KEY=VALUE", each applied to the file at
/// the dotted KEY before anything else; a key that is set is no longer swept. All mistakes are
/// added to `mistakes`; if there are any, points may be missing.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets,
                           Mistakes& mistakes);

/// Reads a scenario from text. Messages name `path`; paths in the text are relative to its folder.
ScenarioFile parse_scenario(std::string text, const std::string& path,
                            std::span<const std::string> sets, Mistakes& mistakes);

/// Throws InputError with all mistakes.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets = {});

/// Loads each of `paths` with the same `sets`. A repeated file is a mistake: its runs would be in
/// the results twice.
std::vector<ScenarioFile> load_scenarios(std::span<const std::string> paths,
                                         std::span<const std::string> sets, Mistakes& mistakes);

/// The top-level keys of a scenario, in the order of the reference.
struct TopKey {
  std::string_view key, help;
};
std::span<const TopKey> top_keys();

}  // namespace baechi
