/// Folders of shards to one.
#pragma once
#include <span>
#include <string>

#include "scenarios/results/results.h"

namespace baechi {

/// What the folders hold together, each run once: where several have it, the first's. Throws
/// InputError, naming every folder that has no results, those of other scenarios or of another
/// version, or a run that did not end.
Results merge_results(std::span<const std::string> folders);

/// Copies the timelines (*.trace.json.gz) that stand beside results. Returns how many. Throws
/// std::runtime_error if one cannot be.
std::size_t merge_timelines(std::span<const std::string> folders, const std::string& to);

}  // namespace baechi
