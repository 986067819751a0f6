#include "placers/exact/pipelines.h"

#include "placers/exact/lines.h"

namespace baechi::exact {

Pipeline in_ops(const BundlePipeline& pipeline, const Bundles& bundles, const OpGraph& graph) {
  Pipeline result{.load = pipeline.load, .stages = pipeline.stages};
  for (const OpId v : graph.ops()) result.device.push_back(pipeline.device[bundles.of(v)]);
  return result;
}

std::optional<Pipeline> best_linear_pipeline(const Problem& problem, const ColocationUnits& units,
                                             const std::vector<DeviceClass>& classes,
                                             Duration bound, const Replication& replication) {
  std::optional<Pipeline> best;
  std::size_t tried = 0;  // bundles of the first attempt; a second one with as many is the same
  for (const auto leaves : {BundleRules::Leaves::all, BundleRules::Leaves::safe}) {
    const Bundles bundles(problem, units, classes,
                          {.leaves = leaves, .weights_cost = replication.allowed});
    if (leaves == BundleRules::Leaves::safe && bundles.size() == tried) break;
    tried = bundles.size();
    for (const bool reversed : {false, true}) {
      for (const auto& order : {depth_first(bundles, reversed), depth_last(bundles, reversed)}) {
        const auto found = best_pipeline(bundles, classes, Ideals::chain(order),
                                         best ? best->load : bound, replication);
        if (found) best = in_ops(*found, bundles, problem.graph);
      }
    }
  }
  return best;
}

IdealSearch search_ideals(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, Duration bound, std::size_t most,
                          const Replication& replication) {
  using enum BundleRules::Leaves;
  // With replicas, leaves with weights stay apart unless there are too many.
  std::vector<BundleRules> tries{{.leaves = safe, .weights_cost = replication.allowed},
                                 {.leaves = all, .weights_cost = replication.allowed}};
  if (replication.allowed) tries.push_back({.leaves = all});
  for (const BundleRules& rules : tries) {
    const Bundles bundles(problem, units, classes, rules);
    // Leaves on one side are independent: each doubles the ideals.
    if (std::max(bundles.sources_left(), bundles.sinks_left()) >=
        static_cast<std::size_t>(std::bit_width(most)))
      continue;
    const auto ideals = Ideals::enumerate(bundles.order(), most);
    if (!ideals && (replication.allowed || bundles.sources_left() + bundles.sinks_left() > 0))
      continue;
    if (!ideals) return {};
    IdealSearch search{.ideals = ideals->size(), .leaves_joined = &rules != &tries.front()};
    if (const auto found = best_pipeline(bundles, classes, *ideals, bound, replication))
      search.pipeline = in_ops(*found, bundles, problem.graph);
    return search;
  }
  return {};
}

namespace {

/// The time of each bundle where it is quickest. [num_bundles]
IdVector<BundleId, Duration> quickest(const Bundles& bundles, std::size_t classes) {
  IdVector<BundleId, Duration> quickest(bundles.size(), cannot_run);
  for (const BundleId b : bundles.bundles())
    for (std::size_t s = 0; s < classes; ++s)
      quickest[b] = std::min(quickest[b], bundles.time(b, s).value_or(cannot_run));
  return quickest;
}

/// All work, divided at will: in one second a device does at most as many seconds of quickest time
/// as its best ratio among the bundles.
Duration divided_work(const Bundles& bundles, const std::vector<DeviceClass>& classes,
                      const IdVector<BundleId, Duration>& quickest) {
  double rates = 0.0, work = 0.0;
  for (const Duration time : quickest) work += static_cast<double>(time.count());
  for (std::size_t s = 0; s < classes.size(); ++s) {
    double rate = 0.0;
    for (const BundleId b : bundles.bundles()) {
      const auto time = bundles.time(b, s);
      if (time && quickest[b] > Duration{})
        rate = std::max(
            rate, static_cast<double>(quickest[b].count()) / static_cast<double>(time->count()));
    }
    rates += rate * static_cast<double>(classes[s].devices.size());
  }
  if (rates <= 0.0) return Duration{};
  // Reduced by more than the rounding error of the sum: a bound must never be too large.
  return Duration{static_cast<std::int64_t>(std::ceil(work / rates * (1.0 - 1e-9)))};
}

/// Whether no device need work for longer than `most`: for each n, the devices have places for the
/// n longest of `longest`, if each of these took only as long as the shortest of them.
bool has_places(const Bundles& bundles, const std::vector<DeviceClass>& classes,
                std::span<const BundleId> longest, Duration most) {
  std::vector<std::vector<Duration>> times(classes.size());  // ascending
  for (std::size_t n = 1; n <= longest.size(); ++n) {
    std::size_t places = 0;
    for (std::size_t s = 0; s < classes.size(); ++s) {
      if (const auto time = bundles.time(longest[n - 1], s))
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

Duration work_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes) {
  return divided_work(bundles, classes, quickest(bundles, classes.size()));
}

Duration load_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes) {
  constexpr std::size_t most_counted = 500;  // takes quadratic time
  const IdVector<BundleId, Duration> times = quickest(bundles, classes.size());
  Duration low = divided_work(bundles, classes, times);
  std::vector<BundleId> longest;
  Duration high{};  // the load if one device did all
  for (const BundleId b : bundles.bundles()) {
    longest.push_back(b);
    high += times[b];
  }
  std::ranges::stable_sort(longest, std::greater{}, [&](BundleId b) { return times[b]; });
  longest.resize(std::min(longest.size(), most_counted));
  if (has_places(bundles, classes, longest, low)) return low;
  while (low + Duration{1} < high) {  // feasible at `high`, infeasible at `low`
    const Duration middle = low + (high - low) / 2;
    (has_places(bundles, classes, longest, middle) ? high : low) = middle;
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
