/// Joins the folders of shards.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "scenarios/results/results.h"

namespace baechi {

/// The runs of all folders, each once: if several folders have a run, the first folder's. Throws
/// InputError, naming
/// - every folder that has no results, or results of other scenarios or of another version, or a
/// run
///   that did not end;
/// - if the folders together lack runs: the folders whose run was interrupted, and the shards that
///   no folder has. With `partial` runs may lack; an interrupted folder is a mistake all the same.
Results merge_results(std::span<const std::string> folders, bool partial = false);

/// The timelines in a folder of results: "12.m_etf.trace.json.gz" is of run 12.
std::vector<std::string> timelines_in(const std::string& folder);
/// Removes the timelines whose names are not in `names`: they are of other runs, whose ids now have
/// another meaning.
void remove_other_timelines(const std::string& folder, std::span<const std::string> names);

/// Copies the timelines beside the results, and removes old timelines in `to`, unless it is one of
/// `folders`. Returns the number of copies. Throws std::runtime_error if a copy fails.
std::size_t merge_timelines(std::span<const std::string> folders, const std::string& to);

}  // namespace baechi
