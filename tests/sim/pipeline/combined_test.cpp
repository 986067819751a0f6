#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/sim/pipeline/small_pipelines.h"
#include "tests/sim/transform/transforms.h"

using namespace baechi::pipeline;

namespace {

/// `chunks` chunks, F 10 ns and B 20 ns, each with a gradient of `gradient` bytes that an update of
/// 5 ns reads; nothing is sent from chunk to chunk.
OpGraph with_updates(std::size_t chunks, Bytes gradient) {
  OpGraphBuilder b;
  std::vector<TensorId> forward, gradients;
  const auto name = [](char kind, std::size_t c) { return kind + std::to_string(c); };
  for (std::size_t c = 0; c < chunks; ++c) {
    const OpId f = b.add_op({.name = name('f', c), .compute = 10ns, .persistent = 8_B});
    if (c > 0) b.add_edge(forward.back(), f);
    forward.push_back(b.add_tensor(f, 0_B));
  }
  std::optional<TensorId> behind;
  for (std::size_t c = chunks; c-- > 0;) {
    const OpId v = b.add_op({.name = name('b', c), .compute = 20ns, .phase = Phase::backward});
    b.add_edge(forward[c], v);
    if (behind) b.add_edge(*behind, v);
    behind = b.add_tensor(v, 0_B);
    b.add_edge(b.add_tensor(v, gradient),
               b.add_op({.name = name('u', c), .compute = 5ns, .phase = Phase::update}));
  }
  return std::move(b).build();
}

/// Runs the graph by `schedule`; the chunks are on the devices round and round.
PipelineResult piped(const OpGraph& graph, std::size_t devices, const char* schedule,
                     std::size_t micro_batches, const std::string& name = "",
                     const Values& values = {}, EngineOptions engine = {}) {
  PlacedStep step{graph, {}};
  for (const OpId v : graph.ops())
    step.device.push_back(
        static_cast<DeviceId>(std::stoul(std::string(graph.name(v)).substr(1)) % devices));
  if (!name.empty()) step = transform(name, values)->after_placing(step.graph, step.device);
  const Cluster cluster = gpus(devices);
  const ProfiledCosts costs(step.graph, cluster);
  return simulate_pipeline({step.graph, cluster, costs, engine}, {.device = step.device},
                           {.schedule = schedule, .micro_batches = micro_batches});
}

const Values of_two_replicas{{"replicas", "2"}, {"bucket", "1 B"}, {"first_bucket", "1 B"}};

}  // namespace

TEST_SUITE_BEGIN("pipelines");
TEST_CASE("interleaved with data_parallel: buckets overlap with the remaining passes") {
  // Two devices with chunks 0, 2 and 1, 3. Passes: 2 x 60 and (p - 1) x 60 / 2 of bubble: 150. 40
  // B over 2 replicas take 40 ns: chunk 2's from the end of its last B, which is 40 ns before the
  // end (two B of chunk 0), chunk 0's from 150 to 190; then both updates.
  const OpGraph graph = with_updates(4, 40_B);
  CHECK(piped(graph, 2, "interleaved", 2).makespan == 160ns);
  CHECK(piped(graph, 2, "interleaved", 2, "data_parallel", of_two_replicas).makespan == 200ns);
  // One bucket of 80 B from 150 to 230.
  CHECK(piped(graph, 2, "interleaved", 2, "data_parallel", {{"replicas", "2"}}).makespan == 240ns);
}

TEST_CASE("gpipe with data_parallel: gradient reduction waits for the last micro-batch") {
  // One device, two micro-batches, 2 x 30: B of 1, then of 0 until 60. 40 ns, update.
  CHECK(piped(with_updates(1, 40_B), 1, "gpipe", 2, "data_parallel", of_two_replicas).makespan ==
        105ns);
}

