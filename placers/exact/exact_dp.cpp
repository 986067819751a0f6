#include <fmt/format.h>

#include <memory>

#include "placers/exact/pipelines.h"
#include "placers/placer.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// Of all pipelines the one whose busiest device has least to do.
/// Source: Tarnawski et al., NeurIPS 2020, dynamic programming over ideals.
class ExactDp final : public Placer {
 public:
  explicit ExactDp(Options& o)
      : max_ideals_(static_cast<std::size_t>(
            o.get("max_ideals", std::int64_t{100'000},
                  "of more ideals, only lines of all ops are searched (as linearized_dp)", 1))) {}

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceSort> sorts = device_sorts(p);
    std::optional<LinePlan> plan = best_linear_plan(p, units, sorts, Duration::max());
    const IdealSearch search =
        search_ideals(p, units, sorts, plan ? plan->load : Duration::max(), max_ideals_);
    Placement result;
    result.facts["linearized_us"] = plan ? to_us(plan->load) : -1.0;
    if (search.plan) plan = search.plan;
    const bool optimal = search.ideals > 0 && !search.leaves_joined;
    if (!plan)
      throw InfeasibleError(fmt::format("exact_dp: {}{}", why_no_plan(p, units, sorts),
                                        optimal ? "" : ", of those that were searched"));
    result.device = std::move(plan->device);
    result.facts["max_load_us"] = to_us(plan->load);
    result.facts["optimal"] = optimal ? 1.0 : 0.0;
    result.facts["ideals"] = static_cast<double>(search.ideals);
    if (search.ideals == 0)
      result.detail = fmt::format("more than {} ideals: only lines were searched", max_ideals_);
    else if (search.leaves_joined)
      result.detail = "best where leaves of no time stay with their neighbours";
    else
      result.detail = "the best contiguous split";
    return result;
  }

 private:
  std::size_t max_ideals_;
};

}  // namespace

std::unique_ptr<Placer> make_exact_dp(Options& o) {
  return std::make_unique<ExactDp>(o);
}

}  // namespace baechi
