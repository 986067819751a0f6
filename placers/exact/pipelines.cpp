#include "placers/exact/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "placers/exact/lines.h"

namespace baechi::exact {

Pipeline in_ops(const BlockPipeline& pipeline, const Blocks& blocks, const OpGraph& graph) {
  Pipeline result{.load = pipeline.load, .stages = pipeline.stages};
  for (const OpId v : graph.ops()) result.device.push_back(pipeline.device[blocks.of(v)]);
  return result;
}

std::optional<Pipeline> best_linear_pipeline(const Problem& problem, const ColocationUnits& units,
                                             const std::vector<DeviceClass>& classes,
                                             Duration bound, const Replication& replication) {
  std::optional<Pipeline> best;
  std::size_t tried = 0;  // blocks of the first round; as many again are the same
  for (const auto leaves : {BlockRules::Leaves::all, BlockRules::Leaves::safe}) {
    const Blocks blocks(problem, units, classes,
                        {.leaves = leaves, .weights_cost = replication.allowed});
    if (leaves == BlockRules::Leaves::safe && blocks.size() == tried) break;
    tried = blocks.size();
    for (const bool reversed : {false, true}) {
      for (const auto& order : {depth_first(blocks, reversed), depth_last(blocks, reversed)}) {
        const auto found = best_pipeline(blocks, classes, Ideals::chain(order),
                                         best ? best->load : bound, replication);
        if (found) best = in_ops(*found, blocks, problem.graph);
      }
    }
  }
  return best;
}

IdealSearch search_ideals(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, Duration bound, std::size_t most,
                          const Replication& replication) {
  using enum BlockRules::Leaves;
  // With replicas, leaves with weights stay apart; if these are too many, they are joined.
  std::vector<BlockRules> tries{{.leaves = safe, .weights_cost = replication.allowed},
                                {.leaves = all, .weights_cost = replication.allowed}};
  if (replication.allowed) tries.push_back({.leaves = all});
  for (const BlockRules& rules : tries) {
    const Blocks blocks(problem, units, classes, rules);
    // Leaves on one side are independent: each doubles the ideals.
    if (std::max(blocks.sources_left(), blocks.sinks_left()) >=
        static_cast<std::size_t>(std::bit_width(most)))
      continue;
    const auto ideals = Ideals::enumerate(blocks.order(), most);
    if (!ideals && (replication.allowed || blocks.sources_left() + blocks.sinks_left() > 0))
      continue;
    if (!ideals) return {};
    IdealSearch search{.ideals = ideals->size(), .leaves_joined = &rules != &tries.front()};
    if (const auto found = best_pipeline(blocks, classes, *ideals, bound, replication))
      search.pipeline = in_ops(*found, blocks, problem.graph);
    return search;
  }
  return {};
}

namespace {

/// The time of each block where it is quickest. [num_blocks]
IdVector<BlockId, Duration> quickest(const Blocks& blocks, std::size_t classes) {
  IdVector<BlockId, Duration> quickest(blocks.size(), cannot_run);
  for (const BlockId b : blocks.blocks())
    for (std::size_t s = 0; s < classes; ++s)
      quickest[b] = std::min(quickest[b], blocks.time(b, s).value_or(cannot_run));
  return quickest;
}

/// All work, shared out at will: a device does at most as many seconds of quickest time in one as
/// its best ratio among the blocks.
Duration share(const Blocks& blocks, const std::vector<DeviceClass>& classes,
               const IdVector<BlockId, Duration>& quickest) {
  double rates = 0.0, work = 0.0;
  for (const Duration time : quickest) work += static_cast<double>(time.count());
  for (std::size_t s = 0; s < classes.size(); ++s) {
    double rate = 0.0;
    for (const BlockId b : blocks.blocks()) {
      const auto time = blocks.time(b, s);
      if (time && quickest[b] > Duration{})
        rate = std::max(
            rate, static_cast<double>(quickest[b].count()) / static_cast<double>(time->count()));
    }
    rates += rate * static_cast<double>(classes[s].devices.size());
  }
  if (rates <= 0.0) return Duration{};
  // Reduced by more than the sums' error: a bound must never exceed the truth.
  return Duration{static_cast<std::int64_t>(std::ceil(work / rates * (1.0 - 1e-9)))};
}

/// Whether for each n the devices have places for the n longest of `longest`, if none works for
/// longer than `most`: each takes the shortest of them.
bool has_places(const Blocks& blocks, const std::vector<DeviceClass>& classes,
                std::span<const BlockId> longest, Duration most) {
  std::vector<std::vector<Duration>> times(classes.size());  // ascending
  for (std::size_t n = 1; n <= longest.size(); ++n) {
    std::size_t places = 0;
    for (std::size_t s = 0; s < classes.size(); ++s) {
      if (const auto time = blocks.time(longest[n - 1], s))
        times[s].insert(std::ranges::upper_bound(times[s], *time), *time);
      std::size_t count = 0;
      for (Duration sum{}; count < times[s].size(); ++count) {
        sum += times[s][count];
        if (sum > most) break;
      }
      places += count * classes[s].devices.size();
    }
    if (places < n) return false;
  }
  return true;
}

}  // namespace

Duration work_bound(const Blocks& blocks, const std::vector<DeviceClass>& classes) {
  return share(blocks, classes, quickest(blocks, classes.size()));
}

Duration load_bound(const Blocks& blocks, const std::vector<DeviceClass>& classes) {
  constexpr std::size_t most_counted = 500;  // takes the square of them
  const IdVector<BlockId, Duration> times = quickest(blocks, classes.size());
  Duration low = share(blocks, classes, times);
  std::vector<BlockId> longest;
  Duration high{};  // the load if one device did all
  for (const BlockId b : blocks.blocks()) {
    longest.push_back(b);
    high += times[b];
  }
  std::ranges::stable_sort(longest, std::greater{}, [&](BlockId b) { return times[b]; });
  longest.resize(std::min(longest.size(), most_counted));
  if (has_places(blocks, classes, longest, low)) return low;
  while (low + Duration{1} < high) {  // places at `high`, none at `low`
    const Duration middle = low + (high - low) / 2;
    (has_places(blocks, classes, longest, middle) ? high : low) = middle;
  }
  return high;
}

std::string why_none_fits(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, std::string_view what) {
  Bytes most{};
  for (const DeviceClass& cls : classes) most = std::max(most, cls.memory);
  for (const UnitId u : units.units()) {
    if (units.needs(u).persistent > most)
      return fmt::format("{} has weights of {}, the largest device has {}",
                         units.label(u, problem.graph), to_text(units.needs(u).persistent),
                         to_text(most));
  }
  return fmt::format("the weights fit in no {}", what);
}

}  // namespace baechi::exact
