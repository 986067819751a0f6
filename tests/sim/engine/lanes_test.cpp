#include "sim/error.h"
#include "tests/checker/recorded.h"
#include "tests/message.h"
#include "tests/prelude.h"
#include "tests/small_graphs.h"

namespace {

/// Two devices; each runs forward (10), then its member of an all_reduce of 100 B, and concurrently
/// an op `beside`; then an update (5) that waits for the all_reduce.
OpGraph two_replicas(Duration first, Duration second, Duration beside) {
  OpGraphBuilder b;
  std::vector<OpId> members;
  for (const auto& [rank, forward] : {std::pair{"0", first}, std::pair{"1", second}}) {
    const std::string r = rank;
    const OpId f = b.add_op({.name = "forward" + r, .compute = forward});
    const OpId more = b.add_op({.name = "beside" + r, .compute = beside});
    const OpId member = b.add_op({.name = "sum" + r});
    const OpId update = b.add_op({.name = "update" + r, .compute = 5ns});
    b.add_control(f, more);
    b.add_edge(b.add_tensor(f, 100_B), member);
    b.add_edge(b.add_tensor(member, 100_B, true), update);
    members.push_back(member);
  }
  b.add_collective({.kind = CollectiveKind::all_reduce, .bytes = 100_B}, members);
  return std::move(b).build();
}

IdVector<OpId, DeviceId> by_rank(const OpGraph& graph) {
  IdVector<OpId, DeviceId> device;
  for (const OpId v : graph.ops()) device.push_back(graph.name(v).back() == '0' ? gpu0 : gpu1);
  return device;
}

/// "first" (5 ns, on the host's lane), then "beside" (30 ns); a collective of 50 ns waits for none.
OpGraph collective_beside_op() {
  OpGraphBuilder b;
  const OpId member = b.add_op({.name = "sum"});
  const OpId first = b.add_op({.name = "first", .compute = 5ns, .lane = "host"});
  const OpId beside = b.add_op({.name = "beside", .compute = 30ns});
  b.add_control(first, beside);
  b.add_collective({.kind = CollectiveKind::all_gather, .bytes = 100_B, .ranks = 2}, {{member}});
  return std::move(b).build().with_free_controls();
}

}  // namespace

