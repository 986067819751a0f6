#include "validate/fit/gpt_formulas.h"

#include <doctest/doctest.h>

#include "validate/published/vtrain.h"

using namespace baechi;
using namespace baechi::validate;

TEST_SUITE("GPT formulas") {
  TEST_CASE("the formula is the engine's step, but for sends between stages") {
    GptStep step{.gpus = 1,
                 .batch = 16,
                 .micro_batch = 1,
                 .hidden = 1024,
                 .heads = 16,
                 .layers = 4,
                 .length = 512};
    std::vector<PreparedGptStep> steps;
    steps.emplace_back(step);
    step.tensor = 2;
    steps.emplace_back(step);
    step.data = 2;
    steps.emplace_back(step);
    step.pipeline = 2;
    steps.emplace_back(step);
    // At 1 ns a launch the kernels decide, at 1 ms the host, which launches the last op of a pass
    // before that runs.
    for (const Duration launch :
         {std::chrono::nanoseconds(1), std::chrono::nanoseconds(1'000'000)}) {
      DeviceModel gpu = megatron_gpu();
      gpu.host_op = launch;
      const std::vector<double> ms = GptFormulas(steps).ms(gpu);
      REQUIRE(ms.size() == 4);
      for (std::size_t i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK(ms[i] == doctest::Approx(steps[i].simulated_ms(gpu)).epsilon(0.01));
      }
    }
  }
}
