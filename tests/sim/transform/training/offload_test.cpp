#include <doctest/doctest.h>

#include "sim/engine/simulation.h"
#include "tests/message.h"
#include "tests/sim/transform/transforms.h"
#include "tests/small_graphs.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::literals;
using namespace std::chrono_literals;

namespace {

//   m0 -> m1 -> m2: modules of 10 ms with weights of 100 MB
OpGraph three_modules() {
  OpGraphBuilder g;
  TensorId before{};
  for (const char* name : {"m0", "m1", "m2"}) {
    const OpId v =
        g.add_op({.name = name, .compute = 10ms, .persistent = {100'000'000}, .module = name});
    if (g.num_ops() > 1) g.add_edge(before, v);
    before = g.add_tensor(v, 8_B);
  }
  return std::move(g).build();
}

//   f0 -> f1 -> b1 -> b0: weights of 20 MB; b1 and b0 take 5 ms, and write 20 MB of gradients that
//   u1 and u0 read, which take 3 ms
OpGraph two_updates() {
  OpGraphBuilder g;
  std::vector<OpId> forward;
  OpId last{};
  for (const char* name : {"f0", "f1"}) {
    forward.push_back(g.add_op({.name = name, .persistent = {20'000'000}}));
    if (forward.size() > 1) g.add_edge(g.add_tensor(last, 0_B), forward.back());
    last = forward.back();
  }
  for (const std::size_t i : {1UL, 0UL}) {
    const OpId b =
        g.add_op({.name = fmt::format("b{}", i), .compute = 5ms, .phase = Phase::backward});
    g.add_edge(g.add_tensor(last, 0_B), b);
    g.set_forward(b, forward[i]);
    const OpId u =
        g.add_op({.name = fmt::format("u{}", i), .compute = 3ms, .phase = Phase::update});
    g.add_edge(g.add_tensor(b, {20'000'000}), u);
    last = b;
  }
  return std::move(g).build();
}

/// On gpu0, with home gpu1 behind a link of 10 GB/s in each direction.
StepResult offloaded(const OpGraph& graph, const Values& options, std::size_t devices = 2) {
  const PlacedStep step = transform("offload", options)
                              ->after_placing(graph, IdVector<OpId, DeviceId>(graph.num_ops()));
  const Cluster cluster = Cluster::uniform(devices, 1_GiB, {.bandwidth = {10e9}, .latency = {}});
  const ProfiledCosts costs(step.graph, cluster);
  return simulate({.graph = step.graph,
                   .cluster = cluster,
                   .costs = costs,
                   .engine = {.transfers = Transfers::duplex}},
                  {.device = step.device});
}

/// Control edges of 4 bytes take a nanosecond each.
bool is(Duration found, Duration wanted) {
  return found - wanted <= 3ns && found >= wanted;
}

}  // namespace

TEST_SUITE("offload") {
  TEST_CASE("weights that wait are copied when their module is reached, or ahead") {
    // A copy takes 100 MB / 10 GB/s = 10 ms. prefetch 0: copy, compute, three times.
    const StepResult each = offloaded(three_modules(), {{"modules", "m*"}});
    CHECK(is(each.makespan, 60ms));
    CHECK(each.devices[gpu0].peak == Bytes{100'000'000 + 16});  // one copy, two tensors of a chain
    // prefetch 1: m1 is copied while m0 computes, m2 while m1 does: 10 + 3 x 10, two buffers.
    for (const char* ahead : {"1", "2"}) {
      const StepResult step = offloaded(three_modules(), {{"modules", "m*"}, {"prefetch", ahead}});
      CHECK(is(step.makespan, 40ms));
      CHECK(step.devices[gpu0].peak == Bytes{200'000'000 + 16});
      CHECK(step.devices[gpu1].peak == Bytes{300'000'000});
    }
    // One module waits: its copy begins when m0 has ended. The others stay.
    const StepResult one = offloaded(three_modules(), {{"modules", "m1"}});
    CHECK(is(one.makespan, 40ms));
    CHECK(one.devices[gpu0].peak == Bytes{300'000'000 + 16});
    CHECK(offloaded(three_modules(), {{"modules", "other"}}).makespan == 30ms);
    // From a disk as fast as the link: two copies before each module; or m1 is read while m0 is
    // copied, and m2 when the buffer of m0 is free: 20 + 10 (m0) + 20 + 10 (m2).
    const StepResult disk = offloaded(three_modules(), {{"modules", "m*"}, {"disk", "2"}}, 3);
    CHECK(is(disk.makespan, 90ms));
    CHECK(disk.devices[DeviceId{2}].peak == Bytes{300'000'000});
    CHECK(is(offloaded(three_modules(), {{"modules", "m*"}, {"disk", "2"}, {"prefetch", "1"}}, 3)
                 .makespan,
             60ms));
  }

  TEST_CASE("an optimizer at home works while the backward pass goes on") {
    // b1 0-5, gradient 5-7, update 7-10, weights 10-12; b0 5-10, 10-12, 12-15, 15-17.
    CHECK(offloaded(two_updates(), {{"optimizer", "true"}}).makespan == 17ms);
  }

  TEST_CASE("what cannot be offloaded is refused") {
    CHECK(message<InputError>([] { offloaded(two_updates(), {}); }) ==
          "offload: it needs modules, or optimizer: true");
    CHECK(message<InputError>([] {
            apply("offload", two_updates(), {{"modules", "m0"}});
          }).starts_with("offload: no op has a module"));
  }
}
