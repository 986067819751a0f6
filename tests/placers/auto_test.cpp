#include "placers/feasible.h"
#include "placers/line_cuts.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/traces/generate/generated_models.h"

namespace {

std::optional<Duration> step(const Problem& problem, const std::string& name) {
  try {
    const StepResult result = simulate(problem, make_placer(name)->place(problem, 1));
    if (!result.oom) return result.makespan;
  } catch (const InfeasibleError&) {
  }
  return std::nullopt;
}

/// Whether a straight cut fits.
struct AnyCut final : CutTrial {
  explicit AnyCut(const Problem& p) : problem(p) {}
  IdVector<DeviceId, Bytes> excess_peaks(Placement placement) override {
    fits = fits || !simulate(problem, placement).oom;
    if (fits) return {};
    Problem unlimited = problem;
    unlimited.engine.enforce_memory = false;
    IdVector<DeviceId, Bytes> peaks;
    for (const DeviceUse& use : simulate(unlimited, placement).devices) peaks.push_back(use.peak);
    return peaks;
  }
  const Problem& problem;
  bool fits = false;
};

/// `chains` chains of `length` ops of 10 ns, joined by tensors of `bytes`.
OpGraph side_by_side(int chains, int length, Bytes bytes) {
  OpGraphBuilder g;
  for (int c = 0; c < chains; ++c) {
    TensorId last{};
    for (int i = 0; i < length; ++i) {
      const OpId v =
          g.add_op({.name = "op" + std::to_string(c) + "_" + std::to_string(i), .compute = 10ns});
      if (i > 0) g.add_edge(last, v);
      last = g.add_tensor(v, bytes);
    }
  }
  return std::move(g).build();
}

}  // namespace

TEST_SUITE_BEGIN("placers");
TEST_CASE("auto is never behind a quick placer, whatever graph, links, devices and memory") {
  std::size_t solved = 0;
  const auto check = [&](const Problem& problem) {
    const auto own = step(problem, "auto");
    solved += own ? 1U : 0U;
    for (const char* name :
         {"single", "round_robin", "random", "least_loaded", "m_topo", "heft", "m_etf", "m_sct",
          "metis", "scotch", "coarsen", "fill", "balanced", "linearized_dp"}) {
      CAPTURE(name);
      const auto other = step(problem, name);
      if (!other) continue;
      REQUIRE(own);
      CHECK(*own <= *other);
    }
  };
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 10 + 7 * seed % 50}, 2 + seed % 3, seed);
    Random draw(seed);
    Cluster tight = random.cluster;
    for (const DeviceId d : tight.devices()) tight.set_memory(d, {800 + draw.below(5000)});
    check(random.under({}, tight));
  }
  CHECK(solved >= 20);
  // Generated models on four devices, of unequal speed and links if `seed` says so.
  solved = 0;
  std::uint32_t seed = 0;
  for (const char* family : {"cells", "recurrent", "seq2seq", "blocks"}) {
    CAPTURE(family);
    const OpGraph graph =
        timed(generate(family, {{"size", "0.3"}, {"seed", std::to_string(++seed)}}));
    const Bytes peak = on_one_device(graph).devices[gpu0].peak;
    Random draw(seed);
    Cluster cluster = random_cluster(4, draw);
    const ProfiledCosts costs(graph, cluster);
    for (const double share : {0.3, 0.4, 0.6, 1.1}) {
      CAPTURE(share);
      for (const DeviceId d : cluster.devices())
        cluster.set_memory(d, (d == gpu1 ? 0.8 : 1.0) * share * peak);
      check({graph, cluster, costs, {}});
    }
  }
  CHECK(solved >= 10);
}

TEST_CASE("auto is never slower than the best straight cut of a small graph") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 12}, 2, seed);
    const Problem problem = random.under({});
    if (problem.graph.num_groups() > 0) continue;
    const auto own = step(problem, "auto");
    REQUIRE(own);
    for (std::size_t cut = 0; cut <= problem.graph.num_ops(); ++cut)
      for (const bool swapped : {false, true}) {
        Placement p;
        for (const OpId v : problem.graph.ops())
          p.device.push_back((index(v) < cut) != swapped ? gpu0 : gpu1);
        CHECK(*own <= simulate(problem, p).makespan);
      }
  }
}

