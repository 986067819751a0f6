#include "placers/exact/ideals.h"
#include "placers/exact/parts_needed.h"
#include "placers/exact/placement_program.h"
#include "tests/placers/exact/brute_force.h"
#include "tests/placers/exact/small_problem.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "tests/traces/msr_files.h"

using namespace baechi::exact;

namespace {

std::unique_ptr<Objective> objective(const std::string& name) {
  return make_objective(name, Options(name));
}

/// The value of the placement of `placer`, which must be feasible and allowed; nothing if it
/// reports infeasible.
std::optional<Duration> value_of(const Placer& placer, const Problem& problem,
                                 const Objective& objective,
                                 bool (*allowed)(const Problem&, const Placement&)) {
  try {
    const Placement p = placer.place(problem, 0);
    const Score score = objective.score(problem, p);
    CHECK(score.feasible());
    CHECK(allowed(problem, p));
    return score.value;
  } catch (const InfeasibleError&) {
    return std::nullopt;
  }
}

std::optional<Duration> value_of(const std::optional<Best>& best) {
  return best ? std::optional(best->makespan) : std::nullopt;
}

/// Limits that no small problem reaches.
constexpr solver::MixedLimits most{.nodes = 10'000, .iterations = 1'000'000, .terms = 1'000'000};

/// A fact of the placement of `placer`; nothing if it reports infeasible.
std::optional<double> fact_of(const Placer& placer, const Problem& problem, const char* fact) {
  try {
    return placer.place(problem, 0).facts.at(fact);
  } catch (const InfeasibleError&) {
    return std::nullopt;
  }
}

/// The bound that a placement of mip_latency reports, on all placements or on those of one part.
double bound_of(const Placement& p) {
  return p.facts.at(p.facts.contains("bound_us") ? "bound_us" : "bound_in_parts_us");
}

/// The part of each op, counted on paths: 1 + the number of returns to the op's device.
Parts cut_by_paths(const Problem& problem, const Placement& placement) {
  Parts part(problem.graph.num_ops());
  for (const DeviceId d : problem.cluster.devices()) {
    IdVector<OpId, std::uint32_t> visits(problem.graph.num_ops());
    for (const OpId v : problem.graph.ops()) {
      const bool here = placement.device[v] == d;
      visits[v] = here ? 1 : 0;
      for (const OpId u : problem.graph.predecessors(v))
        visits[v] = std::max(visits[v], visits[u] + (here && placement.device[u] != d ? 1U : 0U));
      if (here) part[v] = visits[v];
    }
  }
  return part;
}

/// The least latency_in_turn of all feasible placements with up to `parts` parts on each
/// accelerator, by enumerating every op on every device in every part.
std::optional<Duration> best_in_turn(const Problem& problem, std::uint32_t parts) {
  const auto places = static_cast<std::uint32_t>(problem.cluster.num_devices()) * parts;
  const std::size_t ops = problem.graph.num_ops();
  std::uint64_t combinations = 1;
  for (std::size_t i = 0; i < ops; ++i) combinations *= places;
  std::optional<Duration> best;
  for (std::uint64_t number = 0; number < combinations; ++number) {
    Placement p{.device = IdVector<OpId, DeviceId>(ops)};
    Parts part(ops);
    std::uint64_t rest = number;
    for (const OpId v : problem.graph.ops()) {
      p.device[v] = static_cast<DeviceId>(rest % places / parts);
      part[v] = static_cast<std::uint32_t>(rest % parts);
      rest /= places;
    }
    if (!constraints(problem, p).feasible()) continue;
    const auto latency = latency_in_turn(problem, p, part);
    if (latency && (!best || *latency < *best)) best = latency;
  }
  return best;
}

std::filesystem::path throughput_input(const std::filesystem::path& data, const std::string& name) {
  const bool layers = !holds(name, "_l-") && !holds(name, "_L-") && !name.starts_with("op/");
  return data / "msr-dnn-partitioning/throughput-inputs" /
         (layers ? "LayerGraphs" : "OperatorGraphs") /
         ((name.starts_with("op/") ? name.substr(3) : name) + ".json.zst");
}

}  // namespace

TEST_SUITE_BEGIN("exact");
TEST_CASE("exact_dp finds the best of all pipelines, linearized_dp none better") {
  const auto exact = placer("exact_dp"), linear = placer("linearized_dp");
  const auto max_load = objective("max_load");
  std::size_t infeasible = 0, missed = 0;
  const std::uint64_t rounds = thorough() ? 20'000 : 2'500;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(seed % 10 == 0 ? 9 : 6, seed % 2 == 1, seed);
    const Problem problem = small.problem();
    const auto best = value_of(best_placement(problem, *max_load, is_pipeline));
    REQUIRE(value_of(*exact, problem, *max_load, is_pipeline) == best);
    const auto quick = value_of(*linear, problem, *max_load, is_pipeline);
    if (quick) REQUIRE(best);
    if (quick) CHECK(*quick >= *best);
    infeasible += best ? 0U : 1U;
    missed += quick == best ? 0U : 1U;
  }
  CHECK(infeasible > 0);
  CHECK(infeasible < rounds / 2);
  CHECK(missed < rounds / 10);
}

