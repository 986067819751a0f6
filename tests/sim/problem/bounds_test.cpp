#include "placers/bounds/solver_bounds.h"
#include "placers/exact/pipelines.h"
#include "sim/engine/simulation.h"
#include "sim/graph/analysis.h"
#include "tests/placers/exact/brute_force.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

using namespace baechi::exact;
using namespace baechi::bounds;

namespace {

LowerBounds quick_bounds(const OpGraph& graph, const Cluster& cluster) {
  const ProfiledCosts costs(graph, cluster);
  return lower_bounds(graph, cluster, costs);
}

/// `count` ops of 10 ns that do not depend on each other.
OpGraphBuilder independent(int count) {
  OpGraphBuilder g;
  for (int i = 0; i < count; ++i) g.add_op({.name = std::to_string(i), .compute = 10ns});
  return g;
}

Cluster of_speeds(std::initializer_list<double> speeds) {
  IdVector<DeviceId, Device> devices;
  for (const double s : speeds)
    devices.push_back({.name = "gpu", .kind = {}, .memory = 1_GiB, .speed = s});
  return Cluster::uniform(std::move(devices), {.bandwidth = 1.0_GBps, .latency = 0ns});
}

}  // namespace

TEST_SUITE_BEGIN("bounds");
TEST_CASE("the longest path binds where there are devices enough, the work where there are not") {
  // a(10) -> b(20), a -> c(30): path 40, work 60. Transfers count for nothing.
  const LowerBounds one = quick_bounds(one_tensor_two_readers(), gpus(1));
  CHECK(one.critical_path == 40ns);
  CHECK(one.work == 60ns);
  CHECK(one.best() == 60ns);
  CHECK(one.binding() == "work");
  const LowerBounds two = quick_bounds(one_tensor_two_readers(), gpus(2));
  CHECK(two.work == 30ns);
  CHECK(two.best() == 40ns);
  CHECK(two.binding() == "critical path");
  CHECK(two.group == 0ns);
  CHECK(two.fits_in_memory);
  CHECK(two.why_not.empty());
}

TEST_CASE("fractions of the work are rounded up to a nanosecond") {
  // 40 / 3 = 13.3: no step of whole nanoseconds takes less than 14.
  CHECK(quick_bounds(independent(4).build(), gpus(3)).work == 14ns);
}

TEST_CASE("the bounds of an empty graph are 0") {
  const LowerBounds none = quick_bounds(OpGraphBuilder().build(), gpus(2));
  CHECK(none.best() == 0ns);
  CHECK(none.binding() == "critical path");
  CHECK(none.fits_in_memory);
  CHECK(quick_bounds(graph_of("untimed0"), gpus(2)).best() == 0ns);
}

TEST_CASE("a faster device does more work, and the critical path is on the fastest") {
  // Speeds 1 and 2: an op takes 10 or 5. Three ops: 15 of the fast device's time, of which the
  // slow one can do half as much in the same time: 15 / 1.5 = 10; two on the fast one, one on the
  // slow one take just that.
  const LowerBounds b = quick_bounds(independent(3).build(), of_speeds({1.0, 2.0}));
  CHECK(b.critical_path == 5ns);
  CHECK(b.work == 10ns);
}

TEST_CASE("device types: each op counts with its least time") {
  // a: 4 on a gpu, 40 on a cpu; b: 30 and 10; b reads a.
  const OpGraph graph = graph_of("a0,@gpu4,@cpu40 -100> b0,@gpu30,@cpu10");
  const LowerBounds both = quick_bounds(graph, of_kinds({"gpu", "cpu"}));
  CHECK(both.critical_path == 14ns);  // 4 + 10
  CHECK(both.work == 7ns);            // each device is the fastest for one of them: 14 / 2
  const LowerBounds gpu = quick_bounds(graph, of_kinds({"gpu"}));
  CHECK(gpu.critical_path == 34ns);
  CHECK(gpu.work == 34ns);
  CHECK(gpu.binding() == "critical path");  // ties: the first
}

