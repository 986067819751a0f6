#include <doctest/doctest.h>

#include <string>

#include "tests/random_problems.h"
#include "tests/sim/pipeline/small_pipelines.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::pipeline;

TEST_SUITE("pipelines") {
  // f holds 4 B, u 16 B. b writes a gradient of 8 B, which u reads: 28 B with one micro-batch. With
  // more, the later ones compute theirs in workspace, in addition to the accumulator: 36 B. 1f1b
  // updates after each micro-batch, and does not accumulate.
  TEST_CASE("a stage holds the accumulated gradient tensors, and the one that it computes") {
    OpGraphBuilder b;
    const OpId f = b.add_op({.name = "f", .compute = 10ns, .persistent = 4_B});
    const OpId g = b.add_op({.name = "b", .compute = 20ns, .phase = Phase::backward});
    const OpId u =
        b.add_op({.name = "u", .compute = 5ns, .persistent = 16_B, .phase = Phase::update});
    b.set_forward(g, f);
    b.add_edge(b.add_tensor(f, 0_B), g);
    b.add_edge(b.add_tensor(g, 8_B), u);
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = gpus(1);
    const ProfiledCosts costs(graph, cluster);
    const auto peak = [&](const char* schedule, std::size_t micro_batches) {
      return simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu0, gpu0}),
                               {.schedule = schedule, .micro_batches = micro_batches})
          .stages[0]
          .peak;
    };
    for (const char* schedule : {"gpipe", "1f1b_flush", "zb_h1"}) {
      CAPTURE(schedule);
      CHECK(peak(schedule, 1) == 28_B);
      CHECK(peak(schedule, 2) == 36_B);
      CHECK(peak(schedule, 9) == 36_B);
    }
    CHECK(peak("1f1b", 9) == 28_B);
  }

  TEST_CASE("a stage without memory for its micro-batches in flight runs out of memory") {
    const OpGraph graph = uniform_graph(4, 0_B, true);
    const Cluster cluster = gpus(4, 300_B);
    const ProfiledCosts costs(graph, cluster);
    Placement placement = Uniform(4, 0_B).placement;
    const auto run = [&](const char* schedule, bool recompute) {
      return simulate_pipeline({graph, cluster, costs}, placement,
                               {.schedule = schedule, .micro_batches = 8, .recompute = recompute});
    };
    CHECK(run("gpipe", false).oom.has_value());
    CHECK(run("1f1b", false).oom.has_value());
    CHECK(run("1f1b", false).difference == "memory ran out");
    CHECK_FALSE(run("2bw", true).oom.has_value());
    CHECK_FALSE(run("gpipe", true).oom.has_value());
  }

  TEST_CASE("with any memory limit, kinds are not negative, and add up to each stage's peak") {
    const std::vector<EngineOptions> engines = all_engines();
    std::size_t out_of_memory = 0, at_time_0 = 0;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      CAPTURE(seed);
      const RandomProblem random({.ops = 15}, 3, seed);
      const OpGraph graph = trained(random.under({}).graph);
      Placement placement = random.placement;
      for (std::size_t i = random.placement.device.size(); i-- > 0;) {
        const auto forward = static_cast<OpId>(i);
        placement.device.push_back(placement.device[forward]);
        if (!placement.priority.empty()) placement.priority.push_back(placement.priority[forward]);
      }
      for (const ScheduleEntry& entry : schedules()) {
        if (entry.layout != Layout::line) continue;
        CAPTURE(entry.name);
        // From too little for the weights, which runs out at time 0, to enough for most.
        for (const Bytes memory : {1_B, 100_B, 400_B, 900_B, 2000_B, 5000_B}) {
          const Cluster cluster = gpus(3, memory);
          const ProfiledCosts costs(graph, cluster);
          const PipelineResult r =
              simulate_pipeline({graph, cluster, costs, engines[seed % engines.size()]}, placement,
                                {.schedule = std::string(entry.name), .micro_batches = 5});
          out_of_memory += r.oom ? 1U : 0U;
          at_time_0 += r.oom && r.oom->at == TimePoint{} ? 1U : 0U;
          for (const StageUse& s : r.stages) {
            CHECK(s.spare_versions >= 0_B);
            for (const MemoryKind kind : memory_kinds) CHECK(s.at_peak[kind] >= 0_B);
            CHECK(s.peak == s.spare_versions + s.at_peak.total());
            CHECK(s.peak <= memory);
          }
        }
      }
    }
    CHECK(out_of_memory > 100);
    CHECK(at_time_0 > 50);
  }

  TEST_CASE("out of memory at time 0: kinds are not negative, and add up to the peak") {
    // 1f1b's first stage asks for 4 versions of 10 B, and has 25 B.
    const OpGraph graph = uniform_graph(4, 0_B, true);
    const Cluster cluster = gpus(4, 25_B);
    const ProfiledCosts costs(graph, cluster);
    for (const ScheduleEntry& entry : schedules()) {
      CAPTURE(entry.name);
      if (entry.layout == Layout::loop) continue;
      const PipelineResult r =
          simulate_pipeline({graph, cluster, costs}, Uniform(4, 0_B).placement,
                            {.schedule = std::string(entry.name), .micro_batches = 8});
      for (const StageUse& s : r.stages) {
        CHECK(s.spare_versions >= 0_B);
        for (const MemoryKind kind : memory_kinds) CHECK(s.at_peak[kind] >= 0_B);
        CHECK(s.peak == s.spare_versions + s.at_peak.total());
      }
    }
    CHECK(Uniform(4, 0_B).run("1f1b", 8).one_kind);
    CHECK_FALSE(Uniform(4, 0_B).run("gpipe", 8).one_kind);
  }

  TEST_CASE("versions are kept of weights, not of gradients and optimizer state") {
    //   f(40 B of weights) -> g -> h(backward, 40 B of gradients) -> u(update, 80 B of its own)
    OpGraphBuilder b;
    const OpId f = b.add_op({.name = "f", .compute = 10ns, .persistent = 40_B});
    const OpId g = b.add_op({.name = "g", .compute = 10ns});
    const OpId h =
        b.add_op({.name = "h", .compute = 20ns, .persistent = 40_B, .phase = Phase::backward});
    const OpId u =
        b.add_op({.name = "u", .compute = 5ns, .persistent = 80_B, .phase = Phase::update});
    b.add_edge(b.add_tensor(f, 0_B), g);
    b.add_edge(b.add_tensor(g, 0_B), h);
    b.add_edge(b.add_tensor(h, 0_B), u);
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = gpus(2);
    const ProfiledCosts costs(graph, cluster);
    const PipelineResult r =
        simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu0, gpu0}),
                          {.schedule = "2bw", .micro_batches = 4});
    CHECK(r.stages[0].spare_versions == 40_B);  // 2 versions of 40 B; without this rule 160 B
    CHECK(r.stages[0].at_peak[MemoryKind::weights] == 160_B);
    CHECK_FALSE(r.one_kind);
  }
}
