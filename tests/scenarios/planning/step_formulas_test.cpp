#include "scenarios/planning/step_formulas.h"

#include <doctest/doctest.h>

#include "validate/published/vtrain.h"

using namespace baechi;
using namespace baechi::validate;

TEST_SUITE("step formulas") {
  TEST_CASE("the formula is the engine's step, but for sends between stages") {
    GptStep step{.gpus = 1,
                 .batch = 16,
                 .micro_batch = 1,
                 .hidden = 1024,
                 .heads = 16,
                 .layers = 4,
                 .length = 512};
    std::vector<ParallelStep> steps;
    steps.push_back(parallel_step(step));
    step.tensor = 2;
    steps.push_back(parallel_step(step));
    step.data = 2;
    steps.push_back(parallel_step(step));
    step.pipeline = 2;
    steps.push_back(parallel_step(step));
    // At 1 ns a launch the kernels decide, at 1 ms the host, which launches the last op of a pass
    // before that runs.
    for (const Duration launch :
         {std::chrono::nanoseconds(1), std::chrono::nanoseconds(1'000'000)}) {
      DeviceModel gpu = megatron_gpu();
      gpu.host_op = launch;
      const std::vector<double> seconds = StepFormulas(steps).seconds(gpu);
      REQUIRE(seconds.size() == 4);
      for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        const double ms = simulated_ms(steps[i], gpu);
        CHECK(1e3 * seconds[i] == doctest::Approx(ms).epsilon(0.01));
      }
    }
  }
}
