#include "sim/pipeline/pipeline.h"

#include <doctest/doctest.h>

#include <string>

#include "placers/registry.h"
#include "sim/error.h"
#include "sim/objective/max_load.h"
#include "tests/traces/msr_files.h"
#include "tests/random_problems.h"
#include "tests/shared_data.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// k stages, one on each device: forward ops f0 -> f1 -> ... of 10 ns, backward ops ... b1 -> b0 of
/// 20 ns, each b reading 100 B that its f wrote; 10 B of weights each f, and `crossing` B from
/// stage to stage, which take as many ns.
OpGraph uniform_graph(int k, Bytes crossing, bool training) {
  OpGraphBuilder b;
  std::vector<TensorId> forward, kept;
  for (int s = 0; s < k; ++s) {
    const OpId f = b.add_op(
        {.name = "f" + std::to_string(s), .compute = 10ns, .persistent = 10_B, .temporary = 1_B});
    if (s > 0) b.add_edge(forward.back(), f);
    forward.push_back(b.add_tensor(f, crossing));
    kept.push_back(b.add_tensor(f, 100_B));
  }
  std::optional<TensorId> gradient;
  for (int s = k; training && s-- > 0;) {
    const OpId v =
        b.add_op({.name = "b" + std::to_string(s), .compute = 20ns, .phase = Phase::backward});
    b.add_edge(kept[static_cast<std::size_t>(s)], v);
    if (gradient) b.add_edge(*gradient, v);
    gradient = b.add_tensor(v, crossing);
  }
  return std::move(b).build();
}

class Uniform {
 public:
  Uniform(int k, Bytes crossing, bool training = true)
      : graph(uniform_graph(k, crossing, training)),
        cluster(gpus(static_cast<std::size_t>(k))),
        costs(graph, cluster) {
    for (int s = 0; s < k; ++s) placement.device.push_back(static_cast<DeviceId>(s));
    for (int s = k; training && s-- > 0;) placement.device.push_back(static_cast<DeviceId>(s));
  }
  PipelineResult run(PipelineScheme scheme, std::size_t micro_batches, bool recompute = false,
                     EngineOptions engine = {}) const {
    return simulate_pipeline(
        {graph, cluster, costs, engine}, placement,
        {.scheme = scheme, .micro_batches = micro_batches, .recompute = recompute});
  }

  const OpGraph graph;
  const Cluster cluster;
  const ProfiledCosts costs;
  Placement placement;
};

std::vector<std::size_t> in_flight(const PipelineResult& r) {
  std::vector<std::size_t> all;
  for (const StageUse& s : r.stages) all.push_back(s.in_flight);
  return all;
}
std::vector<std::size_t> versions(const PipelineResult& r) {
  std::vector<std::size_t> all;
  for (const StageUse& s : r.stages) all.push_back(s.versions);
  return all;
}
std::vector<std::int64_t> at_peak(const PipelineResult& r, MemoryKind kind) {
  std::vector<std::int64_t> all;
  for (const StageUse& s : r.stages) all.push_back(s.at_peak[kind].count);
  return all;
}

using Numbers = std::vector<std::size_t>;
using Sizes = std::vector<std::int64_t>;
constexpr auto gpipe = PipelineScheme::gpipe;
constexpr auto pipedream = PipelineScheme::one_forward_one_backward;
constexpr auto two_buffered = PipelineScheme::two_buffered;
constexpr auto inference = PipelineScheme::inference;

}  // namespace