// p takes 10 on a gpu and 20 on a cpu, u 10 on both. What micro-batches repeat is p alone, which
// both do at rates of 1 and 1/2: 10 / 1.5 = 6.67, down to 6. On two gpus 20 / 2 = 10 exactly.
TEST_CASE("micro-batches repeat the passes, at the devices' rates of the passes") {
  const OpGraph graph = graph_of("p0,@gpu10,@cpu20; u0,u,@gpu10,@cpu10");
  CHECK(quick_bounds(graph, of_kinds({"gpu", "cpu"})).repeated == 6ns);
  CHECK(quick_bounds(independent(2).build(), gpus(2)).repeated == 10ns);
}

// 40 B of weights, 10 B on each gpu: 20 B wait on the host and come over two links of 1 B/ns.
TEST_CASE("weights that wait on a host bound the step by the links to it") {
  const OpGraph graph = graph_of("a7,w10; b5,w10; c0,w10; d0,w10");
  const auto with_host = [](Bytes memory) {
    IdVector<DeviceId, Device> devices;
    for (const char* kind : {"gpu", "gpu", "host"})
      devices.push_back({.name = kind, .kind = kind, .memory = *kind == 'h' ? memory : 10_B});
    return Cluster::uniform(std::move(devices), {.bandwidth = 1.0_GBps, .latency = 0ns});
  };
  const LowerBounds enough = quick_bounds(graph, with_host(20_B));
  CHECK(enough.offload == 10ns);
  CHECK(enough.critical_path == 7ns);
  CHECK(enough.binding() == "offload");
  CHECK(enough.fits_in_memory);
  CHECK(enough.why_not.empty());
  CHECK_FALSE(quick_bounds(graph, with_host(19_B)).fits_in_memory);
}

// On gpu0: 30 B of weights, 10 B of them a cache, 20 B of gradients, 40 B of optimizer state.
TEST_CASE("the weights at a peak by what they are, in the order in which they are allocated") {
  OpGraphBuilder g;
  g.add_op({.name = "f", .persistent = 30_B, .cache = 10_B});
  g.add_op({.name = "g", .persistent = 20_B, .phase = Phase::backward});
  g.add_op({.name = "u", .persistent = 40_B, .phase = Phase::update});
  g.add_op({.name = "elsewhere", .persistent = 500_B});
  auto owned = OwnedProblem(std::move(g).build(), gpus(2));
  const auto peak = [&](Bytes weights) {
    MemoryUse at;
    at[MemoryKind::weights] = weights;
    const PeakMemory p = peak_memory(owned.problem, on({gpu0, gpu0, gpu0, gpu1}), gpu0, at);
    return std::array{p.weights, p.cache, p.gradients, p.optimizer_state};
  };
  CHECK(peak(90_B) == std::array{20_B, 10_B, 20_B, 40_B});
  CHECK(peak(45_B) == std::array{20_B, 10_B, 15_B, 0_B});
  owned.problem.engine.semantics = Semantics::baechi;
  CHECK(peak(90_B) == std::array{20_B, 10_B, 20_B, 40_B});
  CHECK(peak(45_B) == std::array{35_B, 10_B, 0_B, 0_B});  // in another order: not told apart
}

// 100 B take 100 ns one way and 200 back; b reads a's tensor by two edges, once in memory.
TEST_CASE("means over unequal links; a tensor is read once; devices of a kind and speed") {
  OpGraphBuilder g;
  const TensorId t = g.add_tensor(g.add_op({.name = "a", .compute = 5ns}), 100_B);
  const OpId b = g.add_op({.name = "b", .compute = 5ns});
  g.add_edge(t, b);
  g.add_edge(t, b);
  g.add_edge(g.add_tensor(OpId{0}, 7_B), b);
  IdVector<DeviceId, Device> devices;
  for (const char* kind : {"x", "y", "x", "x"})
    devices.push_back(
        {.name = kind, .kind = kind, .memory = 1_GiB, .speed = devices.size() == 3 ? 2.0 : 1.0});
  Cluster unequal = gpus(2);
  unequal.set_link(gpu1, gpu0, {.bandwidth = 0.5_GBps, .latency = 0ns});
  const OpGraph graph = std::move(g).build();
  const ProfiledCosts costs(graph, unequal);
  CHECK(mean_transfer({graph, unequal, costs})[t] == 150ns);
  CHECK(bytes_read(graph, b) == 107_B);
  const Cluster kinds = Cluster::uniform(std::move(devices), {});
  const ProfiledCosts same(graph, gpus(4));
  const auto classes = device_classes({graph, kinds, same});
  REQUIRE(classes.size() == 3);
  CHECK(classes[0].devices == std::vector{gpu0, gpu2});
  CHECK(classes[1].devices == std::vector{gpu1});
  CHECK(classes[2].devices == std::vector{gpu3});
}

