#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/sim/pipeline/small_pipelines.h"
#include "tests/traces/msr_files.h"

using namespace baechi::pipeline;

namespace {

/// All but memory is as the op has it.
void check_copy(const Unrolled& unrolled, OpId v, const OpGraph& graph) {
  const OpGraph& made = unrolled.graph;
  const OpId of = unrolled.origin[v];
  CHECK(made.op(v).compute == graph.op(of).compute);
  CHECK(made.op(v).phase == graph.op(of).phase);
  CHECK(made.kind(v) == graph.kind(of));
  CHECK(made.module(v) == graph.module(of));
  CHECK(made.lanes()[index(made.lane(v))] == graph.lanes()[index(graph.lane(of))]);
  CHECK(made.name(v).starts_with(std::string(graph.name(of)) + "#" +
                                 std::to_string(unrolled.micro_batch[v])));
}

/// A collective takes 1 ns a byte and 7 ns.
class CountedCollectives final : public CostModel {
 public:
  Duration compute(OpId, DeviceId) const override { return 10ns; }
  Duration transfer(TensorId, DeviceId, DeviceId) const override { return {}; }
  Duration latency(TensorId, DeviceId, DeviceId) const override { return {}; }
  Duration collective(const Collective& c, std::span<const DeviceId>) const override {
    ++asked;
    return Duration{c.bytes.count + 7};
  }
  mutable int asked = 0;
};

}  // namespace

TEST_SUITE_BEGIN("pipelines");
TEST_CASE("gpipe: m + k - 1 slots of either pass, k - 1 of them bubble, all activations kept") {
  for (const auto& [k, m] : {std::pair(4, 8), std::pair(3, 1), std::pair(1, 5), std::pair(2, 6)}) {
    INFO(k, " ", m);
    const PipelineResult r = Uniform(k, 0_B).run("gpipe", static_cast<std::size_t>(m));
    CHECK(r.makespan == (m + k - 1) * 30ns);
    CHECK(r.bubble == doctest::Approx((k - 1.0) / (m + k - 1.0)));
    CHECK(r.per_micro_batch == r.makespan / m);
    const auto stages = static_cast<std::size_t>(k);
    CHECK(in_flight(r) == Numbers(stages, static_cast<std::size_t>(m)));
    CHECK(versions(r) == Numbers(stages, 1));
    CHECK(at_peak(r, MemoryKind::outputs) == Sizes(stages, 100 * m));
    CHECK(at_peak(r, MemoryKind::weights) == Sizes(stages, 10));
    CHECK(r.in_line);
  }
}

TEST_CASE("1f1b: as long as gpipe, but stage s keeps k - s activations and weights at most") {
  const PipelineResult r = Uniform(4, 0_B).run("1f1b", 8);
  CHECK(r.makespan == 330ns);  // (8 + 4 - 1) * 30
  CHECK(r.per_micro_batch == 30ns);
  CHECK(r.max_load == 30ns);
  CHECK(r.difference == "as the objective says");
  CHECK(in_flight(r) == Numbers{4, 3, 2, 1});
  CHECK(versions(r) == Numbers{4, 3, 2, 1});
  CHECK(at_peak(r, MemoryKind::outputs) == Sizes{400, 300, 200, 100});
  CHECK(r.stages[0].spare_versions == 30_B);
  CHECK(r.stages[0].peak >= 440_B);  // 4 versions of 10, 4 activations of 100
  CHECK(in_flight(Uniform(4, 0_B).run("1f1b", 2)) == Numbers{2, 2, 2, 1});
}

TEST_CASE("2bw: the same order with two versions; recomputing, a forward pass more, no backlog") {
  const Uniform uniform(4, 0_B);
  const PipelineResult kept = uniform.run("2bw", 8);
  CHECK(kept.makespan == 330ns);
  CHECK(versions(kept) == Numbers(4, 2));
  CHECK(at_peak(kept, MemoryKind::outputs) == Sizes{400, 300, 200, 100});
  const PipelineResult again = uniform.run("2bw", 8, true);
  CHECK(again.per_micro_batch == 40ns);  // 10 + 10 + 20
  CHECK(again.max_load == 30ns);
  CHECK(in_flight(again) == Numbers{4, 3, 2, 1});
  // A forward op writes 100 B without a reader; the recomputed op writes them again.
  CHECK(at_peak(again, MemoryKind::outputs) == Sizes(4, 100));
}

