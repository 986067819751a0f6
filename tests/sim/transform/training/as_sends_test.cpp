#include "sim/collectives/collective_models.h"
#include "sim/transform/training/data_parallel.h"
#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"

namespace {

/// f -> b, which holds 100 B of gradient that u waits for; each has a kernel.
OpGraph small_step(Duration measured = {}) {
  return graph_of(fmt::format("f{0},w50,f8,m10 -4> b{0},w100,f8,m10,b:f ~> u{0},w200,f8,m10,u",
                              measured.count()));
}

}  // namespace

TEST_SUITE_BEGIN("accumulate");
TEST_CASE("the op that computes a gradient reads two and writes one, of the replica's shard") {
  const auto made = transform("accumulate");
  const OpGraph graph = small_step();
  const IdVector<OpId, DeviceId> device(3, gpu0);
  const auto traffic = [&](const OpGraph& of) {
    const PlacedStep step = made->after_placing(of, device);
    std::vector<std::int64_t> bytes;
    for (const OpId v : step.graph.ops()) bytes.push_back(step.graph.work(v).traffic.count);
    return bytes;
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(traffic(graph) == Sizes{10, 10 + 3 * 100, 10});
  // Four replicas keep a quarter of the gradients, and update a quarter of the weights.
  CHECK(traffic(apply("data_parallel", graph, {{"replicas", "4"}, {"mode", "zero2"}}).graph) ==
        Sizes{10, 10 + 3 * 25, 3});
}

TEST_CASE("accumulation of 16-bit gradients may move as much as that of 32-bit ones") {
  const PlacedStep step = transform("accumulate", {{"moved", "6"}})
                              ->after_placing(small_step(), IdVector<OpId, DeviceId>(3, gpu0));
  CHECK(step.graph.work(*step.graph.find("b")).traffic == Bytes{10 + 6 * 100});
}

TEST_CASE("each copy of micro_batches accumulates") {
  const OpGraph graph = apply("micro_batches", small_step(), {{"count", "2"}}).graph;
  const PlacedStep step =
      transform("accumulate")->after_placing(graph, IdVector<OpId, DeviceId>(5, gpu0));
  std::int64_t bytes = 0;
  for (const OpId v : step.graph.ops()) bytes += step.graph.work(v).traffic.count;
  CHECK(bytes == 2 * (10 + 10 + 3 * 100) + 10);
}

TEST_CASE("accumulation adds no launches of an earlier host") {
  const OpGraph graph = small_step();
  const IdVector<OpId, DeviceId> device(3, gpu0);
  PlacedStep step =
      transform("host", {{"per", "pass"}, {"launch", "7 us"}})->after_placing(graph, device);
  step = transform("accumulate")->after_placing(step.graph, step.device);
  for (const OpId v : step.graph.ops())
    if (step.graph.kind(v) == "Launch") CHECK(to_us(step.graph.op(v).compute) == 7.0);
}

TEST_CASE("a graph with measured times needs the rate of accumulation") {
  CHECK_REFUSED(apply("accumulate", small_step(Duration{5})),
                "accumulate: this graph has measured times instead of work: give the 'rate' of "
                "gradient accumulation");
}

TEST_CASE("with measured times accumulation takes the gradient's bytes over the rate") {
  // b makes 100 B of gradient: 20 B/ns add 5 ns to its 5.
  const PlacedStep step =
      transform("accumulate", {{"rate", "20 GB/s"}})
          ->after_placing(small_step(Duration{5}), IdVector<OpId, DeviceId>(3, gpu0));
  std::vector<std::int64_t> times;
  for (const OpId v : step.graph.ops()) times.push_back(step.graph.op(v).compute.count());
  CHECK(times == std::vector<std::int64_t>{5, 10, 5});
}

namespace {

struct Starts final : StepObserver {
  void on_op(OpId v, DeviceId, TimePoint start, TimePoint) override { of[v] = start; }
  std::map<OpId, TimePoint> of;
};

StepResult sent_step(const PlacedStep& step, const Cluster& cluster, Starts* starts = nullptr) {
  const ProfiledCosts costs(step.graph, cluster);
  Placement placement;
  placement.device = step.device;
  std::vector<StepObserver*> observers;
  if (starts != nullptr) observers.push_back(starts);
  return simulate({step.graph, cluster, costs, {.transfers = Transfers::duplex}}, placement,
                  observers);
}

/// `ranks` devices: 1 B/ns and 10 ns from each to the next in the ring, 0.5 B/ns and 30 ns else.
Cluster uneven(std::size_t ranks) {
  Cluster cluster = Cluster::uniform(ranks, 1_GiB, {.bandwidth = 0.5_GBps, .latency = 30ns});
  for (const DeviceId d : cluster.devices())
    cluster.set_link(d, DeviceId{static_cast<std::uint32_t>((index(d) + 1) % ranks)},
                     {.bandwidth = 1.0_GBps, .latency = 10ns});
  return cluster;
}

/// A collective alone, a member on each device.
PlacedStep alone(CollectiveKind kind, Bytes bytes, std::size_t ranks) {
  OpGraphBuilder b;
  std::vector<OpId> members;
  PlacedStep step;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    members.push_back(b.add_op({.name = fmt::format("m{}", i)}));
    step.device.push_back(DeviceId{i});
  }
  b.add_collective({.kind = kind, .bytes = bytes}, members);
  step.graph = std::move(b).build();
  return step;
}

PlacedStep as_sends(const PlacedStep& step) {
  return transform("as_sends")->after_placing(step.graph, step.device);
}

}  // namespace

