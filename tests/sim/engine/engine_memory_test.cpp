#include "sim/graph/analysis.h"
#include "tests/checker/recorded.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

MemoryUse memory(Bytes weights, Bytes outputs, Bytes copies, Bytes workspace) {
  return {{weights, outputs, copies, workspace}};
}

//   a(10), 7 B of weights, 5 B of workspace --100 B--> b(20), 3 B, 4 B, writes 50 B that nobody
//   reads
OpGraph all_kinds_of_memory() { return graph_of("a10,w7,t5 -100> b20,w3,t4 -50> ."); }

Cluster two_gpus(Bytes first, Bytes second) { return with_memory(gpus(2, first), gpu1, second); }

}  // namespace

TEST_SUITE_BEGIN("engine_memory");
TEST_CASE("memory freed in one round is available in the next, at the same instant") {
  // a and b take no time and write 100 B each without readers: never both at once.
  const StepResult r = run(graph_of("a0 -100> .; b0 -100> ."), gpus(1, 100_B), on({gpu0, gpu0}));
  CHECK_FALSE(r.oom);
  CHECK(r.makespan == 0ns);
  CHECK(r.devices[gpu0].peak == 100_B);
}

TEST_CASE("memory over time, by kind") {
  const OpGraph graph = all_kinds_of_memory();
  const Recorded r(graph, gpus(2), on({gpu0, gpu1}));
  // gpu0: a runs 0-10, its output is there until it has been sent at 110.
  CHECK(r.use(gpu0, 0ns) == memory(7_B, 100_B, 0_B, 5_B));
  CHECK(r.use(gpu0, 10ns) == memory(7_B, 100_B, 0_B, 0_B));
  CHECK(r.use(gpu0, 109ns) == memory(7_B, 100_B, 0_B, 0_B));
  CHECK(r.use(gpu0, 110ns) == memory(7_B, 0_B, 0_B, 0_B));
  // gpu1: the copy is there from the start of its transfer at 10 to the end of b, 110-130.
  CHECK(r.use(gpu1, 0ns) == memory(3_B, 0_B, 0_B, 0_B));
  CHECK(r.use(gpu1, 10ns) == memory(3_B, 0_B, 100_B, 0_B));
  CHECK(r.use(gpu1, 110ns) == memory(3_B, 50_B, 100_B, 4_B));
  CHECK(r.use(gpu1, 130ns) == memory(3_B, 0_B, 0_B, 0_B));
  CHECK(r.result().devices[gpu0].peak == 112_B);
  CHECK(r.result().devices[gpu0].at_peak == memory(7_B, 100_B, 0_B, 5_B));
  CHECK(r.result().devices[gpu1].peak == 157_B);
  CHECK(r.result().devices[gpu1].at_peak == memory(3_B, 50_B, 100_B, 4_B));
  // On one device: 10 of weights, 100 + 5 while a runs; 100 + 50 + 4 while b does.
  CHECK(run(graph, gpus(1), on({gpu0, gpu0})).devices[gpu0].at_peak ==
        memory(10_B, 150_B, 0_B, 4_B));
}

TEST_CASE("a reference takes memory where it is received, not where it is produced") {
  // a(10), 100 B of weights, which b(20) reads
  const OpGraph graph = graph_of("a10,w100 -&100> b20");
  const Recorded split(graph, gpus(2), on({gpu0, gpu1}));
  CHECK(split.result().makespan == 130ns);
  CHECK(split.result().devices[gpu0].at_peak == memory(100_B, 0_B, 0_B, 0_B));
  CHECK(split.result().devices[gpu1].at_peak == memory(0_B, 0_B, 100_B, 0_B));
  CHECK_FALSE(run(graph, gpus(1, 100_B), on({gpu0, gpu0})).oom);
}

TEST_CASE("exactly enough memory is enough") {
  const Placement p = on({gpu0, gpu1});
  CHECK_FALSE(run(all_kinds_of_memory(), two_gpus(112_B, 157_B), p).oom);
  CHECK(run(all_kinds_of_memory(), two_gpus(111_B, 157_B), p).oom);
  CHECK(run(all_kinds_of_memory(), two_gpus(112_B, 156_B), p).oom);
}

