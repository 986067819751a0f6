#include <doctest/doctest.h>

#include "sim/engine/simulation.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {
StepResult run(const OpGraph& graph, const Cluster& cluster, const Placement& placement,
               EngineOptions engine = {}) {
  const ProfiledCosts costs(graph, cluster);
  return simulate({graph, cluster, costs, engine}, placement);
}
}  // namespace

TEST_SUITE("engine") {
  TEST_CASE("on one device, ops run one after another and nothing is sent") {
    const StepResult r = run(one_tensor_two_readers(), gpus(2), on({gpu0, gpu0, gpu0}));
    CHECK(r.makespan == 60ns);
    CHECK(r.moved == 0_B);
    CHECK(r.devices[gpu0].busy == 60ns);
  }

  TEST_CASE("a tensor with two readers on another device crosses once if cached, twice if not") {
    const OpGraph graph = one_tensor_two_readers();
    const Placement split = on({gpu0, gpu1, gpu1});
    // 10 + 100 + 20 + 30
    CHECK(run(graph, gpus(2), split, {.cache_tensors = true}).makespan == 160ns);
    // 10 + 100 (b runs while the second copy crosses) + 100 + 30
    CHECK(run(graph, gpus(2), split, {.cache_tensors = false}).makespan == 240ns);
  }

  TEST_CASE("running out of memory is a result, and says who asked for how much, where") {
    const OpGraph graph = one_tensor_two_readers();
    const StepResult r = run(graph, gpus(1, 99_B), on({gpu0, gpu0, gpu0}));
    REQUIRE(r.oom);
    CHECK(r.oom->device == gpu0);
    CHECK(graph.name(r.oom->op) == "a");
    CHECK(r.oom->needed == 100_B);
    CHECK(r.oom->free == 99_B);
  }
}