// Four independent bundles have 2^4 ideals, five in a line have six.
TEST_CASE("ideals are counted up to a limit, and without one") {
  const BundleOrder apart(4);
  const auto id = [](std::uint32_t b) { return static_cast<BundleId>(b); };
  const std::vector<std::pair<BundleId, BundleId>> links{
      {id(0), id(1)}, {id(1), id(2)}, {id(2), id(3)}, {id(3), id(4)}};
  const BundleOrder line(5, links);
  REQUIRE(Ideals::enumerate(apart, 16));
  CHECK(Ideals::enumerate(apart, 16)->size() == 16);
  CHECK(Ideals::enumerate(line, 6)->size() == 6);
  for (std::size_t most = 1; most < 16; ++most) CHECK_FALSE(Ideals::enumerate(apart, most));
  for (std::size_t most = 1; most < 6; ++most) CHECK_FALSE(Ideals::enumerate(line, most));
}

TEST_CASE("exact_dp does not report a search of linear orders alone as optimal") {
  const SmallProblem small(8, false, 3);
  const Placement all = placer("exact_dp")->place(small.problem(), 0);
  REQUIRE(all.facts.at("ideals") > 1);
  CHECK(all.facts.at("optimal") == 1.0);
  const Placement lines =
      placer("exact_dp", {{"max_ideals", {"1", {}, {}}}})->place(small.problem(), 0);
  CHECK(lines.facts.at("optimal") == 0.0);
  CHECK(lines.detail == "more than 1 ideals: only lines were searched");
}

// For the largest load, and for the sum of the largest forward and backward loads.
TEST_CASE("mip_max_load finds the best of all splits, and of those that are contiguous") {
  const std::uint64_t rounds = thorough() ? 4'000 : 100;
  for (const char* phases : {"together", "apart"}) {
    CAPTURE(phases);
    const bool apart = std::string_view(phases) == "apart";
    Values options{{"phases", {phases, "", {}}}};
    const auto max_load = make_objective("max_load", Options("max_load", options));
    const auto any = placer("mip_max_load", options);
    options["contiguous"] = {"true", "", {}};
    const auto contiguous = placer("mip_max_load", options);
    std::size_t differ = 0;
    for (std::uint64_t seed = 0; seed < rounds; ++seed) {
      CAPTURE(seed);
      const SmallProblem small(seed % 10 == 0 ? 8 : 6, apart || seed % 2 == 1,
                               (apart ? 9000 : 0) + seed);
      const Problem problem = small.problem();
      const auto best = best_placement(problem, *max_load, any_placement);
      REQUIRE(value_of(*any, problem, *max_load, any_placement) == value_of(best));
      REQUIRE(value_of(*contiguous, problem, *max_load, is_convex) ==
              value_of(best_placement(problem, *max_load, is_convex)));
      const auto together = best_placement(problem, *objective("max_load"), any_placement);
      differ += value_of(together) == value_of(best) ? 0U : 1U;
      if (!best || apart) continue;
      const Placement p = any->place(problem, 0);
      CHECK(p.device == any->place(problem, 0).device);
      CHECK(p.facts.at("bound_us") == p.facts.at("max_load_us"));
    }
    CHECK((differ > rounds / 10) == apart);
  }
}