TEST_CASE("the host launches ahead of the device: only the first launch is exposed") {
  // 1f1b_flush: (4 + 2 - 1) x 30 and an update of 5. Launches of 1 ns: 1 more.
  const OpGraph graph = with_updates(2, 0_B);
  CHECK(piped(graph, 2, "1f1b_flush", 4).makespan == 155ns);
  CHECK(piped(graph, 2, "1f1b_flush", 4, "host", {{"launch", "1 ns"}}).makespan == 156ns);
  for (const char* schedule : {"interleaved", "gpipe"}) {
    const OpGraph four = with_updates(4, 0_B);
    const Duration alone = piped(four, 2, schedule, 4).makespan;
    CHECK(piped(four, 2, schedule, 4, "host", {{"launch", "1 ns"}}).makespan == alone + 1ns);
  }
  // 50 ns are longer than any op. A device launches 2 x 4 + 1 ops, one after the other: 450, and
  // runs the last for 5.
  CHECK(piped(graph, 2, "1f1b_flush", 4, "host", {{"launch", "50 ns"}}).makespan == 455ns);
}

TEST_CASE("ops of a pass run in the order of the engine's queue") {
  // a(10) -> b(10) -> d(50), and c(100), which is ready with a. d is on the other device. In the
  // order of ids b goes before c: 10 + 10 + 100. As they become ready c does: 10 + 100 + 10 + 50.
  OpGraphBuilder g;
  std::vector<OpId> ops;
  for (const auto& [name, time] :
       {std::pair("a", 10ns), std::pair("b", 10ns), std::pair("c", 100ns), std::pair("d", 50ns)})
    ops.push_back(g.add_op({.name = name, .compute = time}));
  g.add_edge(g.add_tensor(ops[0], 0_B), ops[1]);
  g.add_edge(g.add_tensor(ops[1], 0_B), ops[3]);
  const OpGraph graph = std::move(g).build();
  const Cluster cluster = gpus(2);
  const ProfiledCosts costs(graph, cluster);
  Placement placement = on({gpu0, gpu0, gpu0, gpu1});
  const auto time = [&](ReadyOrder queue) {
    const Problem problem{graph, cluster, costs, {.queue = queue}};
    const Duration piped =
        simulate_pipeline(problem, placement, {.schedule = "inference", .micro_batches = 1})
            .makespan;
    CHECK(piped == simulate(problem, placement).makespan);
    return piped;
  };
  CHECK(time(ReadyOrder::fifo) == 170ns);
  CHECK(time(ReadyOrder::program) == 120ns);
  for (int i = 4; i > 0; --i) placement.priority.push_back(i);
  CHECK(time(ReadyOrder::priority) == 120ns);
}

TEST_CASE("dualpipe: the two devices of a chunk reduce its gradients before the update") {
  // Two devices; each runs both chunks for half of four micro-batches, 4 x 30, and waits for one
  // F at the beginning. The gradients of the two chunks are reduced over two devices.
  const Duration alone = piped(with_updates(2, 0_B), 2, "dualpipe", 4).makespan;
  const PipelineResult summed = piped(with_updates(2, 400_B), 2, "dualpipe", 4);
  CHECK(summed.sending > 0.0);
  // 400 B over two devices take 400 ns. The last chunk's B ends both devices' passes; its sum
  // begins there or when the other chunk's has ended, and one update or both follow.
  CHECK(summed.makespan >= alone - 10ns + 400ns);
  CHECK(summed.makespan <= alone + 800ns);
}

TEST_CASE("the difference to max_load is explained: collectives, launches, or the bubble") {
  // 30 passes' ns of 1f1b_flush, 2 devices x 155 ns. 4000 B over two replicas: 4000 ns.
  const OpGraph graph = with_updates(2, 4000_B);
  const PipelineResult sums = piped(graph, 2, "1f1b_flush", 4, "data_parallel", of_two_replicas);
  CHECK(sums.makespan == 4155ns);
  // In 2 x 4155 ns each device computes 125. Sums: device 0 from 150 to 4150, device 1 from 130
  // to 4130. The rest is bubble: 30 ns at device 0, and 10 + 20 at device 1.
  CHECK(sums.sending == doctest::Approx(8000.0 / 8310.0));
  CHECK(sums.bubble == doctest::Approx(60.0 / 8310.0));
  CHECK(holds(sums.difference,
              "stages compute nothing for 97.0 % of the time: collectives 96.3, "
              "launches 0.0, bubble 0.7"));
  const PipelineResult launched =
      piped(with_updates(2, 0_B), 2, "1f1b_flush", 4, "host", {{"launch", "50 ns"}});
  CHECK(launched.launching > launched.bubble);
  CHECK(launched.sending == 0.0);
  const PipelineResult filling = piped(with_updates(2, 0_B), 2, "1f1b_flush", 4);
  CHECK(filling.bubble == doctest::Approx(60.0 / 310.0));
  CHECK(holds(filling.difference, "as the pipeline fills and drains"));
}

