// The original Baechi's simulator and placers, by hand. Bit for bit against the original itself:
// goldens_test.cpp.
#include "placers/original/original.h"

#include "placers/interface/registry.h"
#include "tests/prelude.h"

namespace {

StepResult original_step(Problem problem, const Placement& placement,
                         std::span<StepObserver* const> observers) {
  problem.engine.semantics = Semantics::baechi;
  return simulate(problem, placement, observers);
}

//   a(10 us) --100 kB--> b(20 us)      a: 200 kB of weights, b: 50 kB of workspace
//       \------100 kB--> c(30 us)      100 kB take 100 us; b and c read the same tensor
OpGraph two_readers() { return graph_of("a10000,w200000 -t100000> b20000,t50000; a -t> c30000"); }

struct Case : OwnedProblem {
  explicit Case(OpGraph g, std::size_t devices = 2, Bytes memory = 1_GiB)
      : OwnedProblem(std::move(g), gpus(devices, memory), {.semantics = Semantics::baechi}) {}
};

/// Remembers transfers and the most memory seen.
struct Recorder final : StepObserver {
  void on_op(OpId v, DeviceId, TimePoint start, TimePoint) override { ops.emplace_back(v, start); }
  void on_transfer(TensorId, DeviceId, DeviceId, TimePoint start, TimePoint end) override {
    transfers.emplace_back(start, end);
  }
  void on_memory(DeviceId d, const MemoryUse& use, TimePoint) override {
    if (d == gpu0) most = std::max(most, use.total());
  }
  std::vector<std::pair<OpId, TimePoint>> ops;
  std::vector<std::pair<TimePoint, TimePoint>> transfers;
  Bytes most;
};

}  // namespace

TEST_SUITE_BEGIN("baechi");
TEST_CASE("the original's graph has one edge per pair of ops, and weights inside the outputs") {
  //   a --t0, t1, control--> b: one edge; a --t0--> c
  const Case test(graph_of("a0,w7 -t1000> .; a -s2000> b1000; a -t> c1000; a -t> b; a ~> b"));
  const TensorId t1{1};
  const original::Graph view = original::Graph::from(test.graph, test.costs, test.cluster);
  REQUIRE(view.num_edges() == 2);
  CHECK(view.edge(EdgeId{0}).dst == OpId{1});
  CHECK(view.time(EdgeId{0}) == 2000ns + 1000ns + 4ns);
  CHECK(view.sends(EdgeId{0}).size() == 3);
  CHECK(view.sends(EdgeId{0})[0].tensor == t1);  // as added
  CHECK(view.op(OpId{0}).outputs == Bytes{3007});
  CHECK(view.op(OpId{0}).compute == 1us);  // the original knows no op of no length
  CHECK(view.op(OpId{1}).topo == 1);       // in order of out-edges: b, then c
  CHECK(view.op(OpId{2}).topo == 2);
  CHECK(view.num_groups() == 3);  // an op without a group is one alone
}

