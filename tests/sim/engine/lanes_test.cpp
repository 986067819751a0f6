#include "sim/error.h"
#include "tests/checker/recorded.h"
#include "tests/prelude.h"

namespace {

/// Two devices; each runs forward (10), then its member of an all_reduce of 100 B, and concurrently
/// an op `beside`; then an update (5) that waits for the all_reduce.
OpGraph two_replicas(Duration first, Duration second, Duration beside) {
  std::string text;
  for (const auto& [rank, forward] : {std::pair{0, first}, std::pair{1, second}})
    text += fmt::format(
        "forward{0}={1} ~> beside{0}={2}; forward{0} -100> sum{0}=0,x:all_reduce/100 -&100> "
        "update{0}=5;",
        rank, forward.count(), beside.count());
  return graph_of(text);
}

IdVector<OpId, DeviceId> by_rank(const OpGraph& graph) {
  IdVector<OpId, DeviceId> device;
  for (const OpId v : graph.ops()) device.push_back(graph.name(v).back() == '0' ? gpu0 : gpu1);
  return device;
}

/// "first" (5 ns, on the host's lane), then "beside" (30 ns); a collective of 50 ns waits for none.
OpGraph collective_beside_op() {
  return graph_of("sum0,x:all_gather/100/2; first5,l:host ~> beside30").with_free_controls();
}

}  // namespace

TEST_SUITE_BEGIN("lanes");
TEST_CASE("lanes of a device run concurrently, and share its memory") {
  const OpGraph graph = graph_of("a30,t10; c20,t5,l:copy -3> d20,l:copy");
  CHECK(graph.lanes() == std::vector<std::string>{"compute", "copy"});
  const Recorded s(graph, gpus(1), on({gpu0, gpu0, gpu0}));
  CHECK(s.start_of("c") == 0ns);
  CHECK(s.start_of("d") == 20ns);
  CHECK(s.result().makespan == 40ns);
  CHECK(s.result().devices[gpu0].busy == 30ns);  // lane "compute" alone
  CHECK(s.result().devices[gpu0].peak == 18_B);
}

// b is added first, and a has the smaller id: lane "second" goes before lane "first", and the
// first request is a's workspace. A copy of the graph, whose ops are added by id, is the same.
TEST_CASE("at a tie lanes go by the least ids of their ops") {
  const OpGraph graph = graph_of("z0; b0,t6,l:first; a0,t6,l:second; y0; z ~> y ~> b; z ~> a");
  REQUIRE(graph.name(OpId{1}) == "a");
  CHECK(graph.lanes() == std::vector<std::string>{"compute", "second", "first"});
}

TEST_CASE("in program order a lane waits for its next op though a later one is ready") {
  const OpGraph graph = graph_of("slow50,l:host ~> next10; later10").with_free_controls();
  const Placement all = on({gpu0, gpu0, gpu0});
  const Recorded fifo(graph, gpus(1), all);
  CHECK(fifo.start_of("later") == 0ns);
  const Recorded program(graph, gpus(1), all, {.queue = ReadyOrder::program});
  CHECK(program.start_of("next") == 50ns);
  CHECK(program.start_of("later") == 60ns);
  CHECK(program.result().makespan == 70ns);
}

TEST_CASE("without overlap only lane compute waits for transfers") {
  const OpGraph graph =
      graph_of("a10 -100> far1; near1; host1,l:host; a ~> near; a ~> host").with_free_controls();
  const Recorded s(graph, gpus(2), on({gpu0, gpu1, gpu0, gpu0}), {.overlap = false});
  CHECK(s.start_of("host") == 10ns);
  CHECK(s.start_of("near") == 110ns);
}

TEST_CASE("a collective starts when its last member arrives and ends for all at once") {
  // The second device arrives at 40. Two ranks, 100 B at 1 B/ns: 2 steps of 50 ns.
  const OpGraph graph = two_replicas(10ns, 40ns, 0ns);
  const Recorded s(graph, gpus(2), {.device = by_rank(graph)});
  CHECK(s.start_of("sum0") == 40ns);
  CHECK(s.start_of("update0") == 140ns);
  CHECK(s.start_of("update1") == 140ns);
  CHECK(s.result().makespan == 145ns);
  CHECK(s.result().devices[gpu0].in_collectives == 100ns);
  CHECK(s.result().devices[gpu0].busy == 15ns);
}

TEST_CASE("concurrent ops and collectives slow each other by the engine's factors") {
  const OpGraph graph = two_replicas(10ns, 10ns, 30ns);
  // "beside" starts at 10, before the collective, which takes 130; the update waits for it.
  const Recorded slow(graph, gpus(2), {.device = by_rank(graph)}, {.overlapped = 1.3});
  CHECK(slow.start_of("update0") == 140ns);
  // Nothing computes when the collective starts, but "beside" 5 ns later, for 60.
  const OpGraph alone = collective_beside_op();
  const Recorded disturbed(alone, gpus(1), on({gpu0, gpu0, gpu0}), {.disturbed = 2.0});
  CHECK(disturbed.start_of("beside") == 5ns);
  CHECK(disturbed.result().makespan == 65ns);
  CHECK_REFUSED(Recorded(alone, gpus(1), on({gpu0, gpu0, gpu0}), {.disturbed = 1e18}),
                "engine.disturbed: 1e+18: a step could take more than 146 years");
}

