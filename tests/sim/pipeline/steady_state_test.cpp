#include "sim/pipeline/steady_state.h"

#include "sim/random.h"
#include "tests/prelude.h"
#include "tests/sim/pipeline/small_pipelines.h"

//   a(10 ms) --1 MB--> b(10 ms), three passes, stages on two GPUs; a hop takes 1 ms
TEST_SUITE_BEGIN("joined passes");
TEST_CASE("passes of a prompt run through stages one behind the other") {
  const auto pass = [] {
    OpGraphBuilder builder;
    const OpId a = builder.add_op(
        {.name = "a", .compute = 10ms, .persistent = Bytes{100}, .cache = Bytes{40}});
    const OpId b =
        builder.add_op({.name = "b", .compute = 10ms, .persistent = Bytes{50}, .cache = Bytes{50}});
    builder.add_edge(builder.add_tensor(a, Bytes{1'000'000}), b);
    return std::move(builder).build();
  };
  const std::vector<OpGraph> passes{pass(), pass(), pass()};
  const OpGraph graph = joined_passes(passes);
  REQUIRE(graph.num_ops() == 6);
  Bytes persistent, cache;
  Placement two{.device = IdVector<OpId, DeviceId>(6)}, one = two;
  for (const OpId v : graph.ops()) {
    persistent += graph.op(v).persistent;
    cache += graph.cache(v);
    two.device[v] = graph.name(graph.micro_batch(v).first) == "b" ? DeviceId{1} : DeviceId{0};
  }
  CHECK(persistent == Bytes{150});
  CHECK(cache == Bytes{90});
  const Cluster cluster = Cluster::uniform(2, Bytes{1 << 30}, {.bandwidth = {1e9}, .latency = {}});
  const ProfiledCosts costs(graph, cluster);
  const auto makespan = [&](const Placement& placement, bool overlap) {
    return simulate({graph, cluster, costs, {.overlap = overlap}}, placement).makespan;
  };
  CHECK(makespan(one, true) == 60ms);
  CHECK(makespan(two, true) == 41ms);  // 3 x 10, a hop, 10
  // A hop holds both ends: the first stage sends three times.
  CHECK(makespan(two, false) == 43ms);
  const OpGraph alone = joined_passes(passes, 1);
  const ProfiledCosts costs_alone(alone, cluster);
  const Duration serial = simulate({alone, cluster, costs_alone, {}}, two).makespan;
  CHECK(serial > 63ms);  // 3 x (10 + 1 + 10), and two control edges
  CHECK(serial < 64ms);
}

namespace {

/// How many micro-batches stood for `options`; the results are those of all of them.
std::size_t simulated_of(const Problem& problem, const Placement& placement,
                         const PipelineOptions& options) {
  std::optional<Unrolled> unrolled;
  const PipelineResult few = simulate_few(problem, placement, options, unrolled);
  const PipelineResult all = simulate_pipeline(problem, placement, options);
  CHECK(few.oom.has_value() == all.oom.has_value());
  CHECK(few.makespan == all.makespan);
  CHECK(few.per_micro_batch == all.per_micro_batch);
  CHECK(few.moved == all.moved);
  CHECK(few.bubble == all.bubble);
  CHECK(few.sending == all.sending);
  CHECK(few.launching == all.launching);
  CHECK(few.max_compute == all.max_compute);
  CHECK(few.difference == all.difference);
  REQUIRE(few.stages.size() == all.stages.size());
  for (std::size_t s = 0; s < all.stages.size(); ++s) {
    CHECK(few.stages[s].device == all.stages[s].device);
    CHECK(few.stages[s].busy == all.stages[s].busy);
    CHECK(few.stages[s].in_flight == all.stages[s].in_flight);
    CHECK(few.stages[s].peak == all.stages[s].peak);
    CHECK(few.stages[s].at_peak == all.stages[s].at_peak);
  }
  return unrolled->schedule.micro_batches;
}

Schedule flushed(std::size_t stages, std::size_t micro_batches) {
  return find_schedule("1f1b_flush")->make({.stages = stages, .micro_batches = micro_batches});
}

/// Stages of random times, bytes and links' use, `laps` chunks on each device.
struct RandomPipeline : OwnedProblem {
  RandomPipeline(std::size_t devices, std::size_t laps, std::uint64_t seed)
      : OwnedProblem(make_graph(devices * laps, seed), gpus(devices)) {
    for (const OpId v : graph.ops())
      placement.device.push_back(
          static_cast<DeviceId>(std::stoul(std::string(graph.name(v)).substr(1)) % devices));
  }
  Placement placement;

 private:
  static OpGraph make_graph(std::size_t chunks, std::uint64_t seed) {
    Random dice(seed);
    const auto bytes = [&](std::uint32_t below) { return Bytes{dice.below(below)}; };
    OpGraphBuilder b;
    std::vector<TensorId> sent, kept;
    const auto add = [&](char kind, std::size_t c, Phase phase) {
      return b.add_op({.name = fmt::format("{}{}", kind, c),
                       .compute = Duration{1 + dice.below(40)},
                       .persistent = bytes(50),
                       .temporary = bytes(50),
                       .phase = phase});
    };
    for (std::size_t c = 0; c < chunks; ++c) {
      const OpId f = add('f', c, Phase::forward);
      if (c > 0) b.add_edge(sent.back(), f);
      sent.push_back(b.add_tensor(f, bytes(60)));
      kept.push_back(b.add_tensor(f, bytes(60)));
    }
    std::optional<TensorId> gradient;
    for (std::size_t c = chunks; c-- > 0;) {
      const OpId v = add('b', c, Phase::backward), w = add('w', c, Phase::backward);
      const OpId u = add('u', c, Phase::update);
      b.add_edge(kept[c], v);
      b.add_edge(kept[c], w);
      for (const OpId reader : {v, w})
        if (gradient) b.add_edge(*gradient, reader);
      gradient = b.add_tensor(v, bytes(60));
      b.add_edge(b.add_tensor(w, bytes(60)), u);
    }
    return std::move(b).build();
  }
};

}  // namespace

