#include "scenarios/results/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <set>

#include "sim/error.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_named = 20;  // shards in a message

/// Throws InputError if `folder` has no results or its run was killed.
Results read_part(const std::string& folder) {
  if (fs::exists(folder + "/runs.journal"))
    throw InputError(
        fmt::format("{}: its run did not end; run it again with --resume, then merge", folder));
  return read_results(folder);
}

/// The shards missing in `given` ("2/8"), as a message; "" if the parts are not shards of one
/// count, or none is missing.
std::string missing_shards(const std::set<std::string>& given) {
  std::set<std::string> numbers;  // counts of shards
  for (const std::string& shard : given) numbers.insert(shard.substr(shard.find('/') + 1));
  if (numbers.size() != 1) return "";
  std::size_t shards = 0;
  const std::string& number = *numbers.begin();
  std::from_chars(number.data(), number.data() + number.size(), shards);
  std::vector<std::string> missing;
  for (std::size_t s = 1; s <= shards && missing.size() <= most_named; ++s) {
    const std::string shard = fmt::format("{}/{}", s, shards);
    if (!given.contains(shard)) missing.push_back(shard);
  }
  if (missing.empty()) return "";
  const std::size_t more = shards - given.size() - std::min(missing.size(), most_named);
  missing.resize(std::min(missing.size(), most_named));
  return fmt::format("; missing {} {}{}", shards - given.size() == 1 ? "is shard" : "are shards",
                     fmt::join(missing, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

Results merge_results(std::span<const std::string> folders, bool partial) {
  Mistakes mistakes, interrupted;
  std::set<std::string> shards;  // of all folders; "" for a folder that is not a shard
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
      shards.insert(part.shard);
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
  if (all.rows.size() < all.planned) {
    if (!partial)
      interrupted.add(fmt::format(
          "{} of {} runs are in none of the folders{}. Run what is missing, then merge; "
          "--partial joins what there is",
          all.planned - all.rows.size(), all.planned, missing_shards(shards)));
    interrupted.throw_if_any();
  }
  all.missing = 0;
  all.shard.clear();
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
