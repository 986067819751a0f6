#include "placers/learned/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "placers/interface/registry.h"
#include "placers/learned/bundles.h"
#include "placers/learned/describe.h"
#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/problem/bounds.h"
#include "sim/problem/mean_costs.h"

namespace baechi::learned {
Environment::Environment(const Problem& problem, const Objective& objective, std::uint64_t seed)
    : problem_(problem), objective_(objective) {
  const ColocationUnits units(problem.graph);
  merge_units(units);
  find_able();
  if (problem.cluster.num_devices() > 1 && problem.costs.uniform_transfers())
    for (const TensorId t : problem.graph.tensors())
      transfer_.push_back(problem.graph.instant(t)
                              ? 0.0
                              : in_ns(problem.costs.transfer(t, DeviceId{0}, DeviceId{1})));
  interchangeable_ = problem.costs.uniform_transfers() && able_.size() == 1 &&
                     able_.front().size() == problem.cluster.num_devices();
  for (const DeviceId d : problem.cluster.devices())
    interchangeable_ =
        interchangeable_ && problem.costs.same_compute(DeviceId{0}, d) &&
        problem.cluster.device(d).memory == problem.cluster.device(DeviceId{0}).memory;
  const auto rank = b_levels(problem.graph, mean_compute(problem), mean_transfer(problem));
  for (const OpId v : problem.graph.ops()) order_.push_back(v);
  std::ranges::stable_sort(order_, std::greater{}, [&](OpId v) { return rank[v]; });
  priority_ = IdVector<OpId, std::int32_t>(order_.size());
  auto next = static_cast<std::int32_t>(order_.size());
  for (const OpId v : order_) priority_[v] = --next;
  find_neighbours();
  const LowerBounds bounds = lower_bounds(problem.graph, problem.cluster, problem.costs);
  lower_bound_ = std::max(in_ns(bounds.best()), 1.0);
  graph_.features = unit_features(*this);
  ask_heuristics(seed);
}

void Environment::merge_units(const ColocationUnits& units) {
  bundle_of_ = bundles_of(problem_, units, units.size() > most_units ? most_bundles : units.size());
  std::size_t count = 0;
  for (const std::uint32_t b : bundle_of_) count = std::max<std::size_t>(count, b + 1);
  graph_.units = count;
  begin_.assign(count + 1, 0);
  for (const std::uint32_t b : bundle_of_) ++begin_[b + 1];
  for (std::size_t b = 0; b < count; ++b) begin_[b + 1] += begin_[b];
  members_.resize(bundle_of_.size());
  std::vector<std::size_t> at(begin_.begin(), begin_.end() - 1);
  for (const OpId v : problem_.graph.ops()) members_[at[bundle_of_[v]]++] = v;
  needs_.resize(count);
  for (const UnitId u : units.units()) {
    UnitNeeds& sum = needs_[bundle_of_[units.members(u).front()]];
    sum.persistent += units.needs(u).persistent;
    sum.working = std::max(sum.working, units.needs(u).working);
    sum.footprint += units.needs(u).footprint;
  }
}

/// Also sums the times up.
void Environment::find_able() {
  const std::size_t devices = problem_.cluster.num_devices();
  time_.assign(num_bundles() * devices, 0.0);
  double least = 0.0;
  for (std::size_t b = 0; b < num_bundles(); ++b) {
    std::vector<DeviceId> able;
    double fastest = 0.0;
    for (const DeviceId d : problem_.cluster.devices()) {
      double sum = 0.0;
      bool runs = true;
      for (const OpId v : members(b)) {
        const Duration t = problem_.costs.compute(v, d);
        runs = runs && t != cannot_run;
        sum += in_ns(t);
      }
      time_[b * devices + index(d)] = sum;
      if (!runs) continue;
      fastest = able.empty() ? sum : std::min(fastest, sum);
      able.push_back(d);
    }
    if (able.empty())
      throw InfeasibleError(fmt::format("learned: no device can run '{}' and what goes with it",
                                        problem_.graph.name(members(b).front())));
    least += fastest;
    const auto known = std::ranges::find(able_, able);
    able_of_.push_back(static_cast<std::uint32_t>(known - able_.begin()));
    if (known == able_.end()) able_.push_back(std::move(able));
  }
  mean_load_ = std::max(least / static_cast<double>(devices), 1.0);
}

/// Bundles that write what a bundle reads, and that read what it writes, each once.
void Environment::find_neighbours() {
  const OpGraph& graph = problem_.graph;
  const auto gather = [&](Neighbours& to, const auto& add) {
    for (std::size_t b = 0; b < num_bundles(); ++b) {
      std::vector<std::uint32_t> found;
      for (const OpId v : members(b)) add(v, found);
      std::ranges::sort(found);
      const auto repeated = std::ranges::unique(found);
      found.erase(repeated.begin(), repeated.end());
      std::erase(found, static_cast<std::uint32_t>(b));
      to.of.insert(to.of.end(), found.begin(), found.end());
      to.begin.push_back(static_cast<std::uint32_t>(to.of.size()));
    }
  };
  gather(graph_.parents, [&](OpId v, std::vector<std::uint32_t>& found) {
    for (const OpId before : graph.predecessors(v)) found.push_back(bundle_of_[before]);
  });
  gather(graph_.children, [&](OpId v, std::vector<std::uint32_t>& found) {
    for (const EdgeId e : graph.out_edges(v)) found.push_back(bundle_of_[graph.edge(e).dst]);
  });
}

void Environment::ask_heuristics(std::uint64_t seed) {
  double all = 0.0;
  for (std::size_t b = 0; b < num_bundles(); ++b) all += time(b, able(b).front());
  reference_ = std::max(2.0 * all, 1.0);
  std::optional<Score> best;
  for (const std::string_view name : {"single", "m_topo", "m_etf", "m_sct", "heft"}) {
    const PlacerEntry& entry = placer_entry(name);
    if (problem_.graph.num_ops() > entry.quick_ops || refusal(entry, problem_.graph)) continue;
    try {
      const Options::Value fallback{name == "m_etf" ? "true" : "false", {}, {}};
      const auto placer = make_placer(name, Options(std::string(name), {{"fallback", fallback}}));
      const Placement found = placer->place(problem_, seed);
      const Score score = objective_.score(problem_, found);
      if (!score.feasible() || (best && *best <= score)) continue;
      best = score;
      reference_placer_ = entry.name;
      reference_ = std::max(in_ns(score.value), 1.0);
      teacher_.clear();
      for (std::size_t b = 0; b < num_bundles(); ++b)
        teacher_.push_back(found.device[members(b).front()]);
    } catch (const InfeasibleError&) {  // others may know better
    }
  }
}

std::size_t Environment::teach(std::size_t evaluations, std::uint64_t seed) {
  if (evaluations == 0) return 0;
  const auto search = make_placer(
      "search",
      Options("search", {{"evaluations", {.text = std::to_string(evaluations), .where = {}}}}));
  const Placement found = search->place(problem_, seed);
  teacher_.clear();
  for (std::size_t b = 0; b < num_bundles(); ++b)
    teacher_.push_back(found.device[members(b).front()]);
  return evaluations;
}

double Environment::transfer(TensorId t, DeviceId from, DeviceId to) const {
  if (!transfer_.empty()) return transfer_[index(t)];
  return problem_.graph.instant(t) ? 0.0 : in_ns(problem_.costs.transfer(t, from, to));
}

Placement Environment::placement(const BundleDevices& devices) const {
  Placement result{.device = IdVector<OpId, DeviceId>(order_.size()), .priority = priority_};
  for (const OpId v : problem_.graph.ops()) result.device[v] = devices[bundle_of_[v]];
  return result;
}

double Environment::value(const Score& score) const {
  if (score.feasible()) return in_ns(score.value);
  Bytes limit{1};
  for (const DeviceId d : problem_.cluster.devices())
    limit = std::max(limit, problem_.cluster.device(d).memory);
  const double excess = static_cast<double>(score.over.count) / static_cast<double>(limit.count);
  return std::max(lower_bound_ * (1.0 + 4.0 * excess), 2.0 * reference_) * (1.0 + excess);
}

}  // namespace baechi::learned