TEST_CASE("a colocation group cannot be divided") {
  // 6 ops of 10: three are one group, two another.
  const OpGraph graph =
      graph_of("a10,c:three; b10,c:two; d10,c:three; e10,c:two; h10,c:three; i10");
  const LowerBounds b = quick_bounds(graph, gpus(4));
  CHECK(b.critical_path == 10ns);
  CHECK(b.work == 15ns);
  CHECK(b.group == 30ns);
  CHECK(b.best() == 30ns);
  CHECK(b.binding() == "group");
  CHECK(quick_bounds(graph, of_speeds({1.0, 2.0})).group == 15ns);
}

TEST_CASE("weights that do not fit in all devices together") {
  const OpGraph graph = graph_of("a0,w10; b0,w10; c0,w10");
  CHECK(quick_bounds(graph, gpus(2, 15_B)).fits_in_memory);  // as far as the bounds can tell
  const LowerBounds b = quick_bounds(graph, gpus(2, 14_B));
  CHECK_FALSE(b.fits_in_memory);
  CHECK(b.why_not == "weights need 30 B, all 2 devices together have 28 B");
  CHECK(quick_bounds(graph_of("a0,w4; b0,w6,b; u0,w8,u"), gpus(1, 17_B)).why_not ==
        "a training step holds 18 B (weights 4 B, gradients 6 B, optimizer state 8 B), all 1 "
        "devices together have 17 B");
}

TEST_CASE("an op that fits on no device") {
  // 5 of weights, 6 of workspace, 7 + 8 of outputs; the control dependency takes none.
  const OpGraph graph = graph_of("small0,w1; large0,w5,t6 -7> .; large -8> .; large ~> after0");
  CHECK(quick_bounds(graph, of_memories({20_B, 26_B})).fits_in_memory);
  const LowerBounds b = quick_bounds(graph, of_memories({20_B, 25_B}));
  CHECK_FALSE(b.fits_in_memory);
  CHECK(b.why_not == "op 'large' needs 26 B, the largest device has 25 B");
}

TEST_CASE("a group that fits on no device: all its weights and the most that one op adds") {
  // Weights 10 + 20; a adds 5, b 9.
  const OpGraph graph = graph_of("a0,w10,t5,c:pair; b0,w20,c:pair -9> .");
  CHECK(quick_bounds(graph, gpus(2, 39_B)).fits_in_memory);
  const LowerBounds bound = quick_bounds(graph, gpus(2, 38_B));
  CHECK_FALSE(bound.fits_in_memory);
  CHECK(bound.why_not == "colocation group 'pair' needs 39 B, the largest device has 38 B");
}