TEST_SUITE_BEGIN("as_sends");
//   gpu0: a0(10) -- m0 -- b0(5)
//   gpu1: a1(30) -- m1 -- b1(5)      m0, m1: an all_reduce of 100 B; a byte takes 1 ns
TEST_CASE("two ranks that are not ready at once, by hand") {
  PlacedStep step{
      .graph = graph_of(
          "a0=10 ~> m0=0,x:all_reduce/100 ~> b0=5; a1=30 ~> m1=0,x:all_reduce/100 ~> b1=5")};
  for (const OpId v : step.graph.ops())
    step.device.push_back(step.graph.name(v).back() == '0' ? gpu0 : gpu1);
  // Together: both begin at 30, and 2 sends of 50 B take 100 ns.
  CHECK(sent_step(step, gpus(2)).makespan == 135ns);
  const PlacedStep sends = as_sends(step);
  CHECK(sends.graph.plain());  // neither collectives nor their lane
  CHECK(sends.graph.num_ops() == 6 + 2 * 2);
  Starts starts;
  CHECK(sent_step(sends, gpus(2), &starts).makespan == 135ns);
  // gpu0 sends from 10 to 60, gpu1 from 30 to 80: the first receipts, and each link is free again
  // at 80, when gpu0 has got what it sends next. gpu1 has had that since 60.
  const auto start = [&](std::string_view op) {
    return starts.of[*sends.graph.find(op)].time_since_epoch();
  };
  CHECK(start("m0/1") == 80ns);
  CHECK(start("m1/1") == 60ns);
  CHECK(start("m0/2") == 130ns);
  CHECK(start("m1/2") == 130ns);
  CHECK(start("b0") == 130ns);
  CHECK(start("b1") == 130ns);
}

TEST_CASE("a collective alone takes the time of the model 'steps', to the nanosecond") {
  const auto steps = make_collectives("steps", Options("steps"));
  for (const CollectiveKind kind : all<CollectiveKind>()) {
    CAPTURE(to_text(kind));
    for (const std::size_t ranks : {2U, 3U, 5U}) {
      if (kind == CollectiveKind::send_recv && ranks > 2) continue;
      for (const Bytes bytes : {1_B, 1000_B, 12'345_B}) {
        const Cluster cluster = uneven(ranks);
        const PlacedStep step = alone(kind, bytes, ranks);
        const PlacedStep sends = as_sends(step);
        CHECK(sent_step(sends, cluster).makespan ==
              steps->time(step.graph.collectives()[CollectiveId{0}],
                          std::vector<DeviceId>(step.device.begin(), step.device.end()), cluster));
      }
    }
  }
}

TEST_CASE("reductions are ops with work; an all_reduce sends 2 (n - 1) times its bytes") {
  const PlacedStep step{graph_of("m0=0,f1,x:all_reduce/400; m1=0,x:all_reduce/400; "
                                 "m2=0,x:all_reduce/400; m3=0,x:all_reduce/400"),
                        on({gpu0, gpu1, gpu2, gpu3}).device};
  const OpGraph graph = as_sends(step).graph;
  Bytes sent;
  std::size_t sums = 0;
  for (const TensorId t : graph.tensors())
    if (!graph.tensor(t).control) sent += graph.tensor(t).size;
  CHECK(sent == 6 * 400_B);
  for (const OpId v : graph.ops()) {
    if (graph.kind(v) != "Add") continue;
    ++sums;
    CHECK(graph.work(v).flops == 25);       // of 100 B
    CHECK(graph.work(v).traffic == 300_B);  // two parts are read, one is written
  }
  CHECK(sums == 3 * 4);
}

TEST_CASE("on types of devices with times receipts take none, and sums the time of their work") {
  OpGraphBuilder g;
  const std::vector<OpId> members{g.add_op({.name = "m0"}), g.add_op({.name = "m1"})};
  for (const OpId m : members) g.set_compute(m, "fast", 1ns);
  g.add_kernel(members[0], {.flops = 1});
  g.add_collective({.kind = CollectiveKind::all_reduce, .bytes = 8_B}, members);
  const OpGraph graph = as_sends({std::move(g).build(), on({gpu0, gpu1}).device}).graph;
  REQUIRE(graph.num_ops() == 6);
  for (const OpId v : graph.ops()) {
    if (graph.kind(v) == "Add") CHECK_FALSE(graph.compute(v, 0));
    if (graph.kind(v) == "Receive") CHECK(graph.compute(v, 0) == 0ns);
  }
}

TEST_CASE("replicas that are not simulated are rejected by name") {
  const OpGraph graph = graph_of("m0,x:all_gather/8/4");
  CHECK_REFUSED(as_sends({graph, on({gpu0}).device}),
                "as_sends: the all_gather of 'm' has 4 ranks, 1 of them simulated; 'simulate: all' "
                "of data_parallel simulates every rank");
}
