#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "placers/exact/incumbent.h"
#include "placers/exact/latency_program.h"
#include "placers/exact/line_split.h"
#include "placers/exact/pipelines.h"
#include "placers/exact/proof.h"
#include "placers/interface/placer.h"
#include "sim/error.h"
#include "sim/options.h"
#include "sim/problem/mean_costs.h"

namespace baechi::exact {
namespace {

/// The placement of least latency, by integer programming: started from stretches of lines of all
/// ops, it asks for something better until there is none.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for latency.
class MipLatency final : public Placer {
 public:
  explicit MipLatency(Options& o)
      : parts_(static_cast<std::size_t>(
            o.get("parts", std::int64_t{1},
                  "of the graph that an accelerator may run, one after the other", 1))),
        search_(static_cast<std::size_t>(o.get(
            "search", std::int64_t{2'000},
            "evaluations of a search from the best start, before the integer program; 0: none"))),
        limits_(solver::mixed_limits(o)) {
    constexpr std::size_t most = 64;
    if (parts_ > most) o.mistake("parts", fmt::format("more than {}", most));
  }

  Placement place(const Problem& p, std::uint64_t seed) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceClass> classes = device_classes(p);
    Incumbent best{.bound = quickest_path(p, units, classes)};
    start(best, p, units, classes);
    if (best.value > best.bound)
      offer_whole(
          best, p,
          search_from(best, p, *make_objective("latency", Options("latency")), search_, seed));
    best.start = best.value;
    if (limits_.nodes > 0 && best.value > best.bound) improve(best, p, units, classes);
    if (!best.known()) offer_any_split(best, p, units, classes);
    if (!best.known())
      throw InfeasibleError(fmt::format("mip_latency: {}{}",
                                        why_none_fits(p, units, classes, "split"),
                                        best.finished ? "" : ", of those that were searched"));
    return std::move(best).report("latency", "placement");
  }

 private:
  /// The longest path, each op where it is quickest and its unit's weights fit.
  static Duration quickest_path(const Problem& p, const ColocationUnits& units,
                                const std::vector<DeviceClass>& classes) {
    IdVector<OpId, Duration> end(p.graph.num_ops());
    Duration last{};
    for (const OpId v : p.graph.ops()) {
      Duration quickest = cannot_run;
      for (const DeviceClass& cls : classes)
        if (units.needs(units.of(v)).persistent <= cls.memory)
          quickest = std::min(quickest, p.costs.compute(v, cls.devices.front()));
      for (const OpId u : p.graph.predecessors(v)) end[v] = std::max(end[v], end[u]);
      if (quickest != cannot_run) end[v] += quickest;
      last = std::max(last, end[v]);
    }
    return last;
  }

  /// False if it breaks a limit, or its parts wait for each other.
  static bool offer(Incumbent& best, const Problem& p, Invocations found) {
    if (!constraints(p, found.placement).feasible()) return false;
    const auto latency = latency_in_turn(p, found.placement, found.part);
    if (!latency) return false;
    if (*latency >= best.value) return true;
    best.value = *latency;
    best.placement = std::move(found.placement);
    return true;
  }
  static void offer_whole(Incumbent& best, const Problem& p, Placement placement) {
    offer(best, p, {std::move(placement), Parts(p.graph.num_ops())});
  }

  static void start(Incumbent& best, const Problem& p, const ColocationUnits& units,
                    const std::vector<DeviceClass>& classes) {
    for (const DeviceClass& cls : classes)
      offer_whole(best, p,
                  {.device = IdVector<OpId, DeviceId>(p.graph.num_ops(), cls.devices.front())});
    if (const auto pipeline = best_linear_pipeline(p, units, classes, Duration::max()))
      offer_whole(best, p, {.device = pipeline->device});
    const Bundles bundles = latency_bundles(p, units, classes);
    const auto latency = make_objective("latency", Options("latency"))->on(p);
    for (const auto& line :
         {depth_first_as_added(p.graph, bundles), depth_first(bundles, false),
          depth_first(bundles, true), depth_last(bundles, false), depth_last(bundles, true)}) {
      LineSplit split = fill(p, bundles, classes, line);
      exact::improve(split, p, bundles, *latency);
      if (auto placement = in_ops(split, p, bundles)) offer_whole(best, p, std::move(*placement));
    }
  }

  /// A split into contiguous parts, whose weights are counted exactly: the solver's sums are not.
  static void offer_any_split(Incumbent& best, const Problem& p, const ColocationUnits& units,
                              const std::vector<DeviceClass>& classes) {
    constexpr std::size_t most_ideals = 20'000;
    if (const auto found = search_ideals(p, units, classes, Incumbent::unknown, most_ideals);
        found.pipeline)
      offer_whole(best, p, {.device = found.pipeline->device});
  }

  void improve(Incumbent& best, const Problem& p, const ColocationUnits& units,
               const std::vector<DeviceClass>& classes) const {
    const Bundles bundles(p, units, classes,
                          {.order = BundleRules::Order::data, .join_cycles = false});
    // Less than a millionth is beyond the solver's tolerance.
    const Duration below = best.known() ? best.value : more_than_all(p);
    const Duration step = std::max(Duration{1}, below / 1'000'000);
    // Parts of no time may wait for each other; then again, none without time.
    for (const bool strict : {false, true}) {
      LatencyProgram program = latency_program(p, bundles, classes, parts_, below, step, strict);
      const auto take = [&](const std::vector<double>& x) {
        return offer(best, p, program.invocations(x));
      };
      if (prove(best, program, {bundles, classes, below, step}, limits_, take)) return;
    }
  }

  /// Above any latency.
  static Duration more_than_all(const Problem& p) {
    Duration sum{1};
    for (const OpId v : p.graph.ops()) {
      Duration longest{};
      for (const DeviceId d : p.cluster.devices())
        if (const Duration time = p.costs.compute(v, d); time != cannot_run)
          longest = std::max(longest, time);
      sum += longest;
    }
    const IdVector<TensorId, Duration> transfer = mean_transfer(p);
    for (const TensorId t : p.graph.tensors())
      sum += static_cast<std::int64_t>(p.graph.readers(t).size() + 1) * transfer[t];
    return sum + sum / 1'000'000 + Duration{1};
  }

  std::size_t parts_;
  std::size_t search_;
  solver::MixedLimits limits_;
};

}  // namespace

}  // namespace baechi::exact

namespace baechi {

std::unique_ptr<Placer> make_mip_latency(Options& o) {
  return std::make_unique<exact::MipLatency>(o);
}

}  // namespace baechi
