#include "placers/exact/descent.h"
#include "placers/exact/proof.h"
#include "placers/exact/replicated_split.h"
#include "placers/interface/registry.h"

namespace baechi::exact {
namespace {

/// The split of least largest load, by integer programming. Starts from the best pipeline and, if
/// parts need not be contiguous, from moves and swaps; then asks for a better split until there is
/// none.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for throughput.
class MipMaxLoad final : public Placer {
 public:
  explicit MipMaxLoad(Options& o)
      : contiguous_(
            o.get("contiguous", false, "no path between two forward ops of a device may leave it")),
        phases_(o.get("phases", {"together", "apart"}, "as the objective max_load")),
        search_(static_cast<std::size_t>(o.get(
            "search", std::int64_t{20'000},
            "evaluations of a search from the best start, before the integer program; 0: none"))),
        replicate_(o.get("replicate", false,
                         "a part may run on several equal devices, as exact_dp has it; the "
                         "placement has the first of them")),
        micro_batches_(
            o.get("micro_batches", std::int64_t{0}, "as exact_dp has it", 0, 10'000'000)),
        limits_(solver::mixed_limits(o)) {
    if (micro_batches_ > 0 && !replicate_)
      o.mistake("micro_batches", "only counts with replicate=true");
    if (replicate_ && phases_ == "apart")
      o.mistake("replicate", "counts the load of all phases together");
  }

  bool replicates() const override { return replicate_; }

  Placement place(const Problem& p, std::uint64_t seed) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceClass> classes = device_classes(p);
    if (replicate_) return with_replicas(p, units, classes, seed);
    const Bundles bundles(p, units, classes, {.join_cycles = false});
    const auto max_load =
        make_objective("max_load", Options("max_load", {{"phases", {phases_, {}, {}}}}));
    const auto evaluator = max_load->on(p);
    Incumbent best{.bound = load_bound(bundles, classes)};
    start(best, p, units, classes, bundles, *evaluator, seed);
    if (!contiguous_ && best.value > best.bound)
      offer(best, search_from(best, p, *max_load, search_, seed), *evaluator);
    best.start = best.value;
    if (limits_.nodes > 0 && best.value > best.bound)
      improve(best, p, classes, bundles, *evaluator);
    if (!best.known())
      throw InfeasibleError(
          fmt::format("mip_max_load: {}{}",
                      why_none_fits(p, units, classes, contiguous_ ? "contiguous split" : "split"),
                      best.finished ? "" : ", of those that were searched"));
    return std::move(best).report("max_load", contiguous_ ? "contiguous split" : "split");
  }

 private:
  Placement with_replicas(const Problem& p, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, std::uint64_t seed) const {
    const Replication replication = Replication::of(p, classes, micro_batches_);
    const Bundles bundles(p, units, classes, {.join_cycles = false, .weights_cost = true});
    Incumbent best{.bound = work_bound(bundles, classes)};
    Pipeline stages;
    const auto take = [&](std::optional<Pipeline> found) {
      if (!found || found->load >= best.value) return;
      stages = std::move(*found);
      best.value = stages.load;
      best.placement = {.device = stages.device};
    };
    take(best_linear_pipeline(p, units, classes, Incumbent::unknown, replication));
    take(search_ideals(p, units, classes, best.value, quick_ideals(), replication).pipeline);
    if (!contiguous_) {
      Incumbent alone;
      const auto evaluator = make_objective("max_load", Options("max_load"))->on(p);
      start(alone, p, units, classes, Bundles(p, units, classes, {.join_cycles = false}),
            *evaluator, seed);
      if (alone.known()) take(stages_without_replicas(p, alone.placement));
    }
    best.start = best.value;
    if (limits_.nodes > 0 && best.value > best.bound) {
      const ReplicatedParts parts(p, bundles, classes, replication);
      const Duration below = best.known() ? best.value : more_than_all(bundles, classes);
      const Duration step = std::max(Duration{1}, below / 1'000'000);
      LoadProgram program = parts.program(below, step, contiguous_);
      prove(best, program, {bundles, parts.kinds(), below, step}, limits_,
            [&](const std::vector<double>& x) {
              auto found = parts.stages_of(program.split(x));
              if (!found || (contiguous_ && !is_contiguous(p, {.device = found->device})))
                return false;
              take(std::move(found));
              return true;
            });
    }
    if (!best.known())
      throw InfeasibleError(fmt::format("mip_max_load: {}{}",
                                        why_none_fits(p, units, classes, "split"),
                                        best.finished ? "" : ", of those that were searched"));
    Placement result = std::move(best).report(
        "time_per_sample", contiguous_ ? "contiguous split with replicas" : "split with replicas");
    record_stages(stages, micro_batches_, result);
    return result;
  }

