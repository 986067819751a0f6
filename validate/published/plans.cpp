// Plans of one model on one machine: their measured order beside the simulated one.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "validate/plan/quantiles.h"
#include "validate/published/published.h"
#include "validate/statistics.h"

namespace baechi::validate {

CompareBlock compare_vtrain_multi_node, compare_llm_foundry, compare_internevo, compare_bigscience;

namespace {

/// Times for the same work of a GPU, of each plan. Rows of equal simulated time are one plan, which
/// was measured several times.
struct Race {
  std::map<double, Samples> measured{};  ///< by simulated time
  std::vector<std::string> lines{};
};

std::map<std::string, Race> races_of(const Comparison& rows) {
  std::map<std::string, Race> races;
  for (const PublishedRow& row : rows.rows) {
    if (row.race.empty() || !(row.work > 0.0) || !(row.measured > 0.0)) continue;
    Race& race = races[row.race];
    race.measured[row.simulated / row.work].push_back(row.measured / row.work);
    race.lines.insert(race.lines.end(), row.lines.begin(), row.lines.end());
  }
  return races;
}

/// A row for the plan that is simulated to be the fastest, and one for the order of plans of which
/// the slowest takes a quarter more than the fastest: the order of equal plans is noise.
void add_race(Comparison& all, std::string_view block, const std::string& name, const Race& race) {
  constexpr std::size_t least = 4;  // plans whose order says something
  if (race.measured.size() < least) return;
  Samples simulated, measured;
  for (const auto& [time, samples] : race.measured) {
    simulated.push_back(time);
    measured.push_back(median(samples));
  }
  const std::string what = fmt::format("{}: {}, {} plans", block, name, simulated.size());
  const auto [fastest, slowest] = std::ranges::minmax(measured);
  if (slowest >= 1.25 * fastest)
    all.rows.push_back({.what = what + ", order",
                        .group = "order: Spearman, where times differ by a quarter",
                        .measured = 1.0,
                        .simulated = spearman(simulated, measured),
                        .lines = race.lines});
  all.rows.push_back({.what = what + ", first",
                      .group = "regret of the plan ranked first",
                      .measured = fastest,
                      .simulated = measured.front(),
                      .lines = race.lines});
}

}  // namespace

std::optional<Comparison> compare_plans(const std::string& folder) {
  struct Source {
    std::string_view name;
    CompareBlock* compare;
  };
  constexpr std::array sources{
      Source{"vtrain", compare_vtrain_multi_node}, Source{"llm_foundry", compare_llm_foundry},
      Source{"internevo", compare_internevo}, Source{"bigscience", compare_bigscience}};
  Comparison all;
  bool any = false;
  for (const Source& source : sources) {
    const auto rows = source.compare(folder);
    if (!rows) continue;
    any = true;
    for (const auto& [name, race] : races_of(*rows)) add_race(all, source.name, name, race);
  }
  if (!any) return std::nullopt;
  return all;
}

}  // namespace baechi::validate