TEST_CASE("auto is close to the best of all placements on small GPUs beside a slow host") {
  // Chains on one GPU and the host, and graphs of 8 or 9 ops with branches on two and the host.
  const auto check = [](std::uint64_t graphs, std::uint32_t gpu_count, std::uint32_t longest) {
    double sum = 0.0, worst = 0.0;
    for (std::uint64_t seed = 0; seed < graphs; ++seed) {
      Random random(seed);
      OpGraphBuilder g;
      std::vector<TensorId> outputs;
      const std::uint32_t length = 8 + random.below(longest - 7);
      for (std::uint32_t i = 0; i < length; ++i) {
        const auto time = Duration{1000 * (10 + random.below(50))};
        const OpId v = g.add_op({.name = "m" + std::to_string(i),
                                 .compute = time,
                                 .persistent = {1'000'000 * (1 + random.below(20))}});
        if (i > 0) g.add_edge(outputs[i - 1 - random.below(std::min(i, gpu_count))], v);
        if (i > 2 && gpu_count > 1 && random.below(2) == 0) g.add_edge(outputs[i - 3], v);
        outputs.push_back(g.add_tensor(v, {1000 * random.below(50)}));
      }
      IdVector<DeviceId, Device> devices;
      for (std::uint32_t i = 0; i < gpu_count; ++i)
        devices.push_back({.name = "gpu" + std::to_string(i), .kind = {}, .memory = {30'000'000}});
      devices.push_back(
          {.name = "cpu", .kind = {}, .memory = {std::int64_t{1} << 40}, .speed = 0.1});
      const auto& [graph, cluster, costs, problem] = OwnedProblem(
          std::move(g).build(),
          Cluster::uniform(std::move(devices),
                           {.bandwidth = {1e9}, .latency = std::chrono::microseconds(9)}));
      Simulator simulator(problem);
      Duration best = Duration::max();
      Placement p{.device = IdVector<OpId, DeviceId>(length)};
      for (bool more = true; more;) {
        const StepResult& result = simulator.run(p);
        if (!result.oom) best = std::min(best, result.makespan);
        more = false;
        for (const OpId v : graph.ops()) {  // the next placement
          more = index(p.device[v]) < gpu_count;
          p.device[v] = static_cast<DeviceId>(more ? index(p.device[v]) + 1 : 0);
          if (more) break;
        }
      }
      const auto own = step(problem, "auto");
      REQUIRE(own);
      const double ratio = static_cast<double>(own->count()) / static_cast<double>(best.count());
      sum += ratio;
      worst = std::max(worst, ratio);
    }
    const double mean = sum / static_cast<double>(graphs);
    MESSAGE(mean << " x the best, at most " << worst);
    CHECK(mean <= 1.05);
    CHECK(worst <= 1.25);
  };
  check(200, 1, 11);
  check(30, 2, 9);
}

TEST_CASE("auto is not slower with more memory where it tries all placements, else rarely") {
  struct Outcome {
    std::size_t compared = 0, slower = 0;
    double worst = 1.0;
  };
  constexpr std::int64_t equal[] = {12, 12, 12}, unequal[] = {12, 24, 18};
  // The memory of device d is `memory` x share[d] / 12, and in every third step only that of one
  // of the largest devices rises.
  const auto outcome = [](std::uint64_t graphs, std::uint32_t least_ops, std::uint32_t sizes,
                          std::span<const std::int64_t> share, double rise) {
    Outcome result;
    for (std::uint64_t seed = 0; seed < graphs; ++seed) {
      const auto more = static_cast<std::uint32_t>(seed) % sizes;
      const RandomProblem random({.ops = least_ops + more}, 3, seed);
      std::optional<Duration> before;
      for (double memory = 720; memory < 9'000; memory *= rise) {
        INFO(seed, " ", memory);
        Cluster cluster = random.cluster;
        for (const DeviceId d : cluster.devices())
          cluster.set_memory(d, {static_cast<std::int64_t>(memory) * share[index(d)] / 12});
        const auto compare = [&](std::optional<Duration> now) {
          if (before) {
            REQUIRE(now);
            ++result.compared;
            result.slower += *now > *before ? 1U : 0U;
            result.worst = std::max(result.worst, to_us(*now) / to_us(*before));
          }
        };
        const auto now = step(random.under({}, cluster), "auto");
        compare(now);
        before = now;
        if (result.compared % 3 != 0) continue;
        const Bytes largest = cluster.device(gpu1).memory;
        compare(step(random.under({}, with_memory(cluster, gpu1, 1.1 * largest)), "auto"));
      }
    }
    MESSAGE(result.slower << " of " << result.compared << ", at most x " << result.worst);
    return result;
  };
  // At most 3^6 placements, and the best of all those that fit.
  const Outcome all = outcome(40, 4, 3, equal, 1.25);
  CHECK(all.compared > 300);
  CHECK(all.slower == 0);
  for (const auto share : {std::span(equal), std::span(unequal)}) {
    const Outcome some = outcome(14, 10, 40, share, 1.3);
    CHECK(some.compared > 100);
    CHECK(some.slower * 100 <= some.compared);
    CHECK(some.worst <= 1.02);
  }
  const Outcome many = outcome(4, 85, 100, unequal, 1.3);  // of those above 80 ops, in 0.1 s each
  CHECK(many.compared > 10);
  CHECK(many.slower * 20 <= many.compared);
  CHECK(many.worst <= 1.05);
}