  /// Ideals that take a second at most; if contiguous, those of exact_dp, which must not be better.
  std::size_t quick_ideals() const { return contiguous_ ? exact_dp_ideals : 20'000; }

  static void offer(Incumbent& best, Placement placement, Evaluator& evaluator) {
    const Score score = evaluator.score(placement);
    if (!score.feasible() || score.value >= best.value) return;
    best.value = score.value;
    best.placement = std::move(placement);
  }
  static Placement in_ops(const IdVector<BundleId, DeviceId>& device, const Bundles& bundles,
                          const OpGraph& graph) {
    Placement placement;
    for (const OpId v : graph.ops()) placement.device.push_back(device[bundles.of(v)]);
    return placement;
  }

  void start(Incumbent& best, const Problem& p, const ColocationUnits& units,
             const std::vector<DeviceClass>& classes, const Bundles& bundles, Evaluator& evaluator,
             std::uint64_t seed) const {
    if (const auto pipeline = best_linear_pipeline(p, units, classes, Incumbent::unknown))
      offer(best, {.device = pipeline->device}, evaluator);
    if (const auto found = search_ideals(p, units, classes, best.value, quick_ideals());
        found.pipeline)
      offer(best, {.device = found.pipeline->device}, evaluator);
    if (contiguous_) return;
    std::vector<Split> splits;
    const auto begin_with = [&](const Placement& placement) {
      Split split{.device = IdVector<BundleId, DeviceId>(bundles.size())};
      for (const OpId v : p.graph.ops()) split.device[bundles.of(v)] = placement.device[v];
      if (evaluator.score(in_ops(split.device, bundles, p.graph)).feasible())
        splits.push_back(std::move(split));
    };
    if (auto split = first_fit(bundles, classes)) splits.push_back(std::move(*split));
    if (best.known()) begin_with(best.placement);
    for (const char* other : {"local_search", "metis", "scotch"}) {
      try {
        begin_with(make_placer(other, Options(other))->place(p, seed));
      } catch (const InfeasibleError&) {  // a cycle of joined groups may fit on no device
      }
    }
    for (Split& split : splits)
      offer(best,
            in_ops(descend(bundles, classes, std::move(split), seed).device, bundles, p.graph),
            evaluator);
  }

  void improve(Incumbent& best, const Problem& p, const std::vector<DeviceClass>& classes,
               const Bundles& bundles, Evaluator& evaluator) const {
    // A gain below a millionth is within the solver's tolerance.
    const Duration below = !best.known() ? more_than_all(bundles, classes) : best.value;
    const Duration step = std::max(Duration{1}, below / 1'000'000);
    LoadProgram program = load_program(p, bundles, classes, below, step,
                                       {.contiguous = contiguous_, .apart = phases_ == "apart"});
    const auto take = [&](const std::vector<double>& x) {
      Placement found = in_ops(program.split(x), bundles, p.graph);
      const bool allowed =
          evaluator.score(found).feasible() && (!contiguous_ || is_contiguous(p, found));
      if (allowed) offer(best, std::move(found), evaluator);
      return allowed;
    };
    prove(best, program, {bundles, classes, below, step}, limits_, take);
  }

  /// An upper bound on any load.
  static Duration more_than_all(const Bundles& bundles, const std::vector<DeviceClass>& classes) {
    Duration sum{1};
    for (const BundleId b : bundles.bundles()) {
      Duration longest{};
      for (std::size_t s = 0; s < classes.size(); ++s)
        longest = std::max(longest, bundles.time(b, s).value_or(Duration{}));
      sum += longest;
    }
    for (const Bundles::Net& net : bundles.nets()) sum += net.time;
    return sum + sum / 1'000'000 + Duration{1};
  }

  bool contiguous_;
  std::string phases_;
  std::size_t search_;
  bool replicate_;
  std::int64_t micro_batches_;
  solver::MixedLimits limits_;
};

}  // namespace

std::unique_ptr<Placer> make_mip_max_load(Options& o) { return std::make_unique<MipMaxLoad>(o); }

}  // namespace baechi::exact