TEST_CASE("the original's simulator: by hand") {
  const Case test(two_readers());
  Recorder seen;
  StepObserver* observers[] = {&seen};
  const StepResult r = original_step(test.problem, on({gpu0, gpu0, gpu1}), observers);
  // a 0..10 on gpu0, its tensor 10..110, b 10..30 on gpu0, c 110..140 on gpu1
  CHECK(r.makespan == 140us);
  CHECK(r.transfers == 1);
  CHECK(r.events == 4);
  CHECK(r.moved == Bytes{100'000});
  CHECK(r.devices[gpu0].busy == 30us);
  CHECK(r.devices[gpu1].busy == 30us);
  // gpu0: weights 200 and output 100 of a, then workspace 50 of b; gpu1: copies count nothing
  // (Q7)
  CHECK(r.devices[gpu0].peak == Bytes{350'000});
  CHECK(r.devices[gpu0].at_peak[MemoryKind::weights] == Bytes{200'000});
  CHECK(r.devices[gpu0].at_peak[MemoryKind::outputs] == Bytes{100'000});
  CHECK(r.devices[gpu0].at_peak[MemoryKind::workspace] == Bytes{50'000});
  CHECK(r.devices[gpu1].peak == Bytes{0});
  CHECK(seen.most == Bytes{350'000});
  REQUIRE(seen.transfers.size() == 1);
  CHECK(seen.transfers[0] == std::pair(TimePoint{10us}, TimePoint{110us}));
  CHECK(seen.ops.size() == 3);
}

TEST_CASE("a tensor is sent to a device once, one channel sends to two devices in turn") {
  //   b on gpu1 and c on gpu2: the second waits for a's channel
  const Case two(two_readers(), 3);
  CHECK(original_step(two.problem, on({gpu0, gpu1, gpu2}), {}).makespan == 10us + 200us + 30us);
  //   both on gpu1: sent once, b 110..130, c 130..160
  CHECK(original_step(two.problem, on({gpu0, gpu1, gpu1}), {}).makespan == 160us);
  CHECK(original_step(two.problem, on({gpu0, gpu1, gpu1}), {}).transfers == 1);
}

TEST_CASE("m-ETF of the original: by hand") {
  // a on gpu0 0..10; b could start at 10 there, at 110 on gpu1: b 10..30; then c at 30, not 110.
  const Case test(two_readers());
  const Placement p = original::place(test.problem, {.algorithm = original::Algorithm::m_etf});
  CHECK(p.device == on({gpu0, gpu0, gpu0}).device);
  CHECK(p.facts.at("planned_step_us") == 60.0);
}

TEST_CASE("m-TOPO of the original fills each device up to an even share and the largest op") {
  // a 300, b 50, c 0 kB: share 350 / 2 + 300 = 475 kB: all on gpu0
  const Case test(two_readers());
  original::PlacerOptions options{.algorithm = original::Algorithm::m_topo, .colocation = false};
  CHECK(original::place(test.problem, options).device == on({gpu0, gpu0, gpu0}).device);
  // up to a limit of 320 kB: a on gpu0, and b and c on gpu1
  const Case tight(two_readers(), 2, Bytes{320'000});
  options.uniform = false;
  CHECK(original::place(tight.problem, options).device == on({gpu0, gpu1, gpu1}).device);
}

TEST_CASE("m-SCT of the original takes its favourites from the linear program") {
  const Case test(two_readers());
  const Placement p = original::place(test.problem, {.algorithm = original::Algorithm::m_sct});
  // One of b and c goes with a, the other pays 100: 10 + 100 + 20 with c, but 10 + 100 + 30
  // with b. Fractions do better: x of b is 1 - x of c, 10 + 100 x_b + 20 = 10 + 100 x_c + 30 at
  // x_b = 0.55: 85.
  CHECK(p.facts.at("lp_us") == doctest::Approx(85.0).epsilon(1e-6));
  CHECK(p.device == on({gpu0, gpu0, gpu0}).device);
}

TEST_CASE("where the original stops, its exception is the reason") {
  // a needs 300 kB
  const Case test(two_readers(), 2, Bytes{299'999});
  CHECK_THROWS_WITH_AS(
      original::place(test.problem, {.algorithm = original::Algorithm::m_etf, .colocation = false}),
      "m_etf, as the original: AssertionError in run (m_etf.py): # scheduled ops=0, # ops=3: no "
      "ready op fits on any device",
      InfeasibleError);
  CHECK_THROWS_WITH_AS(original::place(test.problem, {.algorithm = original::Algorithm::m_topo,
                                                      .colocation = false,
                                                      .uniform = false}),
                       "m_topo, as the original: RuntimeError in _place_ops (m_topo.py): 3 "
                       "operators cannot be placed on devices.",
                       InfeasibleError);
  // Q4: as a group, 200 kB of weights fit, and then a does not
  CHECK_THROWS_WITH_AS(
      [] {
        const Case grouped(graph_of("a1000,w200,c:x -10> b1000,w50,c:x -500> ."), 2, Bytes{300});
        original::place(grouped.problem, {.algorithm = original::Algorithm::m_etf});
      }(),
      "m_etf, as the original: AssertionError in place_op (m_etf.py): Cannot place op 1 on dev 0. "
      "required=550, avail=300, at op 'b'",
      InfeasibleError);
}

TEST_CASE("what the original cannot express is rejected") {
  Case test(two_readers());
  Options options("m_etf", {{"compat", {"true", "", {}}},
                            {"colocation", {"false", "", {}}},
                            {"reserve", {"true", "f.yaml:3:9", {}}}});
  CHECK_REFUSED(make_placer("m_etf", std::move(options)),
                "f.yaml:3:9: m_etf.reserve: with compat it needs colocation: the original stops at "
                "the first op (KeyError)");
  test.cluster.set_link(gpu1, gpu0, {.bandwidth = 2.0_GBps, .latency = 0ns});
  CHECK_REFUSED(original_step(test.problem, on({gpu0, gpu0, gpu1}), {}),
                "the original Baechi knows one link for all pairs of devices, but 'gpu1' -> 'gpu0' "
                "differs from 'gpu0' -> 'gpu1'");
}
