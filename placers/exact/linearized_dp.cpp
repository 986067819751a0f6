#include <fmt/format.h>

#include <memory>

#include "placers/exact/pipelines.h"
#include "placers/placer.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// The best split of lines of all ops.
/// Source: Tarnawski et al., NeurIPS 2020, linearization.
class LinearizedDp final : public Placer {
 public:
  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceSort> sorts = device_sorts(p);
    const auto plan = best_linear_plan(p, units, sorts, Duration::max());
    if (!plan)
      throw InfeasibleError(fmt::format("linearized_dp: {}, of those that were searched",
                                        why_no_plan(p, units, sorts)));
    const Blocks blocks(p, units, sorts, {});
    return {.device = plan->device,
            .facts = {{"max_load_us", to_us(plan->load)},
                      {"bound_us", to_us(load_bound(blocks, sorts))}}};
  }
};

}  // namespace

std::unique_ptr<Placer> make_linearized_dp(Options&) {
  return std::make_unique<LinearizedDp>();
}

}  // namespace baechi