//   a --20 B--> c, b --7 B--> c twice, r --a weight--> c: c writes 9 B and holds 5 B of weights.
TEST_CASE("an op needs what it reads: each tensor once, no weight of others, no control") {
  const auto graph_of = [](bool group) {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a"});
    const OpId b = g.add_op({.name = "b"});
    const OpId r = g.add_op({.name = "r"});
    const OpId c = g.add_op({.name = "c", .persistent = 5_B});
    g.add_edge(g.add_tensor(a, 20_B), c);
    const TensorId twice = g.add_tensor(b, 7_B);
    g.add_edge(twice, c);
    g.add_edge(twice, c);
    g.add_edge(g.add_tensor(r, 50_B, true), c);
    g.add_control(a, c);
    g.add_tensor(c, 9_B);
    const OpId d = g.add_op({.name = "d", .persistent = 3_B});
    for (const OpId v : {c, d})
      if (group) g.colocate(v, "pair");
    return std::move(g).build();
  };
  // 5 + 9 + 20 + 7
  CHECK(quick_bounds(graph_of(false), gpus(2, 41_B)).fits_in_memory);
  CHECK(quick_bounds(graph_of(false), gpus(2, 40_B)).why_not ==
        "op 'c' needs 41 B, 27 B of it for what it reads, the largest device has 40 B");
  // and 3 of d
  CHECK(quick_bounds(graph_of(true), gpus(2, 44_B)).fits_in_memory);
  CHECK(quick_bounds(graph_of(true), gpus(2, 43_B)).why_not ==
        "colocation group 'pair' needs 44 B, 27 B of it for what it reads, the largest device has "
        "43 B");
}

TEST_CASE("a step that fits is never bounded out") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 15}, 3, seed);
    for (const EngineOptions& engine : {EngineOptions{}, EngineOptions{.cache_tensors = false}}) {
      const Problem problem = random.under(engine);
      Bytes most;  // the peak of the fullest device
      for (const DeviceUse& use : simulate(problem, random.placement).devices)
        most = std::max(most, use.peak);
      CHECK(quick_bounds(problem.graph, gpus(3, most)).fits_in_memory);
    }
  }
}

//   a --20 B--> b --30 B--> c --40 B--> d, and a's tensor is read by d again. 5 B of weights
//   each.
TEST_CASE("outputs that wait for a later reader need memory on some device") {
  const OpGraph graph =  // the control edge takes no memory
      graph_of("a1,w5 -t20> b1,w5 -30> c1,w5 -40> d1,w5; a -t> d; a ~> d");
  // While c runs: 20 for d, 30 that it reads, 40 that it writes. While d runs: 20 + 40.
  const HeldAtOnce held = held_at_once(graph);
  CHECK(graph.name(held.op) == "c");
  CHECK(held.live == 90_B);
  CHECK(held.weights == 20_B);
  // 110 B in all; c alone has 5 + 30 + 40 = 75 B beside it. 75 B and 35 B may do, 34 B cannot.
  const auto large_and = [&](Bytes small) {
    return quick_bounds(graph, of_memories({75_B, small}));
  };
  CHECK(large_and(35_B).fits_in_memory);
  CHECK(large_and(34_B).why_not ==
        "while op 'c' runs, 20 B of weights and 90 B of outputs that it or later ops need are "
        "held: 110 B; all 2 devices together have 109 B");
}

TEST_CASE("of two children one crosses or waits for the other") {
  // a(10) -> b(20), a -> c(30), one tensor. A transfer that takes ages is never made: together
  // on one device they take 60. Apart from a, b would wait 30 more (c is before it there), c 20.
  // Half and half: b at 10 + 30 x, c at 10 + 20 (1 - x): the ends 30 + 30 x and 60 - 20 x meet at
  // x = 0.6, at 48.
  const OpGraph graph = one_tensor_two_readers();
  const auto bound = [&](Bandwidth bandwidth) {
    const Cluster cluster = Cluster::uniform(2, 1_GiB, {.bandwidth = bandwidth, .latency = 0ns});
    const ProfiledCosts costs(graph, cluster);
    return communication_bound({graph, cluster, costs});
  };
  CHECK(bound({1e6}) == 48ns);
  // 100 B in 1 ns: b crosses, 10 + 1 + 20; c does not.
  CHECK(bound({1e11}) == 40ns);
  // In 15 ns: 30 + 15 x and 40 + 15 (1 - x) meet beyond x = 0.8: 42.5, so 43.
  CHECK(bound({100.0 / 15.0 * 1e9}) == 43ns);
}

