/// Joins the folders of shards.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "scenarios/results/results.h"

namespace baechi {

/// The distinct runs of all folders; of duplicates the first folder's. Throws InputError, naming
/// - every folder that has no results, results of other scenarios or another version, or a run that
///   did not end;
/// - if runs are missing: the folders whose run was interrupted, and the shards that no folder has.
///   With `partial` runs may be missing, but an interrupted folder is still a mistake.
Results merge_results(std::span<const std::string> folders, bool partial = false);

/// The timelines in a folder of results: "12.m_etf.trace.json.gz" is of run 12.
std::vector<std::string> timelines_in(const std::string& folder);
/// Removes the timelines whose names are not in `names`: the ids in their names belong to other
/// runs.
void remove_other_timelines(const std::string& folder, std::span<const std::string> names);

/// Copies the timelines into `to`, and removes old timelines there unless it is one of `folders`.
/// Returns the number of copies. Throws std::runtime_error if a copy fails.
std::size_t merge_timelines(std::span<const std::string> folders, const std::string& to);

}  // namespace baechi
