// The PyTorch variants of m_topo, m_etf, m_sct and of the fit, by hand. goldens_test.cpp compares
// them with the original bit by bit.

#include "placers/interface/colocation.h"
#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/scenarios/sweeps.h"

namespace {

/// "variant=pytorch,compat=true"
Placement place(const std::string& name, std::string_view options, const Problem& problem) {
  std::map<std::string, Options::Value> values;
  while (!options.empty()) {
    const std::string_view one = options.substr(0, options.find(','));
    const auto eq = one.find('=');
    values[std::string(one.substr(0, eq))].text = one.substr(eq + 1);
    options.remove_prefix(std::min(options.size(), one.size() + 1));
  }
  return make_placer(name, Options(name, values))->place(problem, 0);
}

struct Case : OwnedProblem {
  Case(OpGraph g, std::size_t devices, Bytes memory = 1_GiB)
      : OwnedProblem(std::move(g), gpus(devices, memory)) {}
};

//   a(10 us) --100 B--> b(20 us)     a byte takes 1 ns
//       \------100 B--> c(30 us)     b and c read the same tensor
OpGraph two_readers() { return graph_of("a10000 -t100> b20000; a -t> c30000"); }

//   a(10) --100 B--> b, --100 B--> c, --100 B--> d     1000 ns each, three tensors
OpGraph three_tensors() { return graph_of("a10 -100> b1000; a -100> c1000; a -100> d1000"); }

//   a(10) --100 B--> b(10) --100 B--> c(10), whose output of 100 B nobody reads
OpGraph chain() { return graph_of("a10 -100> b10 -100> c10 -100> ."); }

}  // namespace