TEST_CASE("mip_max_load works where the partitioners that it starts from find nothing") {
  // A cycle of groups whose ops need different device types: partitioners merge it into one
  // bundle.
  const SmallProblem small(5, false, 9834, 4);
  const Problem problem = small.problem();
  CHECK_THROWS_AS(placer("local_search")->place(problem, 0), InfeasibleError);
  const auto max_load = objective("max_load");
  const auto best = best_placement(problem, *max_load, any_placement);
  REQUIRE(best);
  CHECK(value_of(*placer("mip_max_load"), problem, *max_load, any_placement) == value_of(best));
}

TEST_CASE("the program of mip_max_load alone, without a start, has the same optimum") {
  const auto max_load = objective("max_load");
  const std::uint64_t rounds = thorough() ? 4'000 : 150;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(6, seed % 4 > 1, 1000 + seed);
    const Problem problem = small.problem();
    const bool contiguous = seed % 2 == 0;
    const auto best = best_placement(problem, *max_load, contiguous ? is_convex : any_placement);
    const ColocationUnits units(problem.graph);
    const std::vector<DeviceClass> classes = device_classes(problem);
    const Bundles bundles(problem, units, classes, {.join_cycles = false});
    const Duration below = best ? 2 * best->makespan + 2ns : 1000ns;
    const LoadProgram program =
        load_program(problem, bundles, classes, below, 1ns, {.contiguous = contiguous});
    const solver::MixedOptimum found = solve(program.program, most);
    REQUIRE(found.finished());
    REQUIRE(found.x.empty() == !best.has_value());
    if (!best) continue;
    Placement p;
    const auto device = program.split(found.x);
    for (const OpId v : problem.graph.ops()) p.device.push_back(device[bundles.of(v)]);
    const Score score = max_load->score(problem, p);
    CHECK(score.feasible());
    CHECK(score.value == best->makespan);
    if (contiguous) CHECK(is_convex(problem, p));
  }
}

