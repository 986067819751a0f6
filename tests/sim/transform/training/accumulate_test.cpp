#include <doctest/doctest.h>

#include "sim/transform/training/data_parallel.h"
#include "tests/message.h"
#include "tests/sim/transform/transforms.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// f -> b, which holds 100 B of gradient that u waits for; each has a kernel.
OpGraph small_step(Duration measured = {}) {
  OpGraphBuilder g;
  const auto add = [&](const char* name, Bytes held, Phase phase) {
    const OpId v =
        g.add_op({.name = name, .compute = measured, .persistent = held, .phase = phase});
    g.add_kernel(v, {.flops = 8, .traffic = 10_B});
    return v;
  };
  const OpId f = add("f", 50_B, Phase::forward), b = add("b", 100_B, Phase::backward),
             u = add("u", 200_B, Phase::update);
  g.set_forward(b, f);
  g.add_edge(g.add_tensor(f, 4_B), b);
  g.add_control(b, u);
  return std::move(g).build();
}

}  // namespace

TEST_SUITE("accumulate") {
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
    CHECK(message<InputError>([] { apply("accumulate", small_step(Duration{5})); }) ==
          "accumulate: this graph has measured times instead of work: give the 'rate' of gradient "
          "accumulation");
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
}