TEST_SUITE_BEGIN("pytorch");
TEST_CASE("the fit: 1.2 times the measured bytes plus 0.1 ms; 0 for 0 bytes") {
  // 1.2 x 0.1788 ns/B x 1 MB + 100 us = 314.56 us; without the 1.2: 278.8 us
  CHECK(OriginalCosts::transfer_time(Bytes{1'000'000}, OriginalCosts::pytorch_fit) == 314'560ns);
  CHECK(OriginalCosts::transfer_time(Bytes{1}, OriginalCosts::pytorch_fit) == 100'000ns);
  CHECK(OriginalCosts::transfer_time(Bytes{}, OriginalCosts::pytorch_fit) == 0ns);
  const auto time = [](const std::string& fit) {
    const ScenarioFile file = scenario_of(
        "graph: {generate: layered, ops: 10}\nplacers: [single]\n"
        "cluster: {devices: {count: 2, memory: 1 GiB}, fit: " +
        fit + "}\n");
    const ClusterChoice& choice = file.point(0).cluster;
    const OpGraph graph = graph_of("a0 -1000000> .");
    const Cluster cluster = make_cluster(choice);
    return make_costs(choice, graph, cluster)->transfer(TensorId{0}, gpu0, gpu1);
  };
  CHECK(time("pytorch") == 314'560ns);
  CHECK(time("{variant: pytorch}") == 314'560ns);
  CHECK(time("{variant: pytorch, factor: 1}") == 278'800ns);
  CHECK(time("{variant: pytorch, factor: 1, intercept_us: 0}") == 178'800ns);
  CHECK(time("{factor: 2}") == 485us);  // 2 x 175.4 + 134 = 484.8
  CHECK_THROWS_WITH_AS(time("torch"), doctest::Contains("cluster.fit: not 'baechi', 'pytorch' or"),
                       InputError);
}

TEST_CASE("the original sends a tensor once per reader, and checks memory for it twice") {
  // c could start on gpu0 at 30 us or on gpu1 at 10.1 us, after the copy of a's 100 B. The copy
  // is charged, and then required to fit into the rest again: 199 B are too few.
  const Case test(two_readers(), 2, 199_B);
  CHECK_THROWS_WITH_AS(
      place("m_etf", "variant=pytorch,compat=true", test.problem),
      "m_etf, as the original: AssertionError in recv_tensor (device.py): not enough memory to "
      "rcv tensor 1 at device 1, at op 'c'",
      InfeasibleError);
  const Case ample(two_readers(), 2, 200_B);
  const Placement p = place("m_etf", "variant=pytorch,compat=true", ample.problem);
  CHECK(p.device == on({gpu0, gpu0, gpu1}).device);
  CHECK(p.facts.at("planned_step_us") == 40.1);
  // Our implementation charges the copy once.
  const Case tight(two_readers(), 2, 100_B);
  CHECK(place("m_etf", "variant=pytorch", tight.problem).device == p.device);
}

TEST_CASE("the original's m_topo charges a tensor per reader, and never returns to a device") {
  // Even share: 100 B / 2 + 100 B. a fills 100 of 150 B; b and c add nothing.
  const Case test(two_readers(), 2);
  CHECK(place("m_topo", "variant=pytorch,compat=true", test.problem).device ==
        on({gpu0, gpu0, gpu0}).device);
  // a's 50 B of weights and 100 B of output fill gpu0; b needs 20 B and a copy of 100 B on gpu1,
  // c in the original another copy. Ours copies a tensor once per device if the engine does; else
  // it returns to gpu0, where c needs nothing.
  const Case tight(graph_of("a1000,w50 -t100> b1000,w20; a -t> c1000"), 2, 160_B);
  const std::string options = "variant=pytorch,uniform=false";
  CHECK_THROWS_WITH_AS(place("m_topo", options + ",compat=true", tight.problem),
                       "m_topo, as the original: RuntimeError in _place_ops (m_topo.py): 1 "
                       "operators cannot be placed on devices.",
                       InfeasibleError);
  CHECK(place("m_topo", options, tight.problem).device == on({gpu0, gpu1, gpu1}).device);
  const Problem uncached{tight.graph, tight.cluster, tight.costs, {.cache_tensors = false}};
  CHECK(place("m_topo", options, uncached).device == on({gpu0, gpu1, gpu0}).device);
}

TEST_CASE("transfers are planned in parallel whatever the engine does") {
  // a ends at 10; b follows on gpu0, c and d receive their inputs on gpu1 and gpu2: both at 110
  // or, sequentially, at 110 and 210.
  const Case test(three_tensors(), 3);
  CHECK(place("m_etf", "", test.problem).facts.at("planned_step_us") == 1.210);
  CHECK(place("m_etf", "", test.problem).facts.at("attempts") == 1);  // memory is ample
  CHECK(place("m_etf", "variant=pytorch", test.problem).facts.at("planned_step_us") == 1.110);
  CHECK(place("m_sct", "variant=pytorch", test.problem).facts.at("planned_step_us") == 1.110);
}

TEST_CASE("the plan does not free memory") {
  // Standard: two outputs of 100 B at a time; here all three.
  const Case test(chain(), 1, 200_B);
  CHECK_NOTHROW(place("m_etf", "", test.problem));
  for (const char* name : {"m_topo", "m_etf", "m_sct"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(place(name, "variant=pytorch", test.problem), InfeasibleError);
    const Case ample(chain(), 1, 300_B);
    CHECK_NOTHROW(place(name, "variant=pytorch", ample.problem));
  }
}

TEST_CASE("received copies are charged") {
  // b's 60 B of weights and the copy of a's 100 B that it reads, where a is not: 160 B.
  const OpGraph graph = graph_of("a1000 -100> b1000,w60");
  const Case tight(graph, 2, 159_B);
  CHECK(place("m_topo", "uniform=false,fallback=false", tight.problem).device ==
        on({gpu0, gpu1}).device);
  CHECK_THROWS_WITH_AS(
      place("m_topo", "variant=pytorch,uniform=false", tight.problem),
      "m_topo: no device has memory for op 'b', which needs 60 B; missing: 1 B on gpu0, 1 B "
      "on gpu1",
      InfeasibleError);
  const Case ample(graph, 2, 160_B);
  CHECK_NOTHROW(place("m_topo", "variant=pytorch,uniform=false", ample.problem));
}

TEST_CASE("m_sct accepts favourites up to 0.5") {
  // Neither of two equal readers can be preferred: x is 1/2 on both edges.
  const Case test(two_readers(), 2);
  CHECK(place("m_sct", "", test.problem).facts.at("favourites") <=
        place("m_sct", "variant=pytorch", test.problem).facts.at("favourites"));
  CHECK(place("m_sct", "variant=pytorch,threshold=0.1", test.problem).facts.at("favourites") ==
        place("m_sct", "", test.problem).facts.at("favourites"));
}

TEST_CASE("random graphs: placements are complete, deterministic and executable") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph graph = random_graph({.ops = 2 + random.below(60)}, random);
    const Cluster cluster = random_cluster(1 + random.below(4), random);
    const ProfiledCosts costs(graph, cluster);
    const auto engines = all_engines();
    const Problem problem{graph, cluster, costs, engines[seed % engines.size()]};
    for (const char* name : {"m_topo", "m_etf", "m_sct"}) {
      CAPTURE(name);
      const Placement p = place(name, "variant=pytorch", problem);
      CHECK(p.device == place(name, "variant=pytorch", problem).device);
      CHECK_NOTHROW(require_whole_groups(p, graph, name));
      CHECK_FALSE(simulate(problem, p).oom);
    }
  }
}

TEST_CASE("no memory is reserved for groups") {
  const Case test(two_readers(), 2);
  CHECK_THROWS_WITH_AS(place("m_etf", "variant=pytorch,reserve=true", test.problem),
                       doctest::Contains("m_etf.reserve: "), InputError);
  CHECK_THROWS_WITH_AS(place("m_etf", "variant=torch", test.problem),
                       doctest::Contains("standard, pytorch"), InputError);
}

TEST_CASE("a scenario selects the variant by an option of the placer") {
  const Results results = run_all(sweep_of(R"(
graph: {generate: layered, ops: 50, width: 8}
cluster: {devices: {count: 3, memory: 1 GiB}, fit: pytorch}
placers:
  - m_etf
  - m_etf: {variant: pytorch}
  - m_etf: {variant: pytorch, compat: true}
  - m_topo: {variant: pytorch}
  - m_sct: {variant: pytorch}
)"));
  REQUIRE(results.rows.size() == 5);
  for (const RunResult& row : results.rows) CHECK_MESSAGE(row.status == Status::ok, row.detail);
  CHECK(results.rows[1].placer == "m_etf:variant=pytorch");
}
