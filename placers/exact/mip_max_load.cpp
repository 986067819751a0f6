#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "placers/exact/descent.h"
#include "placers/exact/load_program.h"
#include "placers/exact/plan.h"
#include "placers/placer.h"
#include "sim/error.h"
#include "sim/objective/objective.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// The split of least largest load, by integer programming: started from the best pipeline and, if
/// parts need not be contiguous, from moves and swaps, it asks for something better until there is
/// none.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for throughput.
class MipMaxLoad final : public Placer {
 public:
  explicit MipMaxLoad(Options& o)
      : contiguous_(
            o.get("contiguous", false, "no path between two forward ops of a device may leave it")),
        limits_{.nodes = o.get("max_nodes", std::int64_t{5'000},
                               "of branch and bound; 0: the start and its bound only"),
                .iterations = o.get("max_iterations", std::int64_t{20'000},
                                    "of the simplex method, after which no node is begun"),
                .time = o.get("time_limit", Duration{},
                              "of real time; the one limit that may give other placements from "
                              "run to run; 0: none")} {}

  Placement place(const Problem& p, std::uint64_t seed) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceSort> sorts = device_sorts(p);
    const Blocks blocks(p, units, sorts, {.join_cycles = false});
    const auto evaluator = make_objective("max_load", Options("max_load"))->on(p);
    Best best{.bound = load_bound(blocks, sorts)};
    start(best, p, units, sorts, blocks, *evaluator, seed);
    const double before = best.placement.device.empty() ? -1.0 : to_us(best.load);
    if (limits_.nodes > 0 && best.load > best.bound) improve(best, p, sorts, blocks, *evaluator);
    if (best.load == unknown)
      throw InfeasibleError(fmt::format("mip_max_load: {}{}", why_no_plan(p, units, sorts),
                                        best.finished ? "" : ", of those that were searched"));
    best.placement.facts = {{"start_us", before},
                            {"max_load_us", to_us(best.load)},
                            {"bound_us", to_us(best.bound)},
                            {"gap", gap(best)},
                            {"nodes", static_cast<double>(best.nodes)}};
    best.placement.detail = best.load <= best.bound
                                ? fmt::format("the best {}split", contiguous_ ? "contiguous " : "")
                                : fmt::format("no split is below {}, {:.1f} % less",
                                              to_text(best.bound), 100.0 * gap(best));
    return std::move(best.placement);
  }

 private:
  static constexpr Duration unknown = Duration::max();

  struct Best {
    Placement placement{};  // without devices: none yet
    Duration load = unknown;
    Duration bound{};
    bool finished = false;  // the program was solved to its end
    std::int64_t nodes = 0;
  };

  static double gap(const Best& best) {
    if (best.load <= best.bound) return 0.0;
    return 1.0 - static_cast<double>(best.bound.count()) / static_cast<double>(best.load.count());
  }

  static void offer(Best& best, Placement placement, Evaluator& evaluator) {
    const Score score = evaluator.score(placement);
    if (!score.feasible() || score.value >= best.load) return;
    best.load = score.value;
    best.placement = std::move(placement);
  }
  static Placement in_ops(const IdVector<BlockId, DeviceId>& device, const Blocks& blocks,
                          const OpGraph& graph) {
    Placement placement;
    for (const OpId v : graph.ops()) placement.device.push_back(device[blocks.of(v)]);
    return placement;
  }

  void start(Best& best, const Problem& p, const ColocationUnits& units,
             const std::vector<DeviceSort>& sorts, const Blocks& blocks, Evaluator& evaluator,
             std::uint64_t seed) const {
    constexpr std::size_t quick = 20'000;  // ideals: a second at most
    if (const auto plan = best_linear_plan(p, units, sorts, unknown))
      offer(best, {.device = plan->device}, evaluator);
    if (const auto found = search_ideals(p, units, sorts, best.load, quick); found.plan)
      offer(best, {.device = found.plan->device}, evaluator);
    if (contiguous_) return;
    std::vector<Split> splits;
    if (auto split = first_fit(blocks, sorts)) splits.push_back(std::move(*split));
    if (best.load != unknown) {
      Split split{.load = best.load, .device = IdVector<BlockId, DeviceId>(blocks.size())};
      for (const OpId v : p.graph.ops()) split.device[blocks.of(v)] = best.placement.device[v];
      const Score score = evaluator.score(in_ops(split.device, blocks, p.graph));
      if (score.feasible()) splits.push_back({score.value, std::move(split.device)});
    }
    for (Split& split : splits)
      offer(best, in_ops(descend(blocks, sorts, std::move(split), seed).device, blocks, p.graph),
            evaluator);
  }

  void improve(Best& best, const Problem& p, const std::vector<DeviceSort>& sorts,
               const Blocks& blocks, Evaluator& evaluator) const {
    // Less than a millionth is beyond the solver's tolerance.
    const Duration below = best.load == unknown ? more_than_all(blocks, sorts) : best.load;
    const Duration step = std::max(Duration{1}, below / 1'000'000);
    const LoadProgram program = load_program(p, blocks, sorts, below, step, contiguous_);
    const MixedOptimum found = solve(program.program, limits_);
    best.nodes = found.nodes;
    best.finished = found.finished;
    if (!found.x.empty()) offer(best, in_ops(program.split(found.x), blocks, p.graph), evaluator);
    if (best.load == unknown) return;
    if (found.finished)
      best.bound = best.load;
    else
      best.bound = std::min(best.load, std::max(best.bound, program.load(found.bound)));
  }

  /// Above any load.
  static Duration more_than_all(const Blocks& blocks, const std::vector<DeviceSort>& sorts) {
    Duration sum{1};
    for (const BlockId b : blocks.blocks()) {
      Duration longest{};
      for (std::size_t s = 0; s < sorts.size(); ++s)
        longest = std::max(longest, blocks.time(b, s).value_or(Duration{}));
      sum += longest;
    }
    for (const Blocks::Net& net : blocks.nets()) sum += net.time;
    return sum + sum / 1'000'000 + Duration{1};
  }

  bool contiguous_;
  MixedLimits limits_;
};

}  // namespace

std::unique_ptr<Placer> make_mip_max_load(Options& o) {
  return std::make_unique<MipMaxLoad>(o);
}

}  // namespace baechi
