#include "scenarios/results/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "sim/error.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

/// Throws InputError unless `folder` has whole results.
Results read_part(const std::string& folder) {
  if (fs::exists(folder + "/runs.journal"))
    throw InputError(
        fmt::format("{}: its run did not end; run it again with --resume, then merge", folder));
  return read_results(folder);
}

}  // namespace

Results merge_results(std::span<const std::string> folders) {
  Mistakes mistakes;
  Results all;
  const std::string* first = nullptr;
  for (const std::string& folder : folders) {
    try {
      Results part = read_part(folder);
      if (first == nullptr) {
        all = std::move(part);
        first = &folder;
      } else if (part.hash == all.hash) {
        std::ranges::move(part.rows, std::back_inserter(all.rows));
      } else {
        mistakes.add(fmt::format("{}: results of another scenario or version than those in {}",
                                 folder, *first));
      }
    } catch (const InputError& e) {
      mistakes.add(e.what());
    }
  }
  mistakes.throw_if_any();
  std::ranges::stable_sort(all.rows, {}, &RunResult::id);
  const auto twice = std::ranges::unique(all.rows, {}, &RunResult::id);
  all.rows.erase(twice.begin(), twice.end());
  return all;
}

std::size_t merge_timelines(std::span<const std::string> folders, const std::string& to) {
  std::size_t copied = 0;
  fs::create_directories(to);
  for (const std::string& folder : folders) {
    if (fs::equivalent(folder, to)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (!entry.path().filename().string().ends_with(".trace.json.gz")) continue;
      fs::copy_file(entry.path(), fs::path(to) / entry.path().filename(),
                    fs::copy_options::overwrite_existing);
      ++copied;
    }
  }
  return copied;
}

}  // namespace baechi