TEST_CASE("an inference pipeline takes its busiest device's time per sample") {
  // 2 ns to cross. A device that computes and moves at once: 10; else the inner one: 2 + 10 + 2.
  const Uniform uniform(3, 2_B, false);
  const PipelineResult overlapping = uniform.run("inference", 20);
  CHECK(overlapping.per_micro_batch == 10ns);
  CHECK(overlapping.max_load == 14ns);
  CHECK(overlapping.difference == "-28.57 %: devices compute while they send and receive");
  const PipelineResult apart = uniform.run("inference", 20, false, {.overlap = false});
  CHECK(apart.per_micro_batch == 14ns);
  CHECK(apart.difference == "as the objective says");
  // Transfers longer than ops: the channel of the inner device is the slowest, 2 x 15.
  CHECK(Uniform(3, 15_B, false).run("inference", 40).per_micro_batch == 30ns);
}

TEST_CASE("stages of published pipelines take what the max_load objective says, or less") {
  const std::filesystem::path data = testing::published_data();
  for (const char* name : {"bert24_inference", "resnet50_inference"}) {
    CAPTURE(name);
    const MsrProblem workload(data / "msr-dnn-partitioning/throughput-inputs/LayerGraphs" /
                              (std::string(name) + ".json.zst"));
    const Problem problem = workload.problem();
    const Placement split = make_placer("exact_dp", Options("exact_dp"))->place(problem, 0);
    const PipelineResult r =
        simulate_pipeline(problem, split, {.schedule = "inference", .micro_batches = 60});
    CHECK(r.in_line);
    CHECK(r.per_micro_batch <= r.max_load);
    CHECK(r.per_micro_batch >= r.max_compute);
    CHECK(to_us(r.max_load) == split.facts.at("max_load_us"));
  }
}

TEST_CASE("a stage leads a distant reader by three samples for each stage between them") {
  //   a(10) -> b(10) -> c(10) -> d(10), a -> d as well: all keep busy
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10 -t0> b10 -0> c10 -0> d10; a -t> d"), gpus(4));
  const PipelineResult r = simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu2, gpu3}),
                                             {.schedule = "inference", .micro_batches = 20});
  CHECK(r.makespan == 230ns);  // 20 + 4 - 1 slots
  CHECK(r.per_micro_batch == 10ns);
}

TEST_CASE("a device that is slower than the others sets the pace") {
  //   a(10) -> b(30) -> c(10) on three devices
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10 -0> b30 -0> c10"), gpus(3));
  const PipelineResult r = simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu2}),
                                             {.schedule = "inference", .micro_batches = 10});
  CHECK(r.per_micro_batch == 30ns);
  CHECK(r.makespan == 320ns);  // 10 + 10 x 30 + 10
  // The first runs ahead by three samples, not by all.
  CHECK(r.stages[0].busy == 100ns);
}

TEST_CASE("an update runs after every micro-batch of 1f1b, and once of the others") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("f10 -1> g20,b -1> u5,w7,u"), gpus(1));
  const auto run = [&](const char* schedule) {
    return simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu0, gpu0}),
                             {.schedule = schedule, .micro_batches = 4});
  };
  CHECK(run("1f1b").makespan == 140ns);  // 4 x 35
  CHECK(run("2bw").makespan == 125ns);   // 4 x 30 + 5
  CHECK(run("gpipe").makespan == 125ns);
  CHECK(run("inference").makespan == 40ns);
  // 125 / 4 = 31: for 2bw, too, whose device has no more time than that for each micro-batch.
  CHECK(run("gpipe").per_micro_batch == 31ns);
  CHECK(run("2bw").per_micro_batch == 31ns);
  CHECK(run("1f1b").per_micro_batch == 35ns);
  CHECK(run("gpipe").max_load == 35ns);
  CHECK(run("gpipe").difference == "-11.43 %: updates run once for all micro-batches");
  CHECK(run("2bw").difference == "-11.43 %: updates run once for all micro-batches");
  CHECK(run("1f1b").difference == "as the objective says");
  CHECK(run("gpipe").stages[0].at_peak[MemoryKind::weights] == 7_B);
  CHECK(run("inference").stages[0].at_peak[MemoryKind::weights] == 0_B);
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
  CHECK(backwards.count == 3);
  CHECK(backwards.devices == std::vector<DeviceId>{gpu2, gpu1, gpu0});
}

