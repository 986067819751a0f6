#include <fmt/format.h>

#include <memory>

#include "placers/exact/pipelines.h"
#include "placers/interface/placer.h"
#include "sim/error.h"
#include "sim/options.h"

namespace baechi::exact {
namespace {

/// The best split of linear orders of all ops.
/// Source: Tarnawski et al., NeurIPS 2020, linearization.
class LinearizedDp final : public Placer {
 public:
  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const ColocationUnits units(p.graph);
    const std::vector<DeviceClass> classes = device_classes(p);
    const auto pipeline = best_linear_pipeline(p, units, classes, Duration::max());
    if (!pipeline)
      throw InfeasibleError(fmt::format("linearized_dp: {}, of those that were searched",
                                        why_none_fits(p, units, classes, "pipeline")));
    const Bundles bundles(p, units, classes, {});
    return {.device = pipeline->device,
            .facts = {{"max_load_us", to_us(pipeline->load)},
                      {"bound_us", to_us(load_bound(bundles, classes))}}};
  }
};

}  // namespace

}  // namespace baechi::exact

namespace baechi {

std::unique_ptr<Placer> make_linearized_dp(Options&) {
  return std::make_unique<exact::LinearizedDp>();
}

}  // namespace baechi
