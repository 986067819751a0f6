#include "sim/graph/analysis.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"

namespace {

/// The example of the HEFT paper (figure 2): ten tasks, three processors, times in thirds of the
/// paper's unit, so that means over three processors are whole.
struct HeftPaper {
  OpGraph graph;
  Cluster cluster;
};
HeftPaper heft_paper() {
  constexpr int unit = 3;
  constexpr int times[10][3] = {{14, 16, 9}, {13, 19, 18}, {11, 13, 19}, {13, 8, 17},  {12, 13, 10},
                                {13, 16, 9}, {7, 15, 11},  {5, 11, 14},  {18, 12, 20}, {21, 7, 16}};
  constexpr int edges[15][3] = {{1, 2, 18}, {1, 3, 12}, {1, 4, 9},   {1, 5, 11},  {1, 6, 14},
                                {2, 8, 19}, {2, 9, 16}, {3, 7, 23},  {4, 8, 27},  {4, 9, 23},
                                {5, 9, 13}, {6, 8, 15}, {7, 10, 17}, {8, 10, 11}, {9, 10, 13}};
  OpGraphBuilder g;
  for (int i = 0; i < 10; ++i) {
    const OpId v = g.add_op({.name = fmt::format("t{}", i + 1)});
    for (int k = 0; k < 3; ++k)
      g.set_compute(v, fmt::format("p{}", k + 1), Duration(unit * times[i][k]));
  }
  for (const auto& [from, to, cost] : edges) {
    const TensorId t = g.add_tensor(static_cast<OpId>(from - 1), 0_B);
    g.set_transfer(t, Duration(unit * cost));
    g.add_edge(t, static_cast<OpId>(to - 1));
  }
  return {std::move(g).build(), of_kinds({"p1", "p2", "p3"})};
}

}  // namespace
TEST_SUITE_BEGIN("placers");
TEST_CASE("upward ranks of the HEFT paper's example") {
  const HeftPaper paper = heft_paper();
  IdVector<OpId, Duration> mean(10);
  IdVector<TensorId, Duration> transfer(paper.graph.num_tensors());
  for (const OpId v : paper.graph.ops())
    mean[v] =
        (*paper.graph.compute(v, 0) + *paper.graph.compute(v, 1) + *paper.graph.compute(v, 2)) / 3;
  for (const TensorId t : paper.graph.tensors()) transfer[t] = *paper.graph.measured_transfer(t);
  const auto rank = b_levels(paper.graph, mean, transfer);
  // Published (table 3): 108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667.
  const int thirds[] = {324, 231, 240, 240, 207, 190, 128, 107, 133, 44};
  std::size_t i = 0;
  for (const Duration r : rank) CHECK(r == Duration(thirds[i++]));
}

TEST_CASE("heft finds the HEFT paper's schedule of its example") {
  const HeftPaper paper = heft_paper();
  const Placement p = place("heft", paper.graph, paper.cluster);
  // Figure 3(a): p1 runs 2 and 8, p2 runs 4, 6, 9 and 10, p3 runs 1, 3, 5 and 7; length 80.
  CHECK(devices(p) == "2 0 2 1 2 1 2 0 1 1");
  CHECK(p.facts.at("planned_step_us") == doctest::Approx(0.240));
  // Where transfers do not queue, the engine confirms it.
  const ProfiledCosts costs(paper.graph, paper.cluster);
  const EngineOptions engine{.transfers = Transfers::parallel, .queue = ReadyOrder::priority};
  CHECK(simulate({paper.graph, paper.cluster, costs, engine}, p).makespan == 240ns);
}

TEST_CASE("heft fills a gap that an op waiting for its input leaves") {
  // x is quick on p2 only, y and z on p1 only; y reads x, 20 ns away. On p1: z [0, 5), y [30, 40).
  const OpGraph graph = graph_of("x0,@p1=1000,@p2=10 -20> y0,@p1=10,@p2=1000; z0,@p1=5,@p2=900");
  const Placement p = place("heft", graph, of_kinds({"p1", "p2"}));
  CHECK(devices(p) == "1 0 0");
  CHECK(p.facts.at("planned_step_us") == doctest::Approx(0.040));
  CHECK(p.priority[OpId{2}] > p.priority[OpId{1}]);  // z starts before y
}

// p(10) --30 B--> r(40) <-- q(5)     s(35)     q and r share a group
// By upward rank p comes first, on gpu0 until 10, then q on gpu1 until 5, then r, whose input is on
// gpu1 at 40. s fits into the gap of gpu1 from 5 to 40 exactly; on gpu0 it would end at 45.
TEST_CASE("heft fills a gap exactly to its end") {
  const OpGraph graph = graph_of("p10 -30> r40,c:x; q5,c:x ~> r; s35");
  REQUIRE(graph.name(OpId{1}) == "q");
  CHECK(devices(place("heft", graph, gpus(2))) == "0 1 1 1");
}

//   a(10) --control--> c(10) <--control-- b(10)     a and b on a device each until 10
// A control edge takes 4 ns to another device, and c ends at 24; where control edges are free,
// at 20.
TEST_CASE("heft schedules no time for free control edges") {
  const OpGraph graph = graph_of("a10; b10; a ~> c10; b ~> c");
  CHECK(place("heft", graph, gpus(2)).facts.at("planned_step_us") == 0.024);
  CHECK(place("heft", graph.with_free_controls(), gpus(2)).facts.at("planned_step_us") == 0.020);
}

TEST_CASE("heft skips a device without enough memory, and reports what does not fit") {
  CHECK(devices(place("heft", weights({60, 50, 30}), gpus(2, 90_B))) == "0 1 0");
  CHECK(message<InfeasibleError>([] { place("heft", weights({60, 50}), gpus(1, 100_B)); }) ==
        "heft: op 'b' has no room left on any device: needs 50 B persistent and 0 B while running; "
        "missing: 10 B on gpu0");
  // Not on an empty device either: 110 B exceed its 100 B.
  CHECK(message<InfeasibleError>([] { place("heft", weights({110}), gpus(1, 100_B)); }) ==
        "heft: op 'a' fits on no device: needs 110 B persistent and 0 B while running; missing: 10 "
        "B on gpu0");
}