TEST_CASE("copies have names that no other op has, whatever ops are called") {
  // Stage 0 runs F0 F1 B0 F2 ...; it has no backward op, so B0 only keeps the order.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("order=10 -1> order#1=10 -1> order#1#2=10,b"), gpus(2));
  for (const bool recompute : {false, true}) {
    const Unrolled unrolled =
        unroll({graph, cluster, costs}, on({gpu0, gpu1, gpu1}),
               {.schedule = "1f1b_flush", .micro_batches = 4, .recompute = recompute});
    std::set<std::string_view> names;
    for (const OpId v : unrolled.graph.ops()) names.insert(unrolled.graph.name(v));
    CHECK(names.size() == unrolled.graph.num_ops());
  }
}

TEST_CASE("devices with equal op times have equal times of copies") {
  const Uniform uniform(3, 0_B);
  const Placement& placement = uniform.placement;
  IdVector<DeviceId, Device> devices;
  for (const double speed : {1.0, 1.0, 2.0})
    devices.push_back({.name = "gpu" + std::to_string(devices.size()),
                       .kind = {},
                       .memory = 1_GiB,
                       .speed = speed});
  const Cluster cluster = Cluster::uniform(devices, {.bandwidth = 1.0_GBps, .latency = 0ns});
  const ProfiledCosts costs(uniform.graph, cluster);
  const Unrolled unrolled = unroll({uniform.graph, cluster, costs}, placement, {});
  const UnrolledCosts copied(costs, unrolled);
  CHECK(copied.same_compute(gpu0, gpu1));
  CHECK_FALSE(copied.same_compute(gpu1, gpu2));
  for (const OpId v : unrolled.graph.ops())
    CHECK(copied.compute(v, gpu0) == copied.compute(v, gpu1));
}

TEST_CASE("copies of a collective take the same time, which is computed once") {
  // a -> gather -> b, three micro-batches: three copies of the collective.
  const OpGraph graph = graph_of("a10 -1> gather0,x:all_gather/100/2 -1> b10");
  const Cluster cluster = gpus(2);
  const CountedCollectives costs;
  const Unrolled unrolled = unroll({graph, cluster, costs}, on({gpu0, gpu0, gpu0}),
                                   {.schedule = "inference", .micro_batches = 3});
  REQUIRE(unrolled.graph.collectives().size() == 3);
  const UnrolledCosts copied(costs, unrolled);
  costs.asked = 0;
  for (const Collective& c : unrolled.graph.collectives())
    CHECK(copied.collective(c, std::array{gpu0}) == 107ns);  // 100 B + 7
  CHECK(costs.asked == 1);
  for (const Collective& c : unrolled.graph.collectives())
    CHECK(copied.collective(c, std::array{gpu1}) == 107ns);
  CHECK(costs.asked == 2);  // on another device it might take longer
}