TEST_SUITE("pipelines") {
  TEST_CASE("gpipe: m + k - 1 slots of either pass, k - 1 of them bubble, all activations kept") {
    for (const auto& [k, m] :
         {std::pair(4, 8), std::pair(3, 1), std::pair(1, 5), std::pair(2, 6)}) {
      CAPTURE(k);
      CAPTURE(m);
      const PipelineResult r = Uniform(k, 0_B).run(gpipe, static_cast<std::size_t>(m));
      CHECK(r.makespan == (m + k - 1) * 30ns);
      CHECK(r.bubble == doctest::Approx((k - 1.0) / (m + k - 1.0)));
      CHECK(r.per_sample == r.makespan / m);
      const auto stages = static_cast<std::size_t>(k);
      CHECK(in_flight(r) == Numbers(stages, static_cast<std::size_t>(m)));
      CHECK(versions(r) == Numbers(stages, 1));
      CHECK(at_peak(r, MemoryKind::outputs) == Sizes(stages, 100 * m));
      CHECK(at_peak(r, MemoryKind::weights) == Sizes(stages, 10));
      CHECK(r.in_line);
    }
  }

  TEST_CASE("1f1b: as long as gpipe, but stage s keeps k - s activations and weights at most") {
    const PipelineResult r = Uniform(4, 0_B).run(pipedream, 8);
    CHECK(r.makespan == 330ns);  // (8 + 4 - 1) * 30
    CHECK(r.per_sample == 30ns);
    CHECK(r.max_load == 30ns);
    CHECK(r.difference == "as the objective says");
    CHECK(in_flight(r) == Numbers{4, 3, 2, 1});
    CHECK(versions(r) == Numbers{4, 3, 2, 1});
    CHECK(at_peak(r, MemoryKind::outputs) == Sizes{400, 300, 200, 100});
    CHECK(r.stages[0].spare_versions == 30_B);
    CHECK(r.stages[0].peak >= 440_B);  // 4 versions of 10, 4 activations of 100
    CHECK(in_flight(Uniform(4, 0_B).run(pipedream, 2)) == Numbers{2, 2, 2, 1});
  }

  TEST_CASE("2bw: the same order with two versions; recomputing, a forward pass more, no backlog") {
    const Uniform uniform(4, 0_B);
    const PipelineResult kept = uniform.run(two_buffered, 8);
    CHECK(kept.makespan == 330ns);
    CHECK(versions(kept) == Numbers(4, 2));
    CHECK(at_peak(kept, MemoryKind::outputs) == Sizes{400, 300, 200, 100});
    const PipelineResult again = uniform.run(two_buffered, 8, true);
    CHECK(again.per_sample == 40ns);  // 10 + 10 + 20
    CHECK(again.max_load == 30ns);
    CHECK(in_flight(again) == Numbers{4, 3, 2, 1});
    // As a forward op runs it writes 100 B, which nobody reads then; what is read is written again.
    CHECK(at_peak(again, MemoryKind::outputs) == Sizes(4, 100));
  }

  TEST_CASE("an inference pipeline takes its busiest device's time per sample") {
    // 2 ns to cross. A device that computes and moves at once: 10; else the inner one: 2 + 10 + 2.
    const Uniform uniform(3, 2_B, false);
    const PipelineResult overlapping = uniform.run(inference, 20);
    CHECK(overlapping.per_sample == 10ns);
    CHECK(overlapping.max_load == 14ns);
    CHECK(overlapping.difference == "-28.57 %: devices compute while they send and receive");
    const PipelineResult apart = uniform.run(inference, 20, false, {.overlap = false});
    CHECK(apart.per_sample == 14ns);
    CHECK(apart.difference == "as the objective says");
    // Transfers longer than ops: the channel of the inner device is the slowest, 2 x 15.
    CHECK(Uniform(3, 15_B, false).run(inference, 40).per_sample == 30ns);
  }

  TEST_CASE("stages of published pipelines take what the max_load objective says, or less") {
    const auto data = shared_data();
    if (!data) return;
    for (const char* name : {"bert24_inference", "resnet50_inference"}) {
      CAPTURE(name);
      const MsrProblem workload(*data / "msr-dnn-partitioning/throughput-inputs/LayerGraphs" /
                                (std::string(name) + ".json"));
      const Problem problem = workload.problem();
      const Placement split = make_placer("exact_dp", Options("exact_dp"))->place(problem, 0);
      const PipelineResult r =
          simulate_pipeline(problem, split, {.scheme = inference, .micro_batches = 60});
      CHECK(r.in_line);
      CHECK(r.per_sample <= r.max_load);
      CHECK(r.per_sample >= r.max_compute);
      CHECK(to_us(r.max_load) == split.facts.at("max_load_us"));
    }
  }

  TEST_CASE("a stage that is read from far behind runs ahead by three samples for each stage") {
    //   a(10) -> b(10) -> c(10) -> d(10), a -> d as well: all keep busy
    OpGraphBuilder g;
    std::vector<TensorId> out;
    for (int i = 0; i < 4; ++i) {
      const OpId v = g.add_op({.name = std::to_string(i), .compute = 10ns});
      if (i > 0) g.add_edge(out.back(), v);
      if (i == 3) g.add_edge(out.front(), v);
      out.push_back(g.add_tensor(v, 0_B));
    }
    const OpGraph graph = std::move(g).build();
    const Cluster cluster = gpus(4);
    const ProfiledCosts costs(graph, cluster);
    const PipelineResult r =
        simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu2, gpu3}),
                          {.scheme = inference, .micro_batches = 20});
    CHECK(r.makespan == 230ns);  // 20 + 4 - 1 slots
    CHECK(r.per_sample == 10ns);
  }

  TEST_CASE("a device that is slower than the others sets the pace") {
    //   a(10) -> b(30) -> c(10) on three devices
    OpGraphBuilder b;
    TensorId last{};
    for (const auto& [name, time] :
         {std::pair("a", 10ns), std::pair("b", 30ns), std::pair("c", 10ns)}) {
      const OpId v = b.add_op({.name = name, .compute = time});
      if (std::string(name) != "a") b.add_edge(last, v);
      last = b.add_tensor(v, 0_B);
    }
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = gpus(3);
    const ProfiledCosts costs(graph, cluster);
    const PipelineResult r = simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu2}),
                                               {.scheme = inference, .micro_batches = 10});
    CHECK(r.per_sample == 30ns);
    CHECK(r.makespan == 320ns);  // 10 + 10 x 30 + 10
    // The first runs ahead by three samples, not by all.
    CHECK(r.stages[0].busy == 100ns);
  }

  TEST_CASE("an update runs after every micro-batch of 1f1b, and once of the others") {
    OpGraphBuilder b;
    const OpId f = b.add_op({.name = "f", .compute = 10ns});
    const OpId g = b.add_op({.name = "g", .compute = 20ns, .phase = Phase::backward});
    const OpId u =
        b.add_op({.name = "u", .compute = 5ns, .persistent = 7_B, .phase = Phase::update});
    b.add_edge(b.add_tensor(f, 1_B), g);
    b.add_edge(b.add_tensor(g, 1_B), u);
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = gpus(1);
    const ProfiledCosts costs(graph, cluster);
    const auto run = [&](PipelineScheme scheme) {
      return simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu0, gpu0}),
                               {.scheme = scheme, .micro_batches = 4});
    };
    CHECK(run(pipedream).makespan == 140ns);     // 4 x 35
    CHECK(run(two_buffered).makespan == 125ns);  // 4 x 30 + 5
    CHECK(run(gpipe).makespan == 125ns);
    CHECK(run(inference).makespan == 40ns);
    CHECK(run(gpipe).stages[0].at_peak[MemoryKind::weights] == 7_B);
    CHECK(run(inference).stages[0].at_peak[MemoryKind::weights] == 0_B);
  }

  TEST_CASE("memory that does not hold what is in flight runs out") {
    const OpGraph graph = uniform_graph(4, 0_B, true);
    const Cluster cluster = gpus(4, 300_B);
    const ProfiledCosts costs(graph, cluster);
    Placement placement = Uniform(4, 0_B).placement;
    const auto run = [&](PipelineScheme scheme, bool recompute) {
      return simulate_pipeline({graph, cluster, costs}, placement,
                               {.scheme = scheme, .micro_batches = 8, .recompute = recompute});
    };
    CHECK(run(gpipe, false).oom.has_value());
    CHECK(run(pipedream, false).oom.has_value());
    CHECK(run(pipedream, false).difference == "memory ran out");
    CHECK_FALSE(run(two_buffered, true).oom.has_value());
    CHECK_FALSE(run(gpipe, true).oom.has_value());
  }

  TEST_CASE("stages are in the order of the forward pass, also where they feed each other") {
    const RandomProblem random({.ops = 30}, 4, 3);
    const Stages stages = stages_of(random.under({}), random.placement);
    CHECK_FALSE(stages.in_line);
    CHECK(stages.devices.size() == 4);
    const Uniform uniform(3, 0_B);
    Placement reversed = uniform.placement;
    for (DeviceId& d : reversed.device) d = static_cast<DeviceId>(2 - index(d));
    const Stages backwards = stages_of({uniform.graph, uniform.cluster, uniform.costs}, reversed);
    CHECK(backwards.in_line);
    CHECK(backwards.devices == std::vector<DeviceId>{gpu2, gpu1, gpu0});
  }

  TEST_CASE("any graph, placement and engine can be streamed, and every op runs") {
    const std::vector<EngineOptions> engines = all_engines();
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      CAPTURE(seed);
      const RandomProblem random({.ops = 25}, 3, seed);
      const Problem problem = random.under(engines[seed % engines.size()]);
      for (const PipelineScheme scheme : {inference, gpipe, pipedream, two_buffered}) {
        for (const bool recompute : {false, true}) {
          const PipelineOptions options{
              .scheme = scheme, .micro_batches = 5, .recompute = recompute};
          const Unrolled unrolled = unroll(problem, random.placement, options);
          const PipelineResult r =
              simulate_pipeline(problem, random.placement, options, unrolled, {});
          CHECK_FALSE(r.oom.has_value());
          std::size_t copies = 0;
          for (const OpId v : unrolled.graph.ops()) copies += unrolled.origin[v] != no_op ? 1U : 0U;
          const bool twice = recompute && scheme != inference;
          CHECK(copies == (twice ? 10 : 5) * problem.graph.num_ops());  // all are forward ops
          CHECK(r.makespan >= r.max_compute);
          CHECK(r.bubble >= 0.0);
        }
      }
    }
  }

  TEST_CASE("a forward pass that reads from the backward pass is no pipeline") {
    OpGraphBuilder b;
    const OpId g = b.add_op({.name = "g", .phase = Phase::backward});
    const OpId f = b.add_op({.name = "f"});
    b.add_edge(b.add_tensor(g, 1_B), f);
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = gpus(1);
    const ProfiledCosts costs(graph, cluster);
    CHECK_THROWS_AS(simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu0}), {}), InputError);
  }
}