TEST_CASE("without overlap a device computes or is in a collective, never both") {
  const OpGraph graph = two_replicas(10ns, 10ns, 30ns);
  // "beside" takes 10 to 40, and the collective waits for it: 100 ns from 40.
  const Recorded waits(graph, gpus(2), {.device = by_rank(graph)}, {.overlap = false});
  CHECK(waits.start_of("sum0") == 40ns);
  CHECK(waits.start_of("update0") == 140ns);
  // The collective takes 0 to 50, and "beside", ready at 5, waits for it.
  const OpGraph alone = collective_beside_op();
  const Recorded held(alone, gpus(1), on({gpu0, gpu0, gpu0}), {.overlap = false});
  CHECK(held.start_of("beside") == 50ns);
  CHECK(held.result().makespan == 80ns);
}

TEST_CASE("replicas that are not simulated are included in a collective's time") {
  const OpGraph graph = graph_of("sum0,x:all_reduce/800/8");
  // 14 steps of 100 B.
  CHECK(Recorded(graph, gpus(1), on({gpu0})).result().makespan == 1400ns);
}

TEST_CASE("collectives of one lane start in the order in which their last members arrived") {
  const OpGraph graph =
      graph_of(
          "a20; late0=0,x:all_reduce/100/2/late; late1=0,x:all_reduce/100/2/late; "
          "soon0=0,x:all_reduce/100/2/soon; soon1=0,x:all_reduce/100/2/soon; a ~> late0")
          .with_free_controls();
  Placement p{.device = by_rank(graph)};
  p.device[*graph.find("a")] = gpu0;
  const Recorded fifo(graph, gpus(2), p);
  CHECK(fifo.start_of("soon0") == 0ns);
  CHECK(fifo.start_of("late0") == 100ns);
  const Recorded program(graph, gpus(2), p, {.queue = ReadyOrder::program});
  CHECK(program.start_of("late0") == 20ns);
  CHECK(program.start_of("soon0") == 120ns);
}

// At 10 ns gpu0's member completes `second`, then gpu1's completes `first`.
TEST_CASE("collectives that are complete at one instant start by id") {
  const OpGraph graph = graph_of(
                            "y0=10; x1=10; first0=0,x:all_reduce/100/2/a; "
                            "first1=0,x:all_reduce/100/2/a; second0=0,x:all_reduce/100/2/b; "
                            "second1=0,x:all_reduce/100/2/b; x1 ~> first1; y0 ~> second0")
                            .with_free_controls();
  const Placement p{.device = by_rank(graph)};
  const Recorded s(graph, gpus(2), p);
  CHECK(s.start_of("first0") == 10ns);
  CHECK(s.start_of("second0") == 110ns);
}

TEST_CASE("collectives that wait for each other are rejected, with the cycle") {
  // Device 0 has a before b, device 1 b before a.
  CHECK_REFUSED(graph_of("a0=0,x:all_reduce/1/2/a; a1=0,x:all_reduce/1/2/a; "
                         "b0=0,x:all_reduce/1/2/b; b1=0,x:all_reduce/1/2/b; a0 ~> b0; b1 ~> a1"),
                "graph: a cycle: a0 -> b0 -> a0 (the members of a collective start together and "
                "count as one op)");
}

TEST_CASE("members have adjacent ids, a device each, and no time of their own") {
  const OpGraph graph = graph_of("x0,x:all_reduce/1; y1; z0,x:all_reduce/1");
  CHECK(graph.name(OpId{0}) == "x");
  CHECK(graph.name(OpId{1}) == "z");
  CHECK(graph.collective_of(OpId{1}) == CollectiveId{0});
  CHECK(graph.collective_of(OpId{2}) == no_collective);
  CHECK(graph.collectives()[CollectiveId{0}].ranks == 2);
  const Cluster cluster = gpus(2);
  CHECK_REFUSED(run(graph, cluster, on({gpu0, gpu0, gpu0})),
                "'x' and 'z' are on the same device, but members of one all_reduce: place them on "
                "different devices");
  OpGraphBuilder wrong;
  const OpId timed = wrong.add_op({.name = "timed", .compute = 1ns});
  wrong.add_collective({.bytes = 1_B, .ranks = 1}, {{timed, timed}});
  CHECK_REFUSED(std::move(wrong).build(), doctest::Contains("twice"));
}

TEST_CASE("a member whose memory does not fit ends the step before any member starts") {
  const OpGraph graph = graph_of("x0,t5,x:all_reduce/1; y0,t50,x:all_reduce/1");
  const Recorded s(graph, gpus(2, 20_B), on({gpu0, gpu1}));
  REQUIRE(s.result().oom);
  CHECK(graph.name(s.result().oom->op) == "y");
  CHECK(s.result().devices[gpu0].peak == 0_B);
}