TEST_CASE("weights that exceed the memory by less than the solver's tolerance prove nothing") {
  // Nine ops of 333333333 or 333333334 B on three devices of 1000000000 B, three ops each: a
  // device fits one of the heavier ops with two lighter ones, but not two. For the solver, whose
  // sums are exact to about 1e-9, any three fit.
  const auto max_load = objective("max_load");
  const auto latency = objective("latency");
  std::size_t solved = 0, proved = 0;
  for (std::uint64_t seed = 0; seed < (thorough() ? 100 : 4); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    OpGraphBuilder b;
    std::vector<TensorId> outputs;
    for (std::uint32_t i = 0; i < 9; ++i) {
      const OpId v = b.add_op({.name = "op" + std::to_string(i),
                               .persistent = Bytes{333'333'333 + (i % 3 == 2 ? 1 : 0)}});
      b.set_compute(v, "acc", Duration{1'000 + random.below(9'000)});
      for (std::uint32_t k = random.below(3); i > 0 && k > 0; --k)
        b.add_edge(outputs[random.below(i)], v);
      outputs.push_back(b.add_tensor(v, Bytes{random.below(200)}));
    }
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(std::move(b).build(), of_kinds({"acc", "acc", "acc"}, Bytes{1'000'000'000}));
    for (const bool contiguous : {false, true}) {
      const auto best = best_placement(problem, *max_load, contiguous ? is_convex : any_placement);
      const auto mip =
          placer("mip_max_load", {{"contiguous", {contiguous ? "true" : "false", {}, {}}}});
      if (!best) {
        CHECK_THROWS_AS(mip->place(problem, 0), InfeasibleError);
        continue;
      }
      const Placement p = mip->place(problem, 0);
      // Not always optimal: weights near the solver's tolerance are only searched.
      CHECK(p.facts.at("max_load_us") >= to_us(best->makespan));
      CHECK(p.facts.at("bound_us") <= to_us(best->makespan));
      proved += p.facts.at("bound_us") == p.facts.at("max_load_us") ? 1U : 0U;
      ++solved;
    }
    const auto best = best_placement(problem, *latency, accelerators_are_convex);
    const auto mip = placer("mip_latency", {{"parts", {"1", "", {}}}});
    if (!best) {
      CHECK_THROWS_AS(mip->place(problem, 0), InfeasibleError);
      continue;
    }
    const Placement p = mip->place(problem, 0);
    // Not always optimal: that takes longer than the limits allow.
    CHECK(p.facts.at("latency_us") >= to_us(best->makespan));
    CHECK(bound_of(p) <= to_us(best->makespan));
  }
  CHECK(solved > 4);
  CHECK(proved > solved / 2);
}

TEST_CASE("mip_latency finds the least latency, an accelerator's part in one piece") {
  const auto exact = placer("mip_latency", {{"parts", {"1", "", {}}}}),
             start =
                 placer("mip_latency", {{"parts", {"1", "", {}}}, {"max_nodes", {"0", "", {}}}});
  const auto latency = objective("latency");
  const std::uint64_t rounds = thorough() ? 4'000 : 100;
  std::size_t infeasible = 0, improved = 0;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(seed % 10 == 0 ? 9 : 6, seed % 2 == 1, seed);
    const Problem problem = small.problem();
    const auto best = value_of(best_placement(problem, *latency, accelerators_are_convex));
    REQUIRE(value_of(*exact, problem, *latency, accelerators_are_convex) == best);
    const auto first = value_of(*start, problem, *latency, accelerators_are_convex);
    if (first) REQUIRE(*first >= *best);
    improved += first == best ? 0U : 1U;
    infeasible += best ? 0U : 1U;
    if (!best) continue;
    const Placement p = exact->place(problem, 0);
    CHECK(p.device == exact->place(problem, 0).device);
    CHECK(p.facts.at("latency_us") == to_us(*best));
    CHECK(bound_of(p) == to_us(*best));
  }
  CHECK(improved > rounds / 20);
  CHECK(infeasible < rounds / 2);
}

TEST_CASE("mip_latency finds the best order of two parts on each accelerator") {
  const auto exact = placer("mip_latency", {{"parts", {"2", "", {}}}});
  const std::uint64_t rounds = thorough() ? 2'000 : 60;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(5, seed % 2 == 1, 5000 + seed);
    const Problem problem = small.problem();
    const auto best = best_in_turn(problem, 2);
    const auto found = fact_of(*exact, problem, "latency_us");
    REQUIRE(found.has_value() == best.has_value());
    if (!best) continue;
    REQUIRE(*found == to_us(*best));
  }
}

// a --1 B--> b --1 B--> c: on the accelerator 10 ns each, but b runs on the core only; there
// a and c take 100 ns, b 5.
TEST_CASE("an accelerator that may run two parts comes back after the core") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(
      graph_of("a0,@acc10,@cpu100 -1> b0,@cpu5 -1> c0,@acc10,@cpu100"), of_kinds({"acc", "cpu"}));
  // One part: a 10 and 1 to send, b 5, c 100. Two: 10 + 1, 5, 1 to receive + 10.
  CHECK(fact_of(*placer("mip_latency", {{"parts", {"1", "", {}}}}), problem, "latency_us") ==
        0.116);
  const auto two = placer("mip_latency", {{"parts", {"2", "", {}}}});
  CHECK(fact_of(*two, problem, "latency_us") == 0.027);
  const Placement p = two->place(problem, 0);
  CHECK(p.device[OpId{0}] == p.device[OpId{2}]);
  CHECK(objective("latency")->score(problem, p).value == 27ns);
  // Without a limit of parts, all 2^3 placements are tried, and none is better.
  const Placement all = placer("mip_latency")->place(problem, 0);
  CHECK(all.detail == "latency 27 ns, the least that a placement can have");
  CHECK(all.facts.at("bound_us") == 0.027);
  // The program alone proves it, too: it starts with one part and goes on with two. Three would
  // need a path of five ops. Two matter only for steps above 27 ns: a 10, 1, b 5, 1, c 10.
  const Placement raised = placer("mip_latency", {{"tries", {"0", "", {}}}})->place(problem, 0);
  CHECK(raised.detail == "latency 27 ns, the least that a placement can have");
  CHECK(raised.facts.at("gap") == 0.0);
  const ColocationUnits units(graph);
  CHECK(parts_needed(problem, units, device_classes(problem), 1s, 9) == 2);
  CHECK(parts_needed(problem, units, device_classes(problem), 28ns, 9) == 2);
  CHECK(parts_needed(problem, units, device_classes(problem), 27ns, 9) == 1);
  // With one part the program's bound does not cover the placement of 27 ns.
  const Placement one = placer("mip_latency", {{"parts", {"1", "", {}}}})->place(problem, 0);
  CHECK(one.detail ==
        "latency 116 ns, and no placement whose accelerators run at most 1 part has less");
  CHECK(one.facts.at("bound_in_parts_us") == 0.116);
  CHECK_FALSE(one.facts.contains("bound_us"));
}

