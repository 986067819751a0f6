#include "sim/objective/objective.h"

#include "sim/engine/simulation.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/traces/msr_files.h"

namespace {

/// `accelerators` of `memory`, then `cores`; 1 B takes 1 ns.
Cluster host(std::size_t accelerators, std::size_t cores, Bytes memory = 1_GiB) {
  IdVector<DeviceId, Device> all;
  for (std::size_t i = 0; i < accelerators; ++i)
    all.push_back({.name = "acc", .kind = "acc", .memory = memory});
  for (std::size_t i = 0; i < cores; ++i) all.push_back({.name = "cpu", .kind = "cpu"});
  return Cluster::uniform(std::move(all), {.bandwidth = 1.0_GBps, .latency = 0ns});
}

Score score(const std::string& objective, const Problem& problem, const Placement& placement,
            std::map<std::string, Options::Value> options = {}) {
  return make_objective(objective, Options(objective, std::move(options)))
      ->score(problem, placement);
}

}  // namespace

TEST_SUITE_BEGIN("objectives");
TEST_CASE("max load: a tensor is paid for once where it is written and once where it is read") {
  //   a(10) --100--> b(20), c(30): one tensor
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of("a0,@acc10,@cpu100 -t100> b0,@acc20,@cpu200; a -t> c0,@acc30,@cpu300"), host(3, 1));
  const auto loads = [&](const Placement& p) {
    std::vector<Duration> totals;
    for (const DeviceLoad& load : device_loads(problem, p)) totals.push_back(load.total());
    return totals;
  };
  CHECK(loads(on({gpu0, gpu0, gpu0})) == std::vector<Duration>{60ns, 0ns, 0ns, 0ns});
  CHECK(loads(on({gpu0, gpu1, gpu2})) == std::vector<Duration>{110ns, 120ns, 130ns, 0ns});
  CHECK(loads(on({gpu0, gpu1, gpu1})) == std::vector<Duration>{110ns, 150ns, 0ns, 0ns});
  // A core pays nothing; the other end does.
  CHECK(loads(on({gpu0, gpu1, gpu3})) == std::vector<Duration>{110ns, 120ns, 0ns, 300ns});
  CHECK(loads(on({gpu3, gpu1, gpu1})) == std::vector<Duration>{0ns, 150ns, 0ns, 100ns});
  CHECK(score("max_load", problem, on({gpu0, gpu1, gpu1})).value == 150ns);
}

TEST_CASE("max load: ops of other lanes are not included, in a search as in a score") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a10; copy70,l:copy; c20"), gpus(2));
  const auto search = make_objective("max_load", Options("max_load"))->on({graph, cluster, costs});
  const Placement before = on({gpu0, gpu0, gpu0}), after = on({gpu0, gpu1, gpu1});
  CHECK(search->score(before).value == 30ns);
  CHECK(search->begin(before).value == 30ns);
  const std::vector<OpId> moved{OpId{1}, OpId{2}};
  CHECK(search->attempt(after, moved).value == 20ns);
}

TEST_CASE("max load of training: forward and backward together, or their separate maxima") {
  //   a(10) -> b(20);  b'(40) -> a'(5), 100 ns each
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of(
          "a0,@acc10,@cpu100 -100> b0,@acc20,@cpu200; b'0,b,@acc40,@cpu40 -7> a'0,b,@acc5,@cpu5"),
      host(2, 0));
  const Placement p = on({gpu0, gpu1, gpu1, gpu0});
  // gpu0: 10 + 100 and 5 + 7; gpu1: 20 + 100 and 40 + 7.
  CHECK(device_loads(problem, p)[gpu0].forward == 110ns);
  CHECK(device_loads(problem, p)[gpu1].backward == 47ns);
  CHECK(score("max_load", problem, p).value == 167ns);
  CHECK(score("max_load", problem, p, {{"phases", {"apart", "", {}}}}).value == 120ns + 47ns);
  const Placement q = on({gpu0, gpu0, gpu1, gpu1});
  // gpu0: 30 forward; gpu1: 45 backward.
  CHECK(score("max_load", problem, q).value == 45ns);
  CHECK(score("max_load", problem, q, {{"phases", {"apart", "", {}}}}).value == 75ns);
}

TEST_CASE("latency: a device's part starts with its last input and ends as a whole") {
  //   a(10) -> b(20) -> d(40);  a -> c(30)
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a0,@acc10,@cpu100 -t100> b0,@acc20,@cpu200; a -t> c0,@acc30,@cpu300; "
                            "b -100> d0,@acc40,@cpu400"),
                   host(2, 1));
  const DeviceId core = gpu2;
  CHECK(score("latency", problem, on({gpu0, gpu0, gpu0, gpu0})).value == 100ns);
  // Cores: the longest path, times ten; there are cores for all.
  CHECK(score("latency", problem, on({core, core, core, core})).value == 700ns);
  // {a, c} ends at 10 + 30 + 100 out; {b, d} takes 100 in and 20 + 40.
  CHECK(score("latency", problem, on({gpu0, gpu1, gpu0, gpu1})).value == 300ns);
  // {a, b} 30 + 100 (a's) + 100 (b's); c on a core 300; d on gpu1 100 + 40.
  CHECK(score("latency", problem, on({gpu0, gpu0, core, gpu1})).value == 530ns);
  // gpu0 in two parts, for the path a, b, d comes back: {a, c} 40 + 100; b 100 + 20 + 100; {d}
  // 100 + 40.
  CHECK(score("latency", problem, on({gpu0, gpu1, gpu0, gpu0})).value == 500ns);
}