TEST_SUITE_BEGIN("pipelines");
TEST_CASE("a thousand micro-batches take as long as ten, and 990 periods") {
  // Three stages, F = 10 and B = 20: (1000 + 2) x 30. Tried first: 3 stages + 5, and two more,
  // which leave out 165 x 6.
  const Uniform uniform(3, 0_B);
  const Problem problem{uniform.graph, uniform.cluster, uniform.costs};
  const PipelineOptions options{.schedule = "1f1b_flush", .micro_batches = 1000};
  std::optional<Unrolled> unrolled;
  const PipelineResult r = simulate_few(problem, uniform.placement, options, unrolled);
  CHECK(unrolled->schedule.micro_batches == 10);
  CHECK(r.makespan == 1002 * 30ns);
  CHECK(r.per_micro_batch == 1002 * 30ns / 1000);
  CHECK(r.bubble == doctest::Approx(2.0 / 1002.0));
  for (const StageUse& stage : r.stages) CHECK(stage.busy == 1000 * 30ns);
  CHECK(in_flight(r) == Numbers{3, 2, 1});
  CHECK(simulated_of(problem, uniform.placement, options) == 10);
}

TEST_CASE("moved bytes are counted for all micro-batches") {
  const Uniform uniform(3, 7_B);  // twice forward, twice backward
  const Problem problem{uniform.graph, uniform.cluster, uniform.costs};
  const PipelineOptions options{.schedule = "1f1b_flush", .micro_batches = 100};
  std::optional<Unrolled> unrolled;
  CHECK(simulate_few(problem, uniform.placement, options, unrolled).moved == 100 * 4 * 7_B);
  CHECK(unrolled->schedule.micro_batches < 100);
  CHECK(simulated_of(problem, uniform.placement, options) < 100);
}

TEST_CASE("a schedule of many repeats that of few only if its passes are periodic") {
  CHECK(repeats(flushed(4, 12), flushed(4, 100), 1));
  CHECK_FALSE(repeats(flushed(4, 3), flushed(4, 100), 1));  // never full
  const auto gpipe = [](std::size_t m) {
    return find_schedule("gpipe")->make({.stages = 2, .micro_batches = m});
  };
  CHECK_FALSE(repeats(gpipe(8), gpipe(9), 1));  // F 8 comes before all B
  const auto interleaved = [](std::size_t m) {
    return find_schedule("interleaved")->make({.stages = 2, .laps = 2, .micro_batches = m});
  };
  CHECK(repeats(interleaved(12), interleaved(40), 2));
  CHECK_FALSE(repeats(interleaved(13), interleaved(41), 2));  // groups of 5, and of 3
  Schedule other = flushed(4, 100);
  std::swap(other.passes[2][50], other.passes[2][51]);
  CHECK_FALSE(repeats(flushed(4, 12), other, 1));
}

TEST_CASE("without a period, all micro-batches are simulated") {
  const Uniform uniform(3, 0_B);
  const Problem problem{uniform.graph, uniform.cluster, uniform.costs};
  for (const char* schedule : {"gpipe", "1f1b", "2bw"})
    CHECK(simulated_of(problem, uniform.placement, {.schedule = schedule, .micro_batches = 40}) ==
          40);
}

TEST_CASE("memory that runs out while the stages fill runs out in the long run, too") {
  // Stage 0 keeps 100 B of each of three micro-batches, besides weights of 10: 250 B are too few.
  const Uniform uniform(3, 0_B);
  const Cluster small = gpus(3, 250_B);
  const ProfiledCosts costs(uniform.graph, small);
  const PipelineOptions options{.schedule = "1f1b_flush", .micro_batches = 1000};
  CHECK(simulated_of({uniform.graph, small, costs}, uniform.placement, options) == 10);
}

TEST_CASE("few micro-batches give the result of all of them") {
  std::size_t saved = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const std::size_t devices = 1 + seed % 5, laps = devices > 1 ? 1 + seed / 5 % 3 : 1;
    const RandomPipeline random(devices, laps, seed);
    for (const bool overlap : {true, false})
      for (const std::size_t m : {7U, 60U, 61U}) {
        CAPTURE(m);
        const PipelineOptions options{.schedule = laps > 1 ? "interleaved" : "1f1b_flush",
                                      .micro_batches = m};
        const EngineOptions engine{
            .transfers = seed % 2 == 0 ? Transfers::duplex : Transfers::sequential,
            .overlap = overlap};
        if (m < devices) continue;
        saved += m - simulated_of({random.graph, random.cluster, random.costs, engine},
                                  random.placement, options);
      }
  }
  CHECK(saved > 60 * 2 * 50);  // of 60 x 2 x 128
}
