#include "placers/exact/descent.h"
#include "placers/exact/lines.h"
#include "placers/exact/parts_needed.h"
#include "placers/exact/pipelines.h"
#include "placers/exact/proof.h"
#include "placers/interface/placer.h"

namespace baechi::exact {
namespace {

/// The placement of least latency. All placements of a small graph are enumerated. On a larger one
/// the integer program starts from stretches of linear orders and asks for a better placement until
/// there is none.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for latency.
class MipLatency final : public Placer {
 public:
  explicit MipLatency(Options& o)
      : parts_(static_cast<std::size_t>(o.get(
            "parts", std::int64_t{0},
            "of the graph that an accelerator may run, one after the other; 0: any number; the "
            "integer program begins with one",
            0))),
        search_(static_cast<std::size_t>(o.get(
            "search", std::int64_t{2'000},
            "evaluations of a search from the best start, before the integer program; 0: none"))),
        tries_(static_cast<std::size_t>(
            o.get("tries", std::int64_t{20'000},
                  "with parts: 0, tries all placements if there are at most so many; 0: none", 0))),
        limits_(solver::mixed_limits(o)) {
    if (parts_ > most_parts) o.mistake("parts", fmt::format("more than {}", most_parts));
  }

  Placement place(const Problem& p, std::uint64_t seed) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceClass> classes = device_classes(p);
    if (std::optional<Incumbent> best = try_all(p, units, classes)) {
      if (best->known()) return std::move(*best).report("latency", "placement");
      throw InfeasibleError(
          fmt::format("mip_latency: {}", why_none_fits(p, units, classes, "split")));
    }
    const Duration path = quickest_path(p, units, classes);
    Incumbent best{.bound = path};
    start(best, p, units, classes);
    if (best.value > best.bound)
      offer_whole(
          best, p,
          search_from(best, p, *make_objective("latency", Options("latency")), search_, seed));
    best.start = best.value;
    if (limits_.nodes > 0 && best.value > best.bound)
      improve(best, p, units, classes, parts_in_program(), Cut::any);
    if (!best.known()) offer_any_split(best, p, units, classes);
    if (!best.known())
      throw InfeasibleError(fmt::format("mip_latency: {}{}",
                                        why_none_fits(p, units, classes, in_parts("split")),
                                        best.finished ? "" : ", of those that were searched"));
    // The path bounds all placements, the program only those of so many parts.
    if (best.bound == path) return std::move(best).report("latency", "placement");
    if (std::optional<Incumbent> all = of_all(best, path, p, units, classes))
      return std::move(*all).report("latency", "placement");
    return std::move(best).report("latency", in_parts("placement"), "_in_parts");
  }

 private:
  static constexpr std::size_t most_parts = 64;

  std::string in_parts(std::string_view what) const {
    return fmt::format("{} whose accelerators run at most {} part{}", what, parts_in_program(),
                       parts_in_program() == 1 ? "" : "s");
  }

  std::size_t parts_in_program() const { return std::max<std::size_t>(parts_, 1); }

  /// `one` and its bound on all placements, or a better placement. Nothing if `parts` limits the
  /// placements, one part is not yet proved, or more parts prove nothing and find nothing better.
  std::optional<Incumbent> of_all(const Incumbent& one, Duration path, const Problem& p,
                                  const ColocationUnits& units,
                                  const std::vector<DeviceClass>& classes) const {
    if (parts_ > 0 || limits_.nodes == 0 || one.gap() > 0.0) return std::nullopt;
    Incumbent all = one;
    const std::size_t parts = parts_needed(p, units, classes, one.value, most_parts);
    if (parts > most_parts) return std::nullopt;
    if (parts > 1) {
      all.bound = path;
      improve(all, p, units, classes, parts, Cut::as_objective);
    }
    if (all.gap() > 0.0 && all.value == one.value) return std::nullopt;
    return all;
  }

  /// Nothing if all placements were not tried: there are too many, or `parts` excludes some.
  std::optional<Incumbent> try_all(const Problem& p, const ColocationUnits& units,
                                   const std::vector<DeviceClass>& classes) const {
    constexpr std::size_t most_ops = 4'000'000;  // ops of all placements together: a second or two
    if (parts_ > 0 || tries_ == 0) return std::nullopt;
    const std::size_t most =
        std::min(tries_, most_ops / std::max<std::size_t>(1, p.graph.num_ops()));
    Incumbent best;
    const auto latency = make_objective("latency", Options("latency"))->on(p);
    const auto visit = [&](const Placement& placement) {
      const Score score = latency->score(placement);
      if (!score.feasible() || score.value >= best.value) return;
      best.value = best.bound = score.value;
      best.placement = placement;
    };
    if (!visit_placements(p, units, classes, most, visit)) return std::nullopt;
    return best;
  }

  /// The latency that is minimised; with any number of parts, that of the objective. Nothing if the
  /// placement breaks a limit, or its parts wait for each other.
  std::optional<Duration> latency(const Problem& p, const Invocations& found) const {
    if (parts_ > 0) {
      if (!constraints(p, found.placement).feasible()) return std::nullopt;
      return latency_in_turn(p, found.placement, found.part);
    }
    const Score score = make_objective("latency", Options("latency"))->score(p, found.placement);
    return score.feasible() ? std::optional(score.value) : std::nullopt;
  }

  /// False if the placement is infeasible.
  bool offer(Incumbent& best, const Problem& p, Invocations found) const {
    const auto value = latency(p, found);
    if (!value) return false;
    if (*value >= best.value) return true;
    best.value = *value;
    best.placement = std::move(found.placement);
    return true;
  }
  void offer_whole(Incumbent& best, const Problem& p, Placement placement) const {
    offer(best, p, {std::move(placement), Parts(p.graph.num_ops())});
  }

  void start(Incumbent& best, const Problem& p, const ColocationUnits& units,
             const std::vector<DeviceClass>& classes) const {
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

  /// A split into contiguous parts, whose weights are summed exactly, unlike in the solver.
  void offer_any_split(Incumbent& best, const Problem& p, const ColocationUnits& units,
                       const std::vector<DeviceClass>& classes) const {
    constexpr std::size_t most_ideals = 20'000;
    if (const auto found = search_ideals(p, units, classes, Incumbent::unknown, most_ideals);
        found.pipeline)
      offer_whole(best, p, {.device = found.pipeline->device});
    if (best.known() || parts_ > 0) return;
    const Bundles bundles(p, units, classes,
                          {.order = BundleRules::Order::data, .join_cycles = false});
    if (const auto split = first_fit(bundles, classes)) {
      Placement placement;
      for (const OpId v : p.graph.ops()) placement.device.push_back(split->device[bundles.of(v)]);
      offer_whole(best, p, std::move(placement));
    }
  }

  void improve(Incumbent& best, const Problem& p, const ColocationUnits& units,
               const std::vector<DeviceClass>& classes, std::size_t parts, Cut cut) const {
    // Cut::as_objective keeps leaves apart: in the first part, a leaf's tensor would cross to later
    // ones.
    const auto leaves = cut == Cut::any ? BundleRules::Leaves::safe : BundleRules::Leaves::apart;
    const Bundles bundles(
        p, units, classes,
        {.order = BundleRules::Order::data, .join_cycles = false, .leaves = leaves});
    // A gain below a millionth is within the solver's tolerance.
    const Duration below = best.known() ? best.value : more_than_all(p);
    const Duration step = std::max(Duration{1}, below / 1'000'000);
    // Parts of no time may wait for each other; then solves again with every part taking time.
    for (const bool strict : {false, true}) {
      LatencyProgram program =
          latency_program(p, bundles, classes, {parts, cut, strict}, below, step);
      const auto take = [&](const std::vector<double>& x) {
        return offer(best, p, program.invocations(x));
      };
      if (prove(best, program, {bundles, classes, below, step}, limits_, take)) return;
    }
  }

  /// An upper bound on any latency.
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
  std::size_t search_, tries_;
  solver::MixedLimits limits_;
};

}  // namespace

std::unique_ptr<Placer> make_mip_latency(Options& o) { return std::make_unique<MipLatency>(o); }

}  // namespace baechi::exact
