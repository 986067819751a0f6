#include "placers/exact/lines.h"
#include "placers/exact/pipelines.h"
#include "placers/interface/placer.h"

namespace baechi {

/// Fills the accelerators in turn along a depth-first order of all ops; CPU cores run the rest.
/// Source: Tarnawski et al., NeurIPS 2020, the greedy baseline for latency; equal to the authors'
/// program on all of their workloads.
std::unique_ptr<Placer> make_greedy_latency(Options&) {
  return placer_of([](const Problem& p, std::uint64_t /*seed*/) -> Placement {
    using namespace exact;
    const ColocationUnits units(p.graph);
    const std::vector<DeviceClass> classes = device_classes(p);
    const Bundles bundles = latency_bundles(p, units, classes);
    const LineSplit split = fill(p, bundles, classes, depth_first_as_added(p.graph, bundles));
    auto placement = in_ops(split, p, bundles);
    const auto latency = make_objective("latency", Options("latency"))->on(p);
    const bool runs = placement && latency->score(*placement).feasible();
    if (!runs)
      throw InfeasibleError(fmt::format("greedy_latency: {}, filling one device after the other",
                                        why_none_fits(p, units, classes, "split")));
    placement->facts["latency_us"] = to_us(latency->score(*placement).value);
    return std::move(*placement);
  });
}

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