TEST_CASE("an op that does not fit reports its need and the live memory") {
  const OpGraph graph = all_kinds_of_memory();
  const StepResult r = run(graph, two_gpus(112_B, 156_B), on({gpu0, gpu1}));
  REQUIRE(r.oom);
  CHECK(r.oom->device == gpu1);
  CHECK(graph.name(r.oom->op) == "b");
  CHECK_FALSE(r.oom->transfer);
  CHECK(r.oom->needed == 54_B);  // output and workspace
  CHECK(r.oom->free == 53_B);    // 156 - 3 - 100
  CHECK(r.oom->live == memory(3_B, 0_B, 100_B, 0_B));
  CHECK(r.oom->at == TimePoint{110ns});
  CHECK(r.makespan == 110ns);
  CHECK(r.events == 2);
  CHECK(r.devices[gpu1].peak == 103_B);
}

TEST_CASE("a transfer that does not fit reports its tensor, producer and receiver") {
  const OpGraph graph = all_kinds_of_memory();
  const StepResult r = run(graph, two_gpus(112_B, 102_B), on({gpu0, gpu1}));
  REQUIRE(r.oom);
  CHECK(r.oom->device == gpu1);
  CHECK(graph.name(r.oom->op) == "a");
  CHECK(r.oom->transfer == TensorId{0});
  CHECK(r.oom->needed == 100_B);
  CHECK(r.oom->free == 99_B);
  CHECK(r.oom->live == memory(3_B, 0_B, 0_B, 0_B));
  CHECK(r.oom->at == TimePoint{10ns});
  CHECK(r.transfers == 0);
  CHECK(r.moved == 0_B);
}

TEST_CASE("weights without memory fail before anything runs, at the first op too many") {
  // 7 + 3 on one device with room for 9: b's 3 find 2.
  const OpGraph graph = all_kinds_of_memory();
  const StepResult r = run(graph, gpus(1, 9_B), on({gpu0, gpu0}));
  REQUIRE(r.oom);
  CHECK(graph.name(r.oom->op) == "b");
  CHECK_FALSE(r.oom->transfer);
  CHECK(r.oom->needed == 3_B);
  CHECK(r.oom->free == 2_B);
  CHECK(r.oom->live == memory(7_B, 0_B, 0_B, 0_B));
  CHECK(r.makespan == 0ns);
  CHECK(r.events == 0);
  CHECK(r.devices[gpu0].busy == 0ns);
  CHECK(r.devices[gpu0].peak == 7_B);
}

TEST_CASE("ops that run at an OOM are busy up to then") {
  // a (gpu0) has run for half of its 100 when c does not fit on gpu1 at 50.
  const StepResult r = run(graph_of("a100; b50; c1,t10"), gpus(2, 9_B), on({gpu0, gpu1, gpu1}));
  REQUIRE(r.oom);
  CHECK(r.makespan == 50ns);
  CHECK(r.devices[gpu0].busy == 50ns);
  CHECK(r.devices[gpu1].busy == 50ns);
}

TEST_CASE("memory that is not enforced is still counted") {
  const StepResult r =
      run(all_kinds_of_memory(), two_gpus(0_B, 0_B), on({gpu0, gpu1}), {.enforce_memory = false});
  CHECK_FALSE(r.oom);
  CHECK(r.makespan == 130ns);
  CHECK(r.devices[gpu1].peak == 157_B);
}

TEST_CASE("no device holds more than all footprints and a copy of each edge's tensor") {
  // 10 of weights, 5 + 4 of workspace, outputs of 100 + 50, and a copy of 100
  CHECK(peak_upper_bound(all_kinds_of_memory()) == 269_B);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const RandomProblem p({.ops = 40}, 3, seed);
    for (const EngineOptions& engine : all_engines()) {
      const StepResult step = simulate(p.under(engine), p.placement);
      for (const auto& device : step.devices) CHECK(device.peak <= peak_upper_bound(p.graph));
    }
  }
}
