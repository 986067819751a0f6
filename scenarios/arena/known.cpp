#include "scenarios/arena/known.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/read/paths.h"
#include "scenarios/results/tables.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t most_known_bytes = std::size_t{64} << 20U;

OrderedJson value_json(const std::optional<Duration>& value) {
  return value ? OrderedJson(value->count()) : OrderedJson();
}

std::optional<Duration> known_value(const OrderedJson& json) {
  if (json.is_null()) return std::nullopt;
  return Duration{json.get<std::int64_t>()};
}

/// "gnmt_20.2.v1, memory 300 MiB, link nvlink2": the scenario, and its swept values.
std::string instance_name(const Results& results, const RunResult& row) {
  std::string name = results.scenarios[row.scenario].name;
  for (std::size_t a = 0; a < results.axes.size(); ++a) {
    if (row.at[a].empty()) continue;
    const std::size_t dot = results.axes[a].rfind('.');
    const std::string key =
        dot == std::string::npos ? results.axes[a] : results.axes[a].substr(dot + 1);
    name += fmt::format(", {} {}", key, short_value(row.at[a]));
  }
  return name;
}

}  // namespace

Arena Arena::read(const std::string& path) {
  Arena arena;
  if (!std::filesystem::exists(path)) return arena;
  try {
    const OrderedJson json = OrderedJson::parse(read_small_file(path, most_known_bytes));
    for (const OrderedJson& entry : json.at("instances")) {
      ArenaInstance instance{.name = entry.at("name"),
                             .point = entry.at("point"),
                             .ops = entry.at("ops"),
                             .bound = Duration{entry.at("bound_ns").get<std::int64_t>()},
                             .best = known_value(entry.at("best_ns")),
                             .best_by = entry.at("best_by")};
      for (const auto& [placer, value] : entry.at("ns").items())
        instance.values[placer] = known_value(value);
      arena.instances_[instance.name] = std::move(instance);
    }
  } catch (const nlohmann::json::exception& e) {
    throw InputError(fmt::format("{}: not a file of best known values: {}", path, e.what()));
  }
  return arena;
}

void Arena::write(const std::string& path) const {
  std::string text = "{\"format\": \"baechi-arena\", \"version\": 1, \"instances\": [";
  bool first = true;
  for (const auto& [name, instance] : instances_) {
    OrderedJson values = OrderedJson::object();
    for (const auto& [placer, value] : instance.values) values[placer] = value_json(value);
    const OrderedJson entry{{"name", name},
                            {"point", instance.point},
                            {"ops", instance.ops},
                            {"bound_ns", instance.bound.count()},
                            {"best_ns", value_json(instance.best)},
                            {"best_by", instance.best_by},
                            {"ns", std::move(values)}};
    text += fmt::format("{}\n{}", first ? "" : ",", entry.dump());
    first = false;
  }
  write_aside(path, text + "\n]}\n");
}

std::vector<std::string> Arena::take(const Results& results) {
  std::set<std::string> improved;
  for (const RunResult& row : results.rows) {
    const std::string name = instance_name(results, row);
    const std::string point = point_text(row.point);
    const auto [it, is_new] = instances_.try_emplace(name);
    ArenaInstance& instance = it->second;
    if (is_new)
      instance = {.name = name, .point = point, .bound = row.lower_bound.value_or(Duration{})};
    instance.ops = results.graphs[row.graph].ops;
    if (instance.point != point)
      throw InputError(
          fmt::format("'{}' has another graph, cluster or engine than its best known value: it "
                      "needs a new version",
                      name));
    instance.values[row.placer] = row.value;
    if (!row.value || (instance.best && *row.value >= *instance.best)) continue;
    instance.best = row.value;
    instance.best_by = row.placer;
    improved.insert(name);
  }
  return {improved.begin(), improved.end()};
}

void Arena::keep_run(const Results& results, std::size_t placers) {
  std::map<std::string, std::size_t> rows;
  for (const RunResult& row : results.rows) ++rows[instance_name(results, row)];
  std::erase_if(instances_, [&](const auto& named) {
    const auto it = rows.find(named.first);
    return it == rows.end() || it->second < placers;
  });
}

ArenaScore Arena::score(const std::string& placer) const {
  ArenaScore score{.placer = placer};
  double logs = 0.0;
  for (const auto& [name, instance] : instances_) {
    if (!instance.best) continue;
    double ratio = failure_ratio;
    const auto it = instance.values.find(placer);
    const bool solved = it != instance.values.end() && it->second;
    ++(solved ? score.solved : score.failures);
    if (solved)
      ratio = static_cast<double>(it->second->count()) /
              static_cast<double>(std::max<std::int64_t>(1, instance.best->count()));
    logs += std::log(std::clamp(ratio, 1.0, failure_ratio));
  }
  if (score.solved > 0)
    score.score = std::exp(logs / static_cast<double>(score.solved + score.failures));
  return score;
}

std::vector<ArenaScore> Arena::ranking() const {
  std::set<std::string> placers;
  for (const auto& [name, instance] : instances_)
    for (const auto& [placer, value] : instance.values) placers.insert(placer);
  std::vector<ArenaScore> scores;
  for (const std::string& placer : placers) scores.push_back(score(placer));
  std::ranges::stable_sort(scores, {}, [](const ArenaScore& s) {
    return Rank(s.solved, s.failures, s.score.value_or(0.0));
  });
  return scores;
}

Contest Arena::contest() const {
  Contest contest;
  for (const ArenaScore& score : ranking()) contest.placers.push_back(score.placer);
  std::string graph;
  std::uint32_t unit = 0;
  for (const auto& [name, instance] : instances_) {
    if (name.substr(0, name.find(',')) != graph) ++unit;
    graph = name.substr(0, name.find(','));
    ContestPoint& point =
        contest.points.emplace_back(ContestPoint{.unit = unit, .bound = instance.bound});
    for (std::uint32_t p = 0; p < contest.placers.size(); ++p)
      if (const auto it = instance.values.find(contest.placers[p]); it != instance.values.end())
        point.entries.push_back({.placer = p,
                                 .status = it->second ? Status::ok : Status::infeasible,
                                 .step_time = it->second});
  }
  return contest;
}

ArenaOutcome outcome_of(const Results& results, const std::string& placer) {
  ArenaOutcome outcome;
  for (const RunResult& row : results.rows) {
    if (row.placer != placer) continue;
    ++outcome.instances;
    outcome.placing += row.placing;
    outcome.fell_back += row.value && row.fell_back() ? 1U : 0U;
    if (row.value) {
      ++outcome.solved;
      continue;
    }
    ArenaOutcome::Failure& failure = outcome.failures[row.status];
    if (failure.count++ == 0)
      failure.first = fmt::format("{}: {}", instance_name(results, row), row.detail);
  }
  return outcome;
}

}  // namespace baechi
