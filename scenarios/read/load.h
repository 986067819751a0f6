/// Reads scenario files.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "scenarios/read/scenario.h"
#include "sim/error.h"

namespace baechi {

/// Reads the file and expands its sweep to points. `sets`: "KEY=VALUE", each put into the file at
/// the dotted KEY before anything else; a key that is set is no longer swept. All mistakes are
/// added to `mistakes`; if there are any, there may be fewer points, or none.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets,
                           Mistakes& mistakes);

/// The same from text. `path` stands in messages, and paths in the text are relative to its folder.
ScenarioFile parse_scenario(std::string text, const std::string& path,
                            std::span<const std::string> sets, Mistakes& mistakes);

/// Throws InputError if anything is wrong.
ScenarioFile load_scenario(const std::string& path, std::span<const std::string> sets = {});

/// Loads each of `paths` with the same `sets`. A file that is given twice is a mistake: its runs
/// would be in the results twice.
std::vector<ScenarioFile> load_scenarios(std::span<const std::string> paths,
                                         std::span<const std::string> sets, Mistakes& mistakes);

/// The keys a scenario has at its top, in the order of the reference.
struct TopKey {
  std::string_view key, help;
};
std::span<const TopKey> top_keys();

}  // namespace baechi