TEST_CASE("transforms without pipeline support are rejected before placing") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(with_updates(2, 8_B), gpus(2));
  const auto refused = [&](const char* schedule, const char* name, const Values& values,
                           EngineOptions engine = {}) {
    const std::shared_ptr<const Transform> made = transform(name, values);
    const std::vector<std::shared_ptr<const Transform>> all{made};
    return message<InputError>(
        [&] { check_pipeline({graph, cluster, costs, engine}, {.schedule = schedule}, all); });
  };
  CHECK(refused("gpipe", "host", {{"threads", "one"}}) ==
        "no pipeline by gpipe: host: each stage needs a thread: threads: device");
  CHECK(refused("gpipe", "host", {{"graphs", "true"}}).starts_with("no pipeline by gpipe: host:"));
  CHECK(refused("gpipe", "host", {{"step", "1 us"}}).starts_with("no pipeline by gpipe: host:"));
  CHECK(refused("zb_v", "host", {{"per", "pass"}}).starts_with("no pipeline by zb_v: host:"));
  CHECK(refused("gpipe", "host", {{"per", "pass"}}) == "no error");
  CHECK(refused("dualpipe", "data_parallel", {}).starts_with("no pipeline by dualpipe:"));
  CHECK(refused("zb_v", "data_parallel", {}) == "no error");
  CHECK(refused("gpipe", "host", {}, {.semantics = Semantics::baechi}) ==
        "a pipeline needs the engine's own semantics, event");
}

TEST_CASE("micro-batches whose times do not fit into 64 bits are rejected, as a step's are") {
  // 100 B at 1 B in 1e6 s: 1e17 ns a tensor. One micro-batch fits below 2^62 ns, 64 do not.
  const Uniform uniform(2, 100_B);
  const Cluster slow = Cluster::uniform(2, 1_GiB, {.bandwidth = Bandwidth{1e-6}, .latency = 0ns});
  const Problem& problem = OwnedProblem(uniform.graph, slow).problem;
  CHECK_NOTHROW(check_pipeline(problem, {.micro_batches = 1}));
  CHECK(message<InputError>([&] {
          simulate_pipeline(problem, uniform.placement, {.micro_batches = 64});
        }).starts_with("a step of 64 micro-batches could take more than 146 years: link"));
}

TEST_SUITE_BEGIN("pipelines");
// f holds 4 B, u 16 B. b writes a gradient of 8 B, which u reads: 28 B with one micro-batch. With
// more, the later ones compute theirs in workspace, in addition to the accumulator: 36 B. 1f1b
// updates after each micro-batch, and does not accumulate.
TEST_CASE("a stage holds the accumulated gradient tensors, and the one that it computes") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("f10,w4 -0> b20,b:f -8> u5,w16,u"), gpus(1));
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
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(uniform_graph(4, 0_B, true), gpus(4, 300_B));
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

TEST_CASE("versions are kept of weights, not of gradients and optimizer state") {
  //   f(40 B of weights) -> g -> h(backward, 40 B of gradients) -> u(update, 80 B of its own)
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("f10,w40 -0> g10 -0> h20,w40,b -0> u5,w80,u"), gpus(2));
  const PipelineResult r = simulate_pipeline({graph, cluster, costs}, on({gpu0, gpu1, gpu0, gpu0}),
                                             {.schedule = "2bw", .micro_batches = 4});
  CHECK(r.stages[0].spare_versions == 40_B);  // 2 versions of 40 B; without this rule 160 B
  CHECK(r.stages[0].at_peak[MemoryKind::weights] == 160_B);
  CHECK_FALSE(r.one_kind);
  CHECK(Uniform(4, 0_B).run("1f1b", 8).one_kind);
  CHECK_FALSE(Uniform(4, 0_B).run("gpipe", 8).one_kind);
}