TEST_CASE("latency: parts that wait for each other never end") {
  //   a -> b, c -> d: a and d on gpu0, c and b on gpu1. Each part needs the other's output.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of(
          "a0,@acc10,@cpu100 -100> b0,@acc10,@cpu100; c0,@acc10,@cpu100 -100> d0,@acc10,@cpu100"),
      host(2, 0));
  const Score s = score("latency", {graph, cluster, costs}, on({gpu0, gpu1, gpu1, gpu0}));
  CHECK(s.deadlock);
  CHECK_FALSE(s.feasible());
}

TEST_CASE("memory, device kinds and groups are part of every score") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a0,w10,c:x,@acc10,@cpu100; b0,w10,c:x,@acc10,@cpu100; c0,w10,@cpu100"),
                   host(2, 1, 15_B));
  const DeviceId core = gpu2;
  for (const char* objective : {"max_load", "latency"}) {
    CAPTURE(objective);
    CHECK(score(objective, problem, on({core, core, core})).feasible());
    CHECK(score(objective, problem, on({gpu0, gpu0, core})).over == 5_B);  // 20 of 15
    CHECK(score(objective, problem, on({gpu0, gpu1, core})).split_groups == 1);
    CHECK(score(objective, problem, on({core, core, gpu0})).misplaced == 1);
    CHECK(score(objective, problem, on({core, core, core})) <
          score(objective, problem, on({gpu0, gpu0, core})));
  }
  const Problem unlimited{graph, cluster, costs, {.enforce_memory = false}};
  CHECK(score("max_load", unlimited, on({gpu0, gpu0, core})).feasible());
}

TEST_CASE("keeps_constraints() agrees with the constraints of the whole placement") {
  std::array<int, 2> times{};
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    OpGraphBuilder b;
    for (std::uint32_t i = 0; i < 8; ++i) {
      b.add_op({.name = std::to_string(i), .compute = 1ns});
      if (i < 5) b.colocate(OpId{i}, i < 3 ? "first" : "second");
    }
    const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(b).build(), gpus(2));
    Placement next{.device = IdVector<OpId, DeviceId>(8)};  // all on one device: nothing broken
    std::vector<OpMove> moved;
    for (const OpId v : graph.ops()) {
      if (random.below(2) == 0) continue;
      next.device[v] = DeviceId{random.below(2)};
      moved.push_back({v, next.device[v]});
    }
    const bool kept = constraints(problem, next).split_groups == 0;
    CHECK(keeps_constraints(problem, next, moved) == kept);
    ++times[kept ? 1 : 0];
  }
  CHECK(std::ranges::min(times) > 10);
}

TEST_CASE("the step time and its memory are the engine's") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const RandomProblem random({.ops = 20}, 3, seed);
    const Problem problem = random.under({});
    const Score s = score("step_time", problem, random.placement);
    CHECK(s.feasible());
    CHECK(s.value == simulate(problem, random.placement).makespan);
  }
}

TEST_CASE("an unknown objective or option is rejected with the nearest name") {
  CHECK_REFUSED(make_objective("max_laod", Options("max_laod"), "--objective"),
                "--objective: no objective 'max_laod' (did you mean 'max_load'?) (objectives: "
                "step_time, max_load, latency)");
  CHECK_THROWS_AS(make_objective("latency", Options("latency", {{"x", {"1", "", {}}}})),
                  InputError);
}

TEST_CASE("the authors' expert splits have the values of their program") {
  const std::filesystem::path data = testing::published_data();
  const auto root = data / "msr-dnn-partitioning";
  const struct {
    const char *workload, *expert;
    double milliseconds;
  } throughput[] = {{"bert24_inference", "bert24_inference", 20.08},
                    {"bert24_training", "bert24_training", 49.40},
                    {"gnmt_inference", "gnmt_inference", 46.21},
                    {"gnmt_training", "gnmt_training", 137.15},
                    {"inceptionv3_inference", "inceptionv3_inference", 102.48},
                    {"inceptionv3_training", "inceptionv3_inference", 213.65},
                    {"resnet50_inference", "resnet50_inference", 43.92},
                    {"resnet50_training", "resnet50_inference", 112.11}};
  const auto in_ms = [](Duration t) { return to_us(t) / 1e3; };
  for (const auto& [workload, expert, expected] : throughput) {
    CAPTURE(workload);
    const auto file =
        root / "throughput-inputs/LayerGraphs" / (std::string(workload) + ".json.zst");
    const MsrProblem msr(file);
    const Placement p =
        msr.split(file, root / "human-experts" / (std::string(expert) + "_expert.json.zst"));
    const Score s = score("max_load", msr.problem(), p);
    CHECK(in_ms(s.value) == doctest::Approx(expected).epsilon(2e-4));
    CHECK(s.feasible());
  }
  const struct {
    const char* workload;
    double milliseconds;
    bool fits;
  } latency[] = {{"bert24", 111.94, true},
                 {"gnmt", 293.40, false},
                 {"inceptionv3", 865.52, false},
                 {"resnet50", 1014.93, false}};
  for (const auto& [workload, expected, fits] : latency) {
    CAPTURE(workload);
    const std::string name = std::string(workload) + "_inference";
    const auto file = root / "latency-inputs/LayerGraphs" / (name + ".json.zst");
    // The expert of bert24 uses 6 accelerators where the file has 5.
    const MsrProblem msr(file, name == "bert24_inference" ? 6 : MsrProblem(file).accelerators(), 8);
    const Score s = score("latency", msr.problem(),
                          msr.split(file, root / "human-experts" / (name + "_expert.json.zst")));
    CHECK(in_ms(s.value) == doctest::Approx(expected).epsilon(1e-4));
    CHECK(s.feasible() == fits);
  }
}
