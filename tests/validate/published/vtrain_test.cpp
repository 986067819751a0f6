#include "validate/published/vtrain.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/shared_data.h"
#include "validate/published/published.h"

using namespace baechi;
using namespace baechi::validate;

namespace {

GptStep small_step() {
  return {.gpus = 1,
          .batch = 2,
          .micro_batch = 1,
          .hidden = 256,
          .heads = 4,
          .layers = 4,
          .length = 128};
}

double ms(GptStep step) {
  step.gpus = step.tensor * step.data * step.pipeline;
  return simulated_ms(parallel_step(step), megatron_gpu());
}

/// Counts groups of rows that differ in the plan alone, and those whose fastest measured row is
/// among the three that are simulated fastest.
struct Ranked {
  std::size_t groups = 0, found = 0;
  void add(const std::vector<PublishedRow>& rows) {
    std::map<std::string, std::vector<PublishedRow>> by_model;
    for (const PublishedRow& row : rows)  // "h 1024, 24 layers, batch 16 in 8, t 1 d 1 p 2"
      by_model[row.group + row.what.substr(0, row.what.find(" in "))].push_back(row);
    for (auto& [model, plans] : by_model) {
      if (plans.size() < 4) continue;
      const double fastest = std::ranges::min_element(plans, {}, &PublishedRow::measured)->measured;
      std::ranges::sort(plans, {}, &PublishedRow::simulated);
      ++groups;
      found += std::ranges::find(plans, fastest, &PublishedRow::measured) - plans.begin() < 3;
    }
  }
};

}  // namespace

TEST_SUITE("vtrain") {
  TEST_CASE("each further micro-batch takes equally long") {
    GptStep two = small_step(), four = two, eight = two;
    four.batch = 4;
    eight.batch = 8;
    CHECK(ms(eight) - ms(four) == doctest::Approx(2 * (ms(four) - ms(two))).epsilon(1e-9));
  }

  TEST_CASE("where nothing but the host's launches counts, a block takes its kernels' launches") {
    // The GPU computes at once; the host launches for 1 ms each: blocks differ in their kernels
    // only.
    DeviceModel gpu = megatron_gpu();
    gpu.host_op = std::chrono::milliseconds(1);
    for (Arithmetic& a : gpu.arithmetic) a.half_flops = 0.0;
    GptStep step = small_step();
    const double four = simulated_ms(parallel_step(step), gpu);
    step.layers = 8;
    const double eight = simulated_ms(parallel_step(step), gpu);
    // A multiple of 1 ms per micro-batch, but for the updates on the GPU.
    const double per_block = (eight - four) / 4 / 2;
    CHECK(per_block == doctest::Approx(std::round(per_block)).epsilon(1e-3));
    CHECK(per_block > 30.0);  // 14 kernels forward, as many again, and more backward
  }

  TEST_CASE("replicas add the time of their sum of gradients, and nothing else") {
    GptStep one = small_step(), eight = one;
    eight.data = 8;
    eight.batch = 16;
    const double more = ms(eight) - ms(one);
    CHECK(more > 0.0);
    GptStep long_one = one, long_eight = eight;
    long_one.batch = 8;
    long_eight.batch = 64;
    CHECK(ms(long_eight) - ms(long_one) == doctest::Approx(more).epsilon(1e-9));
  }

  TEST_CASE("steps that were measured are simulated as well as by vTrain itself") {
    const auto folder = testing::shared_data("vtrain");
    if (!folder) return;
    Ranked ranked;
    const std::vector<std::string> block{"vtrain_multi_node"};
    const PublishedScore score = score_published(folder->string(), block).scores.front();
    CHECK(score.errors.mean <= 0.1473);
    ranked.add(score.rows);
    CHECK(ranked.groups >= 4);
    CHECK(10 * ranked.found >= 9 * ranked.groups);
  }
}
