#include "placers/feasible.h"

#include "placers/list/schedule.h"
#include "tests/placers/counted_costs.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

//   a(40) --9000 B--> b(70) --6000 B--> d(90), which has 4000 B of weights
//     \-----9000 B--> c(80) --8000 B--/
// 10 of the 16 placements on two devices of 23,000 B fit. `isolated` more ops of 1 ns, without
// memory and edges, double the number of placements each.
OpGraph diamond(int isolated = 0) {
  std::string text = "a40000 -t9000> b70000; a -t> c80000; b -6000> d90000,w4000; c -8000> d;";
  for (int i = 0; i < isolated; ++i) text += fmt::format("isolated{}=1;", i);
  return graph_of(text);
}

Cluster two_gpus(Bytes memory) {
  return Cluster::uniform(2, memory, {.bandwidth = 1.0_GBps, .latency = 1us});
}

}  // namespace

TEST_SUITE_BEGIN("placers");
TEST_CASE("m_etf places the diamond whose copies arrive before their readers start") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(diamond(), two_gpus(Bytes{23'000}));
  for (const char* name : {"m_etf", "m_sct"}) {
    CAPTURE(name);
    const Placement p = make_placer(name)->place(problem, 0);
    CHECK_FALSE(simulate(problem, p).oom);
  }
}

// In none of the five attempts of list scheduling, the last of which frees nothing, does the copy
// of b's output fit next to c's input and output at 110 us: 9000 + 8000 + 4000 + 6000 > 24,000.
TEST_CASE("m_etf reports infeasible when all memory margins fail, although placements fit") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(diamond(), two_gpus(Bytes{24'000}));
  CHECK(find_feasible(problem).placement);
  const std::string alone =
      message<InfeasibleError>([&] { make_placer("m_etf")->place(problem, 0); });
  CHECK(
      alone ==
      "m_etf: the placement found runs out of memory when simulated: gpu1 at 110.000 us, the copy "
      "of an output of op 'b' needs 5.86 KiB, 2.93 KiB are free; nor with larger memory margins");
}

// Not all of the 2^14 placements are tried.
TEST_CASE("the shortest step that fits of the quick placers' placements is taken") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(diamond(10), two_gpus(Bytes{24'000}));
  const Feasible found = find_feasible(problem);
  CHECK(found.how == "placed by heft");
  CHECK(found.by == "heft");
}

// 64 ops of 10 B weights: the device with at least 32 of them needs 320 B, and 200 B for the
// input and the output of an op. The search starts from least_loaded's placement, among others:
// it runs least_loaded unless the placement is known.
TEST_CASE("a placer whose placement is needed twice runs once") {
  const OpGraph graph = chain_of(64, 10_B, 100_B);
  const Cluster cluster = gpus(2, 519_B);
  const CountedCosts costs(graph, cluster);
  const auto asks = [&](std::span<const std::string_view> asked) {
    return costs.asked_by(
        [&] { CHECK_FALSE(find_feasible({graph, cluster, costs}, asked).placement); });
  };
  static constexpr std::string_view some[] = {"least_loaded"};
  CHECK(asks({}) == asks(some));
}

// As above, with memory for a cut in the middle: 320 + 200 B on both devices.
TEST_CASE("where no quick placer helps, the order of ops is cut") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(chain_of(64, 10_B, 100_B), gpus(2, 520_B));
  CHECK(find_feasible(problem, {}).how.ends_with(" cuts of the order of ops"));
}

// 32 ops of 10 B weights that write 100 B each, then 32 of 20 B that write 1 B, on two devices of
// 660 B. With the first k on the first device, it needs 200 B plus their weights, so k = 40, half
// of all weights, is too many (480 + 200); with k = 32, half of all ops, the second device needs
// 640 + 100 + 1 B; half of all footprints, k = 19, is fewer. 33 to 39 fit.
TEST_CASE("cuts of the order are shifted away from the device that lacks memory") {
  OpGraphBuilder g;
  TensorId last{};
  for (int i = 0; i < 64; ++i) {
    const OpId v = g.add_op(
        {.name = "op" + std::to_string(i), .compute = 1ns, .persistent = i < 32 ? 10_B : 20_B});
    if (i > 0) g.add_edge(last, v);
    last = g.add_tensor(v, i < 32 ? 100_B : 1_B);
  }
  const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(g).build(), gpus(2, 660_B));
  CHECK(find_feasible(problem, {}).how.ends_with(" cuts of the order of ops"));
}

// 6 ops of 1 B weights, one of 10 B, 7 of 1 B, on two devices of 12 B. A cut of the order leaves
// at least 16 B together; 10 + 1 B and 12 B fit.
TEST_CASE("where no cut of the order fits, ops are moved") {
  OpGraphBuilder g;
  for (int i = 0; i < 14; ++i)
    g.add_op({.name = "op" + std::to_string(i), .compute = 1ns, .persistent = i == 6 ? 10_B : 1_B});
  const auto& [graph, cluster, costs, problem] = OwnedProblem(std::move(g).build(), gpus(2, 12_B));
  const Feasible found = find_feasible(problem, {});
  REQUIRE(found.placement);
  CHECK(found.how.ends_with(" moves that lessen the memory missing"));
}

TEST_CASE("of few placements the shortest step that fits is found, or that none fits") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(diamond(), two_gpus(Bytes{23'000}));
  const Feasible found = find_feasible(problem);
  REQUIRE(found.placement);
  CHECK(found.how == "the shortest step of all 16 placements");
  std::size_t fit = 0;
  Duration shortest = Duration::max();
  for (std::uint32_t at = 0; at < 16; ++at) {
    const auto device = [&](std::uint32_t bit) { return DeviceId{at >> bit & 1U}; };
    const StepResult step = simulate(problem, on({device(0), device(1), device(2), device(3)}));
    if (step.oom) continue;
    ++fit;
    shortest = std::min(shortest, step.makespan);
  }
  CHECK(fit == 10);
  CHECK(simulate(problem, *found.placement).makespan == shortest);

  // c holds its input of 9000 B and its output of 8000 B at least.
  const Cluster small = two_gpus(Bytes{16'999});
  const Feasible none = find_feasible({graph, small, costs});
  CHECK_FALSE(none.placement);
}

// 20 ops of 10 B on 4 devices of 55 B and more: 5 on each, if their tensors fit, too.
TEST_CASE("with many placements one that fits is found by quick placers or by moves") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(chain_of(20, 10_B), gpus(4, 54_B));
  const Feasible found = find_feasible(problem);
  REQUIRE(found.placement);
  CHECK_FALSE(simulate(problem, *found.placement).oom);
  CHECK(found.placement->device == find_feasible(problem).placement->device);

  const Cluster small = gpus(4, 49_B);  // 200 B of weights on 196 B
  CHECK_FALSE(find_feasible({graph, small, costs}).placement);
  CHECK(find_feasible({graph, small, costs}).how.starts_with("no placement fits: weights need"));
}

namespace {

/// Options with which `entry` can be made; nothing if it cannot be run here, or if it searches for
/// a placement that fits by itself.
std::optional<Values> fallback_options(const PlacerEntry& entry) {
  if (entry.memory == CountedMemory::objective || entry.needs == "file") return std::nullopt;
  if (entry.name == "expert") return Values{{"default", value("0")}};
  if (entry.name.starts_with("mip_")) return Values{{"max_nodes", value("0")}};
  if (entry.name != "exec") return Values{};
  if (std::system("python3 -c '' 2>/dev/null") != 0)  // NOLINT(concurrency-mt-unsafe)
    return std::nullopt;
  return Values{{"path", value(source_dir() + "/scenarios/examples/external_placer.py")}};
}

/// Whether `entry` alone, its fallback off, finds no placement whose step fits.
bool fails_alone(const PlacerEntry& entry, Values options, const Problem& problem) {
  options["fallback"] = value("false");
  try {
    return simulate(problem, placer(std::string(entry.name), options)->place(problem, 1))
        .oom.has_value();
  } catch (const InfeasibleError&) {
    return true;
  }
}

/// Calls `test` with random problems of 7 ops on two devices of little memory, of which some
/// placement fits, until it returns true. Returns whether it did.
bool some_tight_problem(const auto& test) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const std::int64_t bytes : {400, 500, 600, 700, 850}) {
      const RandomProblem random({.ops = 7, .degree = 3, .reach = 5}, 2, seed);
      Cluster cluster = random.cluster;
      for (const DeviceId d : cluster.devices()) cluster.set_memory(d, Bytes{bytes});
      const Problem problem = random.under({}, cluster);
      if (find_feasible(problem).placement && test(problem)) return true;
    }
  }
  return false;
}

}  // namespace

TEST_SUITE_BEGIN("placers");
TEST_CASE("with fallback every placer places what it cannot place alone, and names the placer") {
  for (const PlacerEntry& entry : placers()) {
    const std::optional<Values> options = fallback_options(entry);
    if (!options || entry.name == "auto") continue;
    CAPTURE(entry.name);
    CHECK(some_tight_problem([&](const Problem& problem) {
      if (!fails_alone(entry, *options, problem)) return false;
      Values with = *options;
      with["fallback"] = value("true");
      const Placement found = placer(std::string(entry.name), with)->place(problem, 1);
      CHECK_FALSE(simulate(problem, found).oom);
      CHECK(found.placed_by == "fallback:all");  // at most 2^7 placements
      CHECK(found.detail.starts_with("fallback: the shortest step of all "));
      return true;
    }));
  }
}

TEST_CASE("fallback is off by default, but in auto, refine and search") {
  constexpr std::array<std::string_view, 3> on{"auto", "refine", "search"};
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    CHECK(entry.fallback == (std::ranges::count(on, entry.name) == 1));
  }
}

// Two ops of 10 B on devices of 15 B: except for a permutation of devices, only round_robin's
// placement, one op on each, fits. m_etf finds it, too.
TEST_CASE("if a placer's own placement fits, fallback changes nothing") {
  const Values with{{"fallback", value("true")}};
  for (const char* name : {"round_robin", "m_etf"}) {
    const Placement p = place(name, weights({10, 10}), gpus(2, 15_B), with);
    CHECK(devices(p) == "0 1");
    CHECK(p.placed_by.empty());
  }
}

// single places both ops on the first device, which has memory for one. 20 B do not fit on two
// devices of 9 B.
TEST_CASE("fallback reports why the placer failed, and why nothing else was found") {
  const Values with{{"fallback", value("true")}};
  const Placement p = place("single", weights({10, 10}), gpus(2, 15_B), with);
  CHECK(devices(p) == "1 0");
  CHECK(p.placed_by == "fallback:all");
  const std::string why =
      message<InfeasibleError>([&] { place("m_topo", weights({10, 10}), gpus(2, 9_B), with); });
  CHECK(why ==
        "m_topo: no device has memory for op 'a', which needs 10 B; missing: 1 B on gpu0, 1 B on "
        "gpu1; no placement fits: op 'a' fits on no device");
}