TEST_CASE("ops that do not fit together are not divided evenly") {
  // a and b, 10 B each: 10 ns on the accelerator, 40 ns on the core. Without limits the core does
  // a fifth of the work: 20 * 4 / 5 = 16. If the accelerator holds but one of them, the core has
  // to do the other: 40, or none of both fits.
  const OpGraph graph = graph_of("a0,w10,@acc10,@cpu40; b0,w10,@acc10,@cpu40");
  const auto bound = [&](Bytes memory, Limits limits) {
    IdVector<DeviceId, Device> all;
    all.push_back({.name = "acc", .kind = "acc", .memory = memory});
    all.push_back({.name = "cpu", .kind = "cpu", .memory = 20_B});
    const Cluster cluster = Cluster::uniform(all, {.bandwidth = 1.0_GBps, .latency = 0ns});
    const ProfiledCosts costs(graph, cluster);
    return shared_bound({graph, cluster, costs}, limits);
  };
  CHECK(bound(20_B, Limits::all_devices) == 16ns);
  CHECK(bound(10_B, Limits::all_devices) == 40ns);
  CHECK(bound(10_B, Limits::accelerators) == 40ns);
  CHECK(bound(10_B, Limits::none) == 16ns);
}

TEST_CASE("as many devices are needed as have memory for all weights, or large units") {
  const auto needed = [](std::initializer_list<Bytes> weights, Cluster cluster) {
    OpGraphBuilder g;
    for (const Bytes b : weights) g.add_op({.name = std::to_string(g.num_ops()), .persistent = b});
    const OpGraph graph = std::move(g).build();
    const ProfiledCosts costs(graph, cluster);
    return devices_needed({graph, cluster, costs});
  };
  CHECK(needed({}, gpus(2)) == 0);
  CHECK(needed({10_B, 10_B, 10_B}, gpus(4, 15_B)) == 3);  // each over half of a device
  CHECK(needed({5_B, 5_B, 5_B, 5_B}, gpus(4, 10_B)) == 2);
  CHECK(needed({5_B, 5_B, 5_B, 5_B}, gpus(4, 9_B)) == 4);  // 5 > 9 / 2
  CHECK(needed({4_B, 4_B, 4_B}, gpus(4, 9_B)) == 2);
  CHECK(needed({10_B, 10_B, 10_B}, gpus(2, 14_B)) == std::nullopt);
}

TEST_CASE("no bound is above the best placement") {
  const auto load = make_objective("max_load", Options("max_load"));
  const auto latency = make_objective("latency", Options("latency"));
  const std::vector<EngineOptions> engines = all_engines();
  std::size_t tight = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 6}, 3, seed);
    const Cluster cluster = with_memory(random.cluster, gpu0, {seed % 2 == 0 ? 150 : 1'000'000});
    EngineOptions engine = engines[seed % engines.size()];
    if (seed % 11 == 0) engine.transfers = Transfers::staged;
    const Problem problem = random.under(engine, cluster);
    const LowerBounds quick = lower_bounds(problem.graph, problem.cluster, problem.costs);
    if (const auto best = best_placement(problem)) {
      const Duration communication = communication_bound(problem);
      const Duration memory = shared_bound(problem, Limits::all_devices);
      CHECK(quick.best() <= best->makespan);
      CHECK(communication <= best->makespan);
      CHECK(memory <= best->makespan);
      CHECK(quick.critical_path <= communication);
      tight += std::max(communication, memory) > quick.best() ? 1U : 0U;
    }
    if (const auto best = best_placement(problem, *load, any_placement)) {
      const ColocationUnits units(problem.graph);
      const std::vector<DeviceClass> classes = device_classes(problem);
      CHECK(quick.work <= best->makespan);
      CHECK(quick.group <= best->makespan);
      CHECK(shared_bound(problem, Limits::accelerators) <= best->makespan);
      CHECK(load_bound(Bundles(problem, units, classes, {.join_cycles = false}), classes) <=
            best->makespan);
    }
    if (const auto best = best_placement(problem, *latency, any_placement))
      CHECK(quick.critical_path <= best->makespan);
  }
  CHECK(tight > 30);  // where they say more than the quick ones
}
