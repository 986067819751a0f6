#include <thread>

#include "tests/checker/recorded.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"

namespace {

constexpr EngineOptions with(Transfers transfers) { return {.transfers = transfers}; }

using Times = std::vector<Duration>;

//   a(10) --x 100 B--> d(1)      a, e on gpu0; b, d on gpu1; c on gpu2; f on gpu3
//     \-----y 100 B--> d
//   b(10) --z 100 B--> e(1)
//   c(10) --w 100 B--> f(1)
OpGraph four_crossings() {
  return graph_of("a10; b10; c10; a -100> d1; a -100> d; b -100> e1; c -100> f1");
}

//   s(5)  --p 100 B--> u(1)      s on gpu3; a on gpu0; u, v on gpu1; w on gpu2
//   a(10) --x 50 B---> v(1)
//     \-----y 50 B---> w(1)
OpGraph busy_receiver() { return graph_of("s5; a10; s -100> u1; a -50> v1; a -50> w1"); }

}  // namespace

TEST_SUITE_BEGIN("engine");
TEST_CASE("an empty graph takes no time") {
  const StepResult r = run(OpGraphBuilder().build(), gpus(2), on({}));
  CHECK(r.makespan == 0ns);
  CHECK(r.events == 0);
  CHECK(r.devices.size() == 2);
}

TEST_CASE("one op takes its time") {
  const StepResult r = run(graph_of("a7"), gpus(2), on({gpu1}));
  CHECK(r.makespan == 7ns);
  CHECK(r.devices[gpu0].busy == 0ns);
  CHECK(r.devices[gpu1].busy == 7ns);
  CHECK(r.events == 1);
}

TEST_CASE("on one device, ops run one after another without transfers") {
  const StepResult r = run(one_tensor_two_readers(), gpus(2), on({gpu0, gpu0, gpu0}));
  CHECK(r.makespan == 60ns);
  CHECK(r.moved == 0_B);
  CHECK(r.transfers == 0);
  CHECK(r.devices[gpu0].busy == 60ns);
  CHECK(r.devices[gpu1].busy == 0ns);
}

TEST_CASE("a tensor with two readers on another device crosses once if cached, twice if not") {
  const OpGraph graph = one_tensor_two_readers();
  const Placement split = on({gpu0, gpu1, gpu1});
  const Recorded once(graph, gpus(2), split, {.cache_tensors = true});
  CHECK(once.result().makespan == 160ns);  // 10 + 100 + 20 + 30
  CHECK(once.result().moved == 100_B);
  CHECK(once.use(gpu1, 10ns)[MemoryKind::copies] == 100_B);
  CHECK(once.use(gpu1, 130ns)[MemoryKind::copies] == 100_B);  // c still reads it
  CHECK(once.use(gpu1, 160ns)[MemoryKind::copies] == 0_B);

  const Recorded twice(graph, gpus(2), split, {.cache_tensors = false});
  CHECK(twice.result().makespan == 240ns);  // 10 + 100 (b runs while c's crosses) + 100 + 30
  CHECK(twice.result().moved == 200_B);
  CHECK(twice.start_of("b") == 110ns);  // the first copy is for the first edge
  CHECK(twice.start_of("c") == 210ns);
  CHECK(twice.use(gpu1, 110ns)[MemoryKind::copies] == 200_B);
  CHECK(twice.use(gpu1, 130ns)[MemoryKind::copies] == 100_B);
  CHECK(twice.use(gpu0, 110ns)[MemoryKind::outputs] == 100_B);  // until it has left twice
  CHECK(twice.use(gpu0, 210ns)[MemoryKind::outputs] == 0_B);
}

TEST_CASE("which transfers may run concurrently in each mode") {
  const OpGraph graph = four_crossings();
  const Placement p = on({gpu0, gpu1, gpu2, gpu1, gpu0, gpu3});
  // parallel: x, y, z, w all cross from 10 to 110.
  const Recorded parallel(graph, gpus(4), p, with(Transfers::parallel));
  CHECK(parallel.transfers_to(gpu1) == Times{10ns, 10ns});
  CHECK(parallel.result().makespan == 111ns);
  // duplex: y waits for x at both ends; z goes the other way meanwhile.
  const Recorded duplex(graph, gpus(4), p, with(Transfers::duplex));
  CHECK(duplex.transfers_to(gpu1) == Times{10ns, 110ns});
  CHECK(duplex.transfers_to(gpu0) == Times{10ns});
  CHECK(duplex.result().makespan == 211ns);
  // sequential: gpu0 and gpu1 are held by x, then y (the lower tensor), then z; w is between
  // others.
  const Recorded sequential(graph, gpus(4), p, with(Transfers::sequential));
  CHECK(sequential.transfers_to(gpu1) == Times{10ns, 110ns});
  CHECK(sequential.transfers_to(gpu0) == Times{210ns});
  CHECK(sequential.transfers_to(gpu3) == Times{10ns});
  CHECK(sequential.result().makespan == 311ns);
  // shared: x, y, z, w one after another.
  const Recorded shared(graph, gpus(4), p, with(Transfers::shared));
  CHECK(shared.transfers_to(gpu0) == Times{210ns});
  CHECK(shared.transfers_to(gpu3) == Times{310ns});
  CHECK(shared.result().makespan == 411ns);
}

