#include "scenarios/results/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "sim/error.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

/// Throws InputError if `folder` has no results or its run was killed.
Results read_part(const std::string& folder) {
  if (fs::exists(folder + "/runs.journal"))
    throw InputError(
        fmt::format("{}: its run did not end; run it again with --resume, then merge", folder));
  return read_results(folder);
}

}  // namespace

Results merge_results(std::span<const std::string> folders) {
  Mistakes mistakes, interrupted;
  Results all;
  const std::string* first = nullptr;
  for (const std::string& folder : folders) {
    try {
      Results part = read_part(folder);
      if (part.missing > 0)
        interrupted.add(
            fmt::format("{}: its run was interrupted, {} of its {} runs are missing; "
                        "run it again with --resume, then merge",
                        folder, part.missing, part.rows.size() + part.missing));
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
  if (all.rows.size() < all.planned) interrupted.throw_if_any();
  all.missing = 0;
  return all;
}

std::vector<std::string> timelines_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::size_t digits = name.find_first_not_of("0123456789");
    if (digits != 0 && digits != std::string::npos && name[digits] == '.' &&
        name.ends_with(".trace.json.gz"))
      names.push_back(name);
  }
  return names;
}

void remove_other_timelines(const std::string& folder, std::span<const std::string> names) {
  for (const std::string& name : timelines_in(folder))
    if (std::ranges::find(names, name) == names.end()) fs::remove(fs::path(folder) / name);
}

std::size_t merge_timelines(std::span<const std::string> folders, const std::string& to) {
  std::size_t copied = 0;
  fs::create_directories(to);
  const bool is_part = std::ranges::any_of(
      folders, [&](const std::string& folder) { return fs::equivalent(folder, to); });
  if (!is_part) remove_other_timelines(to, {});
  for (const std::string& folder : folders) {
    if (fs::equivalent(folder, to)) continue;
    for (const std::string& name : timelines_in(folder)) {
      fs::copy_file(fs::path(folder) / name, fs::path(to) / name,
                    fs::copy_options::overwrite_existing);
      ++copied;
    }
  }
  return copied;
}

}  // namespace baechi