TEST_CASE("any training graph, placement and engine can be pipelined, and every op runs") {
  const std::vector<EngineOptions> engines = all_engines();
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 15}, 3, seed);
    const OpGraph graph = trained(random.under({}).graph);
    const Cluster cluster = gpus(3);
    const Problem& problem = OwnedProblem(graph, cluster, engines[seed % engines.size()]).problem;
    Placement placement = random.placement;
    Random dice(seed);
    // The backward op of the last op comes first. Every other seed: anywhere.
    for (std::size_t i = random.placement.device.size(); i-- > 0;) {
      const auto forward = static_cast<OpId>(i);
      placement.device.push_back(seed % 2 == 0 ? placement.device[forward]
                                               : DeviceId{dice.below(3)});
      if (!placement.priority.empty()) placement.priority.push_back(placement.priority[forward]);
    }
    for (const ScheduleEntry& entry : schedules()) {
      if (entry.layout != Layout::line) continue;
      CAPTURE(entry.name);
      for (const bool recompute : {false, true}) {
        const PipelineOptions options{
            .schedule = std::string(entry.name), .micro_batches = 5, .recompute = recompute};
        const Unrolled unrolled = unroll(problem, placement, options);
        const PipelineResult r = simulate_pipeline(problem, placement, options, unrolled, {});
        CHECK_FALSE(r.oom.has_value());
        std::size_t copies = 0;
        for (const OpId v : unrolled.graph.ops()) {
          if (unrolled.origin[v] == no_op) continue;
          ++copies;
          check_copy(unrolled, v, graph);
        }
        const std::size_t half = 5 * graph.num_ops() / 2;
        CHECK(copies == (!entry.training ? half : recompute ? 3 * half : 2 * half));
        CHECK(r.makespan >= r.max_compute);
        CHECK(r.bubble >= 0.0);
      }
    }
  }
}

TEST_CASE("1f1b alternates strictly: a ready pass waits its turn") {
  //   stage 0: f 11, b 22; stage 1: f 7, b 14. Stage 0 is always busy: 33 a sample.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("f0=11 -0> f1=7 -0> b1=14,b -0> b0=22,b; f0 -0> b0"), gpus(2));
  for (const char* name : {"1f1b", "2bw"}) {
    const PipelineResult r =
        simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu1, gpu0}),
                          {.schedule = name, .micro_batches = 40});
    CHECK(r.per_micro_batch == 33ns);
    CHECK(r.difference == "as the objective says");
  }
}

TEST_CASE("a device without backward ops follows the schedule, too") {
  //   f0(10) -> f1(10) -> f2(10) -> b2(20) -> b1(20): the first device trains nothing
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of("f0=10 -0> f1=10 -t0> f2=10 -0> b2=20,b; f1 -t> b1=20,b; b2 -0> b1"), gpus(3));
  const PipelineResult r =
      simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu2, gpu2, gpu1}),
                        {.schedule = "1f1b", .micro_batches = 8});
  CHECK(in_flight(r) == Numbers{3, 2, 1});
  CHECK(versions(r) == Numbers{3, 2, 1});
  CHECK(r.per_micro_batch == 30ns);
}

TEST_CASE("a graph that is not training has no training schedule") {
  const Uniform forward(3, 0_B, false);
  CHECK_REFUSED(forward.run("1f1b", 4),
                "1f1b is a schedule of training, and this graph is not training: it has no "
                "backward op (the schedule 'inference' streams forward passes)");
  const auto& [graph, cluster, costs, problem] = OwnedProblem(graph_of("f0; g0,b"), gpus(1));
  CHECK_REFUSED(simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu0}), {.schedule = "gpipe"}),
                "gpipe is a schedule of training, and this graph is not training: no backward op "
                "reads what a forward op writes (the importer dnn_partitioning joins the two "
                "passes with backward: mirrored)");
}

TEST_CASE("pipelines of the published training layers keep p - s micro-batches in flight") {
  const std::filesystem::path data = testing::published_data();
  const auto file =
      data / "msr-dnn-partitioning/throughput-inputs/LayerGraphs/bert24_training.json.zst";
  const MsrProblem as_given(file), mirrored(file, "mirrored");
  const Problem problem = mirrored.problem();
  const Placement split = make_placer("exact_dp", Options("exact_dp"))->place(problem, 0);
  CHECK(in_flight(simulate_pipeline(problem, split, {.schedule = "1f1b", .micro_batches = 20})) ==
        Numbers{6, 5, 4, 3, 2, 1});
  CHECK_THROWS_AS(simulate_pipeline(as_given.problem(), split, {.schedule = "1f1b"}), InputError);
}

TEST_CASE("a forward pass that reads from the backward pass is no pipeline") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(graph_of("g0,b -1> f0"), gpus(1));
  CHECK_THROWS_AS(simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu0}), {}), InputError);
}