TEST_CASE("staged transfers hold one channel after the other") {
  const OpGraph graph = four_crossings();
  const Placement p = on({gpu0, gpu1, gpu2, gpu1, gpu0, gpu3});
  // Each takes 50 out and 50 in. x leaves gpu0 from 10 to 60, y from 60 to 110; gpu1 has x in
  // from 60 to 110, y from 110 to 160; z crosses the other way from 10 to 110.
  const Recorded staged(graph, gpus(4), p, with(Transfers::staged));
  CHECK(staged.transfers_to(gpu1) == Times{10ns, 60ns});
  CHECK(staged.transfers_to(gpu0) == Times{10ns});
  CHECK(staged.result().makespan == 161ns);
}

TEST_CASE("the latency of a staged transfer holds nothing") {
  // a(10) --100 B--> b, 100 B--> c; both cross at a byte a nanosecond, after 30: x leaves from 40
  // to 90, y from 90 to 140, and is there at 190.
  const OpGraph graph = graph_of("a10 -100> b1; a -100> c1");
  const Cluster cluster = Cluster::uniform(2, 1_GiB, {.bandwidth = {1e9}, .latency = 30ns});
  const Recorded staged(graph, cluster, on({gpu0, gpu1, gpu1}), with(Transfers::staged));
  CHECK(staged.transfers_to(gpu1) == Times{40ns, 90ns});
  CHECK(staged.result().makespan == 191ns);
}

TEST_CASE("a transfer that cannot start blocks its queue") {
  const OpGraph graph = busy_receiver();
  const Placement p = on({gpu3, gpu0, gpu1, gpu1, gpu2});
  // p holds gpu1 from 5 to 105. x (first in gpu0's queue at 10) needs gpu1; y needs only gpu0 and
  // gpu2, which are free, but waits: x 105-155, y 155-205.
  for (const Transfers mode : {Transfers::sequential, Transfers::duplex}) {
    const Recorded r(graph, gpus(4), p, with(mode));
    CHECK(r.transfers_to(gpu1) == Times{5ns, 105ns});
    CHECK(r.transfers_to(gpu2) == Times{155ns});
    CHECK(r.result().makespan == 206ns);
  }
  CHECK(Recorded(graph, gpus(4), p, with(Transfers::parallel)).transfers_to(gpu2) == Times{10ns});
}

TEST_CASE("tensors are sent in the order of production, then of tensor, then of receiver") {
  // a on gpu0 writes t0 and t1 at 10, b on gpu0 writes t2 at 15.
  // t0 goes to gpu2 and gpu1 (the lower id first), t1 to gpu2, t2 to gpu1; each takes 100.
  OpGraphBuilder g;
  const OpId a = g.add_op({.name = "a", .compute = 10ns});
  const OpId b = g.add_op({.name = "b", .compute = 5ns});
  const TensorId t0 = g.add_tensor(a, 100_B);
  const TensorId t1 = g.add_tensor(a, 100_B);
  const TensorId t2 = g.add_tensor(b, 100_B);
  const auto reader = [&](std::string_view name, TensorId t) {
    g.add_edge(t, g.add_op({.name = name, .compute = 1ns}));
  };
  reader("t0 to gpu2", t0);
  reader("t0 to gpu1", t0);
  reader("t1 to gpu2", t1);
  reader("t2 to gpu1", t2);
  const OpGraph graph = std::move(g).build();
  const Recorded r(graph, gpus(3), on({gpu0, gpu0, gpu2, gpu1, gpu2, gpu1}));
  CHECK(r.start_of("t0 to gpu1") == 110ns);
  CHECK(r.start_of("t0 to gpu2") == 210ns);
  CHECK(r.start_of("t1 to gpu2") == 310ns);
  CHECK(r.start_of("t2 to gpu1") == 410ns);
  // If b runs first, t2 is produced at 5, a's tensors at 15: t2 goes before them.
  Placement b_first = on({gpu0, gpu0, gpu2, gpu1, gpu2, gpu1});
  b_first.priority.assign(graph.num_ops(), 0);
  b_first.priority[OpId{1}] = 1;
  const Recorded s(graph, gpus(3), b_first, {.queue = ReadyOrder::priority});
  CHECK(s.start_of("t2 to gpu1") == 105ns);
  CHECK(s.start_of("t0 to gpu1") == 205ns);
}