TEST_CASE("straight cuts that fit into some memory are not lost with more") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 120}, 4, seed);
    bool before = false;
    for (double memory = 1'000; memory < 12'000; memory *= 1.25) {
      Cluster cluster = random.cluster;
      for (const DeviceId d : cluster.devices())
        cluster.set_memory(d, {static_cast<std::int64_t>(memory)});
      const Problem problem = random.under({}, cluster);
      AnyCut cut(problem);
      try_straight_cuts(problem, 6'250, cut);
      CHECK((cut.fits || !before));
      compared += before ? 1U : 0U;
      before = cut.fits;
    }
  }
  CHECK(compared > 150);
}

TEST_CASE("auto reports its choice, and stops where no step can be shorter") {
  // Two chains of 3 x 10 ns on two devices: m_etf's 30 ns are the critical path.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(side_by_side(2, 3, 1000_B), gpus(2));
  const Placement p = make_placer("auto")->place(problem, 0);
  CHECK(p.detail == "m_etf: 30 ns; 2 placers run, no step is shorter");
  CHECK(p.placed_by == "m_etf");
}

TEST_CASE("a placement of two devices is found where weights and outputs leave little memory") {
  // 64 ops of 10 B weights that write 100 B each for the next op, on 2 devices: each cut in one
  // place needs 320 B of weights, 200 B for an op's input and output, 100 B for the copy.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(chain_of(64, 10_B, 100_B), gpus(2, 530_B));
  const Feasible found = find_feasible(problem);
  REQUIRE(found.placement);
  CHECK_FALSE(simulate(problem, *found.placement).oom);
}

TEST_CASE("coarsen keeps chains with heavy tensors together and distributes them") {
  // Four chains of 4 x 10 ns; a transfer takes 1 us. Two devices: 80 ns each.
  const auto& [graph, cluster, costs, problem] = OwnedProblem(side_by_side(4, 4, 1000_B), gpus(2));
  const Placement p = make_placer("coarsen")->place(problem, 0);
  const StepResult result = simulate(problem, p);
  CHECK(result.transfers == 0);
  CHECK(result.makespan == 80ns);
}

//   a1(100) --50 B--> b1(100)     a1 and b2 share a group, a2 and b1 another: each group has a
//   a2(100) --50 B--> b2(100)     device, and the two tensors cross at 100 ns, in both directions
/// Duplex channels: both b run from 150 to 250. One channel per device: the second tensor waits
/// for the first, and b2 runs from 200 to 300. All on one device take 400.
TEST_CASE("coarsen plans with the engine's channels") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of("a1=100,c:one; a2=100,c:two; b1=100,c:two; b2=100,c:one; a1 -50> b1; a2 -50> b2"),
      gpus(2));
  const auto planned = [&](Transfers transfers) {
    const Problem problem{graph, cluster, costs, {.transfers = transfers}};
    const Placement p = make_placer("coarsen")->place(problem, 0);
    CHECK(to_us(simulate(problem, p).makespan) == p.facts.at("planned_step_us"));
    return p.facts.at("planned_step_us");
  };
  CHECK(planned(Transfers::duplex) == 0.25);
  CHECK(planned(Transfers::sequential) == 0.3);
}

TEST_CASE("coarsen stays on one device where transfers cost more than they save") {
  // A chain: no two ops can run at once.
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(chain_of(20, 0_B, 1000_B, 10ns), gpus(4));
  CHECK(simulate(problem, make_placer("coarsen")->place(problem, 0)).makespan == 200ns);
}

namespace {

std::unique_ptr<Placer> refine(const std::string& evaluations) {
  return make_placer("refine", Options("refine", {{"evaluations", {evaluations, {}, {}}}}));
}

}  // namespace

TEST_SUITE_BEGIN("placers");
TEST_CASE("refine is never slower than auto, and without evaluations it is auto") {
  const auto quick = make_placer("auto");
  std::size_t better = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const RandomProblem random({.ops = 100}, 3, seed);
    const Problem problem = random.under({});
    const Placement first = quick->place(problem, seed);
    CHECK(refine("0")->place(problem, seed).device == first.device);
    const Placement refined = make_placer("refine")->place(problem, seed);
    const Duration before = simulate(problem, first).makespan;
    const Duration after = simulate(problem, refined).makespan;
    CHECK(after <= before);
    CHECK(refined.facts.at("quick_us") == to_us(before));
    better += after < before ? 1U : 0U;
  }
  CHECK(better >= 3);
}

// 50,000 ops are simulated in total, but at least 16 and at most 1,024 steps. On three devices
// no step is as short as the bound: times are multiples of 10 ns, a third of their sum is not.
TEST_CASE("refine takes fewer evaluations on graphs of many ops") {
  for (const auto& [ops, evaluations] :
       {std::pair(40, 1'024), {100, 500}, {1'000, 50}, {30'001, 16}}) {
    OpGraphBuilder b;
    for (int i = 0; i < ops; ++i)
      b.add_op({.name = std::to_string(i), .compute = Duration{10 * (i + 1)}});
    const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(b).build(), gpus(3));
    const Placement p = make_placer("refine")->place(problem, 1);
    CHECK(p.facts.at("evaluations") == evaluations);
  }
}