//   a(10) --1 B--> c(100), d(50)    a and d run on the accelerator only, c on the core only.
// The objective cuts where a path comes back. None does, so a and d are one part: 10 + 50 + 1 to
// send, then c. If a is a part before d, it takes 10 + 1, then c and d run in parallel.
TEST_CASE("parts that may be cut at any op have a lower latency than the objective's") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a0,@acc10 -1> c0,@cpu100; d0,@acc50"), of_kinds({"acc", "cpu"}));
  CHECK(fact_of(*placer("mip_latency", {{"parts", {"2", "", {}}}}), problem, "latency_us") ==
        0.111);
  for (const char* tries : {"0", "20000"}) {
    const Placement p = placer("mip_latency", {{"tries", {tries, "", {}}}})->place(problem, 0);
    CHECK(p.detail == "latency 161 ns, the least that a placement can have");
  }
}

// Part k + 1 has an input that comes, directly or not, from part k.
TEST_CASE("parts that the objective cuts are ordered without further constraints") {
  const auto latency = objective("latency");
  Random random(1);
  std::size_t come_back = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(8, seed % 2 == 1, 20'000 + seed);
    const Problem problem = small.problem();
    Placement p;
    for (std::size_t i = 0; i < problem.graph.num_ops(); ++i)
      p.device.push_back(static_cast<DeviceId>(
          random.below(static_cast<std::uint32_t>(problem.cluster.num_devices()))));
    const Parts part = cut_by_paths(problem, p);
    const Score score = latency->score(problem, p);
    if (score.misplaced > 0) continue;
    const auto in_turn = latency_in_turn(problem, p, part);
    REQUIRE(in_turn.has_value() == !score.deadlock);
    if (in_turn) REQUIRE(*in_turn == score.value);
    come_back += accelerators_are_convex(problem, p) ? 0U : 1U;
  }
  CHECK(come_back > 10);
}

// Three ops on two equal accelerators and a class of two cores, where b runs on cores only.
// a: one of the accelerators, or a core: 2. b: 1. c: where a is on an accelerator that one, the
// other or a core; else an accelerator or a core: 3 + 2 = 5 placements.
TEST_CASE("placements that differ in a permutation of equal devices are visited once") {
  const auto& [graph, cluster, costs, problem] =
      OwnedProblem(graph_of("a0,@acc10,@cpu10; b0,@cpu10; c0,@acc10,@cpu10"),
                   of_kinds({"acc", "acc", "cpu", "cpu"}));
  const ColocationUnits units(graph);
  const std::vector<DeviceClass> classes = device_classes(problem);
  std::size_t visited = 0;
  const auto visit = [&](const Placement&) { ++visited; };
  CHECK_FALSE(visit_placements(problem, units, classes, 4, visit));
  CHECK(visited == 0);
  CHECK(visit_placements(problem, units, classes, 5, visit));
  CHECK(visited == 5);
}