TEST_CASE("of two senders, the tensor produced first goes first, then the lower tensor") {
  // a (gpu0) and b (gpu1) both write 100 B for gpu2, a at 10, b at 10 or 9.
  for (const Duration b_time : {Duration{10}, Duration{9}}) {
    OpGraphBuilder g;
    const OpId a = g.add_op({.name = "a", .compute = 10ns});
    const OpId b = g.add_op({.name = "b", .compute = b_time});
    g.add_edge(g.add_tensor(a, 100_B), g.add_op({.name = "reads a", .compute = 1ns}));
    g.add_edge(g.add_tensor(b, 100_B), g.add_op({.name = "reads b", .compute = 1ns}));
    const OpGraph graph = std::move(g).build();
    const Recorded r(graph, gpus(3), on({gpu0, gpu1, gpu2, gpu2}));
    CHECK(r.start_of("reads a") == (b_time == 10ns ? 110ns : 209ns));
    CHECK(r.start_of("reads b") == (b_time == 10ns ? 210ns : 109ns));
  }
}

TEST_CASE("ready ops run first come first served, then by id, or by priority, then by id") {
  //  p(5) on gpu1 --10 B--> b(1), the rest are sources; all but p on gpu0: a(20), b, c(1), d(1).
  //  While a runs from 0, c and d wait since 0, b since 15.
  const OpGraph graph = graph_of("p5; a20; b1; c1; d1; p -10> b");
  Placement placement = on({gpu1, gpu0, gpu0, gpu0, gpu0});

  const Recorded fifo(graph, gpus(2), placement);
  CHECK(fifo.start_of("c") == 20ns);
  CHECK(fifo.start_of("d") == 21ns);
  CHECK(fifo.start_of("b") == 22ns);

  // Without priorities all are equal: by id.
  const Recorded by_id(graph, gpus(2), placement, {.queue = ReadyOrder::priority});
  CHECK(by_id.start_of("b") == 20ns);
  CHECK(by_id.start_of("c") == 21ns);
  CHECK(by_id.start_of("d") == 22ns);

  for (const std::int32_t priority : {0, 0, -1, -1, 1}) placement.priority.push_back(priority);
  const Recorded by_priority(graph, gpus(2), placement, {.queue = ReadyOrder::priority});
  CHECK(by_priority.start_of("d") == 0ns);
  CHECK(by_priority.start_of("a") == 1ns);
  CHECK(by_priority.start_of("b") == 21ns);
  CHECK(by_priority.start_of("c") == 22ns);
  // Fifo does not look at priorities.
  CHECK(Recorded(graph, gpus(2), placement).start_of("d") == 21ns);
}

TEST_CASE("ops that become ready in one instant run by id, also if others follow") {
  // gpu0 is busy with a until 50. At 10 p on gpu1 and then q on gpu2 end, which makes d and then
  // c ready, at 20 r on gpu1, which makes b ready. No tensor has a size.
  const OpGraph graph = graph_of("a50; p10; q10; r10; b1; c1; d1; p -0> d; q -0> c; r -0> b");
  const Recorded s(graph, gpus(3), on({gpu0, gpu1, gpu2, gpu1, gpu0, gpu0, gpu0}));
  CHECK(s.start_of("c") == 50ns);
  CHECK(s.start_of("d") == 51ns);
  CHECK(s.start_of("b") == 52ns);
}

TEST_CASE("without overlap a device either computes or moves tensors") {
  //  a(10) --100 B--> b(1);  a, c(50), e(5) on gpu0; b, d(20) on gpu1; e is ready at 10 with c.
  const OpGraph graph = graph_of("a10; b1; c50; d20; e5; a -100> b");
  const Placement p = on({gpu0, gpu1, gpu0, gpu1, gpu0});
  for (const Transfers mode :
       {Transfers::sequential, Transfers::parallel, Transfers::duplex, Transfers::shared}) {
    const Recorded overlapping(graph, gpus(2), p, with(mode));
    CHECK(overlapping.transfers_to(gpu1) == Times{10ns});
    CHECK(overlapping.start_of("b") == 110ns);
    CHECK(overlapping.start_of("e") == 60ns);
    // At 10 the transfer finds gpu1 computing until 20, so gpu0 starts c (until 60). At 60 gpu0
    // could start e, but transfers go first: 60-160. Then b and e.
    const Recorded alternating(graph, gpus(2), p, {.transfers = mode, .overlap = false});
    CHECK(alternating.start_of("c") == 10ns);
    CHECK(alternating.transfers_to(gpu1) == Times{60ns});
    CHECK(alternating.start_of("b") == 160ns);
    CHECK(alternating.start_of("e") == 160ns);
    CHECK(alternating.result().makespan == 165ns);
  }
}