TEST_SUITE("lanes") {
  TEST_CASE("lanes of a device run concurrently, and share its memory") {
    OpGraphBuilder b;
    b.add_op({.name = "a", .compute = 30ns, .temporary = 10_B});
    const OpId c = b.add_op({.name = "c", .compute = 20ns, .temporary = 5_B, .lane = "copy"});
    const OpId d = b.add_op({.name = "d", .compute = 20ns, .lane = "copy"});
    b.add_edge(b.add_tensor(c, 3_B), d);
    const OpGraph graph = std::move(b).build();
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
    OpGraphBuilder b;
    const OpId z = b.add_op({.name = "z"});
    const OpId late = b.add_op({.name = "b", .temporary = 6_B, .lane = "first"});
    const OpId early = b.add_op({.name = "a", .temporary = 6_B, .lane = "second"});
    const OpId between = b.add_op({.name = "y"});
    b.add_control(z, between);
    b.add_control(between, late);
    b.add_control(z, early);
    const OpGraph graph = std::move(b).build();
    REQUIRE(graph.name(OpId{1}) == "a");
    CHECK(graph.lanes() == std::vector<std::string>{"compute", "second", "first"});
  }

  TEST_CASE("in program order a lane waits for its next op though a later one is ready") {
    OpGraphBuilder b;
    const OpId slow = b.add_op({.name = "slow", .compute = 50ns, .lane = "host"});
    const OpId next = b.add_op({.name = "next", .compute = 10ns});
    b.add_op({.name = "later", .compute = 10ns});
    b.add_control(slow, next);
    const OpGraph graph = std::move(b).build().with_free_controls();
    const Placement all = on({gpu0, gpu0, gpu0});
    const Recorded fifo(graph, gpus(1), all);
    CHECK(fifo.start_of("later") == 0ns);
    const Recorded program(graph, gpus(1), all, {.queue = ReadyOrder::program});
    CHECK(program.start_of("next") == 50ns);
    CHECK(program.start_of("later") == 60ns);
    CHECK(program.result().makespan == 70ns);
  }

  TEST_CASE("without overlap only lane compute waits for transfers") {
    OpGraphBuilder b;
    const OpId a = b.add_op({.name = "a", .compute = 10ns});
    b.add_edge(b.add_tensor(a, 100_B), b.add_op({.name = "far", .compute = 1ns}));
    const OpId near = b.add_op({.name = "near", .compute = 1ns});
    const OpId host = b.add_op({.name = "host", .compute = 1ns, .lane = "host"});
    b.add_control(a, near);
    b.add_control(a, host);
    const OpGraph graph = std::move(b).build().with_free_controls();
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
    CHECK(message<InputError>([&] {
            Recorded(alone, gpus(1), on({gpu0, gpu0, gpu0}), {.disturbed = 1e18});
          }) == "engine.disturbed: 1e+18: a step could take more than 146 years");
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
    OpGraphBuilder b;
    const OpId member = b.add_op({.name = "sum"});
    b.add_collective({.kind = CollectiveKind::all_reduce, .bytes = 800_B, .ranks = 8}, {{member}});
    const OpGraph graph = std::move(b).build();
    // 14 steps of 100 B.
    CHECK(Recorded(graph, gpus(1), on({gpu0})).result().makespan == 1400ns);
  }

  TEST_CASE("collectives of one lane start in the order in which their last members arrived") {
    OpGraphBuilder b;
    const OpId a = b.add_op({.name = "a", .compute = 20ns});
    std::vector<OpId> members;
    for (const std::string name : {"late0", "late1", "soon0", "soon1"})
      members.push_back(b.add_op({.name = name}));
    b.add_control(a, members[0]);
    b.add_collective({.bytes = 100_B}, std::span(members).first(2));
    b.add_collective({.bytes = 100_B}, std::span(members).last(2));
    const OpGraph graph = std::move(b).build().with_free_controls();
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
    OpGraphBuilder b;
    const OpId y = b.add_op({.name = "y0", .compute = 10ns});
    const OpId x = b.add_op({.name = "x1", .compute = 10ns});
    std::vector<OpId> members;
    for (const std::string name : {"first0", "first1", "second0", "second1"})
      members.push_back(b.add_op({.name = name}));
    b.add_control(x, members[1]);
    b.add_control(y, members[2]);
    b.add_collective({.bytes = 100_B}, std::span(members).first(2));
    b.add_collective({.bytes = 100_B}, std::span(members).last(2));
    const OpGraph graph = std::move(b).build().with_free_controls();
    const Placement p{.device = by_rank(graph)};
    const Recorded s(graph, gpus(2), p);
    CHECK(s.start_of("first0") == 10ns);
    CHECK(s.start_of("second0") == 110ns);
  }

  TEST_CASE("collectives that wait for each other are rejected, with the cycle") {
    OpGraphBuilder b;
    std::vector<OpId> m;
    for (const std::string name : {"a0", "a1", "b0", "b1"}) m.push_back(b.add_op({.name = name}));
    b.add_control(m[0], m[2]);  // device 0: a before b
    b.add_control(m[3], m[1]);  // device 1: b before a
    b.add_collective({.bytes = 1_B}, std::span(m).first(2));
    b.add_collective({.bytes = 1_B}, std::span(m).last(2));
    CHECK(message<InputError>([&] { std::move(b).build(); }) ==
          "graph: a cycle: a0 -> b0 -> a0 (the members of a collective start together and count as "
          "one op)");
  }

  TEST_CASE("members have adjacent ids, a device each, and no time of their own") {
    OpGraphBuilder b;
    const OpId x = b.add_op({.name = "x"});
    const OpId y = b.add_op({.name = "y", .compute = 1ns});
    const OpId z = b.add_op({.name = "z"});
    b.add_collective({.bytes = 1_B}, {{x, z}});
    OpGraph graph = std::move(b).build();
    CHECK(graph.name(OpId{0}) == "x");
    CHECK(graph.name(OpId{1}) == "z");
    CHECK(graph.collective_of(OpId{1}) == CollectiveId{0});
    CHECK(graph.collective_of(OpId{2}) == no_collective);
    CHECK(graph.collectives()[CollectiveId{0}].ranks == 2);
    const Cluster cluster = gpus(2);
    CHECK(message<InputError>([&] { run(graph, cluster, on({gpu0, gpu0, gpu0})); }) ==
          "'x' and 'z' are on the same device, but members of one all_reduce: place them on "
          "different devices");
    OpGraphBuilder wrong;
    const OpId timed = wrong.add_op({.name = "timed", .compute = 1ns});
    wrong.add_collective({.bytes = 1_B, .ranks = 1}, {{timed, timed}});
    CHECK(message<InputError>([&] { std::move(wrong).build(); }).find("twice") !=
          std::string::npos);
    (void)y;
  }

  TEST_CASE("a member whose memory does not fit ends the step before any member starts") {
    OpGraphBuilder b;
    const OpId x = b.add_op({.name = "x", .temporary = 5_B});
    const OpId y = b.add_op({.name = "y", .temporary = 50_B});
    b.add_collective({.bytes = 1_B}, {{x, y}});
    const OpGraph graph = std::move(b).build();
    const Recorded s(graph, gpus(2, 20_B), on({gpu0, gpu1}));
    REQUIRE(s.result().oom);
    CHECK(graph.name(s.result().oom->op) == "y");
    CHECK(s.result().devices[gpu0].peak == 0_B);
  }
}