TEST_CASE("the bound of mip_latency on all placements holds for all placements") {
  const auto tried = placer("mip_latency"),
             program = placer("mip_latency", {{"tries", {"0", "", {}}}});
  const auto latency = objective("latency");
  const std::uint64_t rounds = thorough() ? 4'000 : 200;
  std::size_t comes_back = 0, proved = 0, not_proved = 0;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    CAPTURE(seed);
    const SmallProblem small(7, seed % 2 == 1, 9'000 + seed);
    const Problem problem = small.problem();
    const auto best = best_placement(problem, *latency, any_placement);
    REQUIRE(value_of(*tried, problem, *latency, any_placement) == value_of(best));
    if (!best) continue;
    CHECK(fact_of(*tried, problem, "bound_us") == to_us(best->makespan));
    comes_back += accelerators_are_convex(problem, best->placement) ? 0U : 1U;
    try {
      const Placement p = program->place(problem, 0);
      CHECK(latency->score(problem, p).value >= best->makespan);
      CHECK(p.facts.at("latency_us") == to_us(latency->score(problem, p).value));
      const bool of_all = p.facts.contains("bound_us");
      if (of_all) CHECK(p.facts.at("bound_us") <= to_us(best->makespan));
      ++(of_all && p.facts.at("gap") == 0.0 ? proved : not_proved);
    } catch (const InfeasibleError& e) {
      CHECK(holds(std::string_view(e.what()), "whose accelerators run at most 1 part"));
    }
  }
  CHECK(comes_back > 0);
  CHECK(proved > rounds / 2);
  CHECK(not_proved == 0);
}

// Two accelerators of 20 B. a, b and c are a chain with weights of 10 B each; a and c are a
// group, so they share a device and b has the other one: a part that leaves and comes back.
TEST_CASE("mip_latency reports infeasible only for the placements that it has excluded") {
  const OpGraph graph = graph_of("a10,w10,c:g -1> b10,w10 -1> c10,w10,c:g");
  const Problem& problem = OwnedProblem(graph, of_kinds({"gpu", "gpu"}, 20_B)).problem;
  // 3 x 10 ns, and two tensors that cost both devices 1 ns each.
  CHECK(fact_of(*placer("mip_latency"), problem, "latency_us") == 0.034);
  CHECK_THROWS_WITH_AS(
      placer("mip_latency", {{"parts", {"1", "", {}}}})->place(problem, 0),
      "mip_latency: the weights fit in no split whose accelerators run at most 1 part",
      InfeasibleError);
}

TEST_CASE("exact_dp has the authors' optima, and those they could not compute") {
  const std::filesystem::path data = testing::published_data();
  const struct {
    const char* workload;
    double milliseconds;
    bool quick = true;
  } optima[] = {{"bert_l-12_inference", 147.478},
                {"bert_l-3_inference", 27.9186},
                {"bert_l-6_inference", 29.5795},
                {"op/resnet50_inference", 124.349},
                {"bert_L-12_training", 438.00},
                {"bert_l-3_training", 65.3031},
                {"bert_l-6_training", 72.86},
                {"op/resnet50_training", 255.19},
                {"bert24_inference", 17.7899},
                {"bert24_training", 41.75},
                {"gnmt_inference", 32.91},
                {"gnmt_training", 107.00},
                {"inceptionv3_inference", 51.55, false},
                {"inceptionv3_training", 122.76, false},
                {"resnet50_inference", 33.77},
                {"resnet50_training", 78.63}};
  const auto exact = placer("exact_dp");
  const auto max_load = objective("max_load");
  std::size_t left_out = 0;
  for (const auto& [workload, expected, quick] : optima) {
    CAPTURE(workload);
    if (!quick && !thorough()) {
      ++left_out;
      continue;
    }
    const MsrProblem msr(throughput_input(data, workload));
    const Placement p = exact->place(msr.problem(), 0);
    const Score score = max_load->score(msr.problem(), p);
    CHECK(score.feasible());
    CHECK(to_us(score.value) / 1e3 == doctest::Approx(expected).epsilon(2e-4));
    CHECK(p.facts.at("max_load_us") == to_us(score.value));
    CHECK(p.facts.at("optimal") == 1.0);
  }
  if (left_out > 0) MESSAGE("left out: ", left_out, " long ones (set BAECHI_THOROUGH)");
}
