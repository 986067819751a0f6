#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "scenarios/results/comparison.h"
#include "sim/error.h"
#include "sim/names.h"

namespace baechi {
namespace {

bool of_graphs(const std::string& axis) {
  return axis == "graph" || axis.starts_with("graph.");
}

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
PointKey key_of(const Results& results, const RunResult& row) {
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
      const auto [at, is_new] = number.emplace(key_of(folders[f], row), points.size());
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
