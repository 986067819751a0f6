#include "placers/exact/pipelines.h"
#include "placers/interface/placer.h"

namespace baechi {

/// The best split of linear orders of all ops.
/// Source: Tarnawski et al., NeurIPS 2020, linearization.
std::unique_ptr<Placer> make_linearized_dp(Options&) {
  return placer_of([](const Problem& p, std::uint64_t /*seed*/) -> Placement {
    using namespace exact;
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
  });
}

}  // namespace baechi
