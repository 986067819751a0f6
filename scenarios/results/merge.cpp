#include <fmt/ranges.h>

#include <filesystem>
#include <iterator>
#include <tuple>

#include "scenarios/results/comparison.h"

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

bool of_graphs(const std::string& axis) { return axis == "graph" || axis.starts_with("graph."); }

/// The swept values, except the axes for which `except` is true.
std::map<std::string, std::string> swept(const Results& results, const RunResult& row,
                                         auto except) {
  std::map<std::string, std::string> values;
  for (std::size_t a = 0; a < results.axes.size(); ++a)
    if (!except(results.axes[a])) values[results.axes[a]] = row.at[a];
  return values;
}

/// The identity of a point in several folders: the scenario's name, the hash of the resolved point,
/// and the swept values, because options of placers are swept, too.
using PointKey = std::tuple<std::string, std::uint64_t, std::map<std::string, std::string>>;
PointKey point_key(const Results& results, const RunResult& row) {
  return {results.scenarios[row.scenario].name, row.point, swept(results, row, of_graphs)};
}

/// The graph in the statistics: its hash, or its swept values without `replicate`.
std::string unit_of(const Results& results, const RunResult& row, const std::string& replicate) {
  const GraphRecord& graph = results.graphs[row.graph];
  if (replicate.empty()) return graph.hash;
  std::string unit = results.scenarios[row.scenario].name + '\n' + graph.name;
  for (const auto& [axis, value] : swept(results, row, [&](const std::string& axis) {
         return !of_graphs(axis) || axis == replicate;
       }))
    unit += fmt::format("\n{}={}", axis, value);
  return unit;
}

void check_replicate(std::span<const Results> folders, const std::string& replicate) {
  if (replicate.empty()) return;
  std::set<std::string> known;
  for (const Results& results : folders)
    std::ranges::copy_if(results.axes, std::inserter(known, known.end()), of_graphs);
  if (known.contains(replicate)) return;
  throw InputError(fmt::format("--replicate: '{}' is not a swept key of graphs (those: {})",
                               replicate,
                               known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
}

/// The names of the placers per folder: "m_etf", or "m_etf (old)" if several folders have it.
std::vector<std::map<std::string, std::string>> placer_names(std::span<const Results> folders,
                                                             std::span<const std::string> names) {
  std::map<std::string, std::size_t> uses;
  std::vector<std::map<std::string, std::string>> of(folders.size());
  for (std::size_t f = 0; f < folders.size(); ++f) {
    for (const RunResult& row : folders[f].rows)
      if (of[f].emplace(row.placer, row.placer).second) ++uses[row.placer];
  }
  for (std::size_t f = 0; f < folders.size(); ++f) {
    for (auto& [placer, name] : of[f])
      if (uses[placer] > 1) name = fmt::format("{} ({})", placer, names[f]);
  }
  return of;
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

Contest joined_contest(std::span<const Results> folders, std::span<const std::string> names,
                       const std::string& replicate) {
  check_replicate(folders, replicate);
  struct Joined {
    std::string unit;
    Duration bound{};
    std::vector<ContestPoint::Entry> runs{};
  };
  Contest contest;
  std::vector<Joined> points;
  std::map<PointKey, std::size_t> number;  // into points
  const auto named = placer_names(folders, names);
  for (std::size_t f = 0; f < folders.size(); ++f) {
    for (const RunResult& row : folders[f].rows) {
      if (contest.measure.empty()) contest.measure = row.measure;
      if (row.measure != contest.measure) continue;
      const auto [at, is_new] = number.emplace(point_key(folders[f], row), points.size());
      if (is_new)
        points.push_back({.unit = unit_of(folders[f], row, replicate),
                          .bound = row.lower_bound.value_or(Duration{})});
      const std::string& name = named[f].at(row.placer);
      const auto it = std::ranges::find(contest.placers, name);
      const auto placer = static_cast<std::uint32_t>(it - contest.placers.begin());
      if (it == contest.placers.end()) contest.placers.push_back(name);
      points[at->second].runs.push_back({.placer = placer,
                                         .status = row.status,
                                         .step_time = row.value,
                                         .placing = row.placing,
                                         .fell_back = row.fell_back()});
    }
  }
  std::map<std::string, std::uint32_t> units;
  contest.points.resize(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto unit = units.emplace(points[i].unit, static_cast<std::uint32_t>(units.size()));
    contest.points[i].unit = unit.first->second;
    contest.points[i].bound = points[i].bound;
    contest.points[i].entries = middle_runs(std::move(points[i].runs));
  }
  return contest;
}

}  // namespace baechi