TEST_CASE("devices have their speed, each direction its link, and times are rounded up") {
  // a takes 7 / 2 = 3.5 -> 4 on gpu0, b 7 / 0.5 = 14 on gpu1, c 4 on gpu0 again.
  // 100 B: 0 -> 1 at 1 GB/s and 3 ns: 103; 1 -> 0 at 3 GB/s and none: 33.3 -> 34.
  const OpGraph graph = graph_of("a7 -100> b7 -100> c7");
  IdVector<DeviceId, Device> devices;
  devices.push_back({.name = "fast", .kind = {}, .memory = 1_GiB, .speed = 2.0});
  devices.push_back({.name = "slow", .kind = {}, .memory = 1_GiB, .speed = 0.5});
  Cluster cluster = Cluster::uniform(devices, {.bandwidth = 1.0_GBps, .latency = 3ns});
  cluster.set_link(gpu1, gpu0, {.bandwidth = 3.0_GBps, .latency = 0ns});
  const Recorded r(graph, cluster, on({gpu0, gpu1, gpu0}));
  CHECK(r.start_of("b") == 107ns);
  CHECK(r.start_of("c") == 155ns);
  CHECK(r.result().makespan == 159ns);
  CHECK(r.result().devices[gpu0].busy == 8ns);
  CHECK(r.result().devices[gpu1].busy == 14ns);
}

TEST_CASE("a measured transfer time replaces the link's") {
  OpGraphBuilder g;
  const OpId a = g.add_op({.name = "a", .compute = 10ns});
  const TensorId t = g.add_tensor(a, 100_B);
  g.set_transfer(t, 17ns);
  g.add_edge(t, g.add_op({.name = "b", .compute = 1ns}));
  CHECK(run(std::move(g).build(), gpus(2), on({gpu0, gpu1})).makespan == 28ns);
}

TEST_CASE("a control dependency is sent as 4 bytes and takes no memory") {
  const OpGraph graph = graph_of("a10 ~> b1");
  const StepResult apart = run(graph, gpus(2, 0_B), on({gpu0, gpu1}));
  CHECK_FALSE(apart.oom);
  CHECK(apart.makespan == 15ns);  // 10 + 4 + 1
  CHECK(apart.moved == 4_B);
  CHECK(apart.devices[gpu1].peak == 0_B);
  CHECK(run(graph, gpus(2, 0_B), on({gpu0, gpu0})).makespan == 11ns);
}

TEST_CASE("zero-time work takes no time, but happens in rounds") {
  //  z(0) --0 B--> b(5);  z on gpu1, b and c(5) on gpu0. At 0, c is ready in the first round, b
  //  only when z and the transfer have ended, two rounds later: c has started.
  const OpGraph graph = graph_of("z0; b5; c5; z -0> b");
  const Recorded r(graph, gpus(2), on({gpu1, gpu0, gpu0}));
  CHECK(r.start_of("c") == 0ns);
  CHECK(r.transfers_to(gpu0) == Times{0ns});
  CHECK(r.start_of("b") == 5ns);
  CHECK(r.result().makespan == 10ns);
  CHECK(r.result().events == 4);
}

TEST_CASE("a run is deterministic, also from several threads at once") {
  const RandomProblem p({.ops = 2000}, 8, 1);
  const RecordedRun alone = record(p.under({}), p.placement);
  const auto same = [&](const RecordedRun& other) {
    return std::ranges::equal(alone.work, other.work, [](const Work& a, const Work& b) {
      return a.op == b.op && a.tensor == b.tensor && a.dst == b.dst && a.start == b.start &&
             a.end == b.end;
    });
  };
  std::array<RecordedRun, 4> runs;
  {
    std::vector<std::jthread> threads;
    for (RecordedRun& r : runs) threads.emplace_back([&] { r = record(p.under({}), p.placement); });
  }
  for (const RecordedRun& r : runs) {
    CHECK(same(r));
    CHECK(r.result.makespan == alone.result.makespan);
    CHECK(r.memory.size() == alone.memory.size());
  }
}
