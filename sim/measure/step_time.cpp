#include <algorithm>

#include "sim/engine/simulation.h"
#include "sim/measure/measure.h"

namespace baechi {
namespace {

/// The simulated makespan.
class StepTimeMeasure final : public Measure {
 public:
  Measured of(const Problem& problem, const Placement& placement) const override {
    const StepResult step = simulate(problem, placement);
    Measured found;
    found.out_of_memory = step.oom.has_value();
    if (step.oom)
      found.why = describe(*step.oom, problem);
    else
      found.value = step.makespan;
    for (const DeviceUse& use : step.devices) {
      found.peaks.push_back(use.peak);
      found.busy.push_back(use.busy);
    }
    const auto fullest = std::ranges::max_element(step.devices, {}, &DeviceUse::peak);
    const auto device = static_cast<DeviceId>(fullest - step.devices.begin());
    found.at_peak = peak_memory(problem, placement, device, fullest->at_peak);
    found.moved = step.moved;
    return found;
  }

  std::optional<Duration> bound(const LowerBounds& bounds) const override { return bounds.best(); }
};

}  // namespace

std::unique_ptr<Measure> make_step_time_measure(Options& /*o*/) {
  return std::make_unique<StepTimeMeasure>();
}

}  // namespace baechi
