/// Replays goldens of the original Baechi: runs of its Python, recorded event by event.
#pragma once
#include <filesystem>

#include "tests/golden/graph.h"

namespace baechi::golden {

/// A folder with any of results/{small,msr,small_pytorch}, whose graphs are in graphs, fuzz and
/// unit. Throws InputError on a file that is no JSON or lacks what a replay needs, or if `folder`
/// has none of these parts.
void check_folder(const std::filesystem::path& folder, Report& report);

// One document each; `file` is for messages.
/// results/small and results/msr.
void check_results(const json& results, const json& graph, const std::string& file, Report& report);
/// results/small_pytorch: runs of the PyTorch variant.
void check_pytorch(const json& results, const json& graph, const std::string& file, Report& report);
/// A line of fuzz/fuzz.jsonl.
void check_fuzz(const json& record, const std::string& file, Report& report);
/// The document at a path below the goldens' folder, or null.
using Documents = std::function<json(const std::string&)>;
/// unit/<name>.json, which may need graphs.
void check_unit(const std::string& name, const json& table, const std::string& file,
                const Documents& documents, Report& report);

}  // namespace baechi::golden
