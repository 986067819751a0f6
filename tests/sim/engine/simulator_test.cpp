#include <doctest/doctest.h>

#include "sim/engine/simulation.h"
#include "tests/random_problems.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

void check_equal(const StepResult& a, const StepResult& b) {
  CHECK(a.makespan == b.makespan);
  CHECK(a.moved == b.moved);
  CHECK(a.transfers == b.transfers);
  CHECK(a.events == b.events);
  REQUIRE(a.oom.has_value() == b.oom.has_value());
  if (a.oom) {
    CHECK(a.oom->op == b.oom->op);
    CHECK(a.oom->transfer == b.oom->transfer);
    CHECK(a.oom->at == b.oom->at);
    CHECK(a.oom->live == b.oom->live);
  }
  REQUIRE(a.devices.size() == b.devices.size());
  for (const DeviceId d : a.devices.ids()) {
    CHECK(a.devices[d].busy == b.devices[d].busy);
    CHECK(a.devices[d].peak == b.devices[d].peak);
    CHECK(a.devices[d].at_peak == b.devices[d].at_peak);
  }
}

}  // namespace

TEST_SUITE("simulator") {
  TEST_CASE("earlier runs of a simulator do not affect later ones, not even a failure") {
    std::vector<EngineOptions> engines = all_engines();
    engines.push_back({.transfers = Transfers::staged});
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const RandomProblem random({.ops = 40}, 3, seed);
      IdVector<DeviceId, Device> devices;
      for (const DeviceId d : random.cluster.devices()) devices.push_back(random.cluster.device(d));
      for (Device& d : devices) d.memory = Bytes{1200};
      const Cluster small = Cluster::uniform(std::move(devices), {.bandwidth = {1e9}});
      const Placement all_on_one{.device = IdVector<OpId, DeviceId>(random.graph.num_ops())};
      for (const EngineOptions& engine : engines) {
        const ProfiledCosts costs(random.graph, small);
        const Problem problem{random.graph, small, costs, engine};
        Simulator simulator(problem);
        for (const Placement* p : {&random.placement, &all_on_one, &random.placement})
          check_equal(simulator.run(*p), simulate(problem, *p));
      }
    }
  }

  TEST_CASE("without memory accounting a step takes the same time, if memory is ample") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const RandomProblem random({.ops = 60}, 4, seed);
      for (EngineOptions engine : all_engines()) {
        const StepResult counted = simulate(random.under(engine), random.placement);
        engine.count_memory = false;
        const StepResult bare = simulate(random.under(engine), random.placement);
        CHECK(bare.makespan == counted.makespan);
        CHECK(bare.transfers == counted.transfers);
        CHECK(bare.moved == counted.moved);
        for (const DeviceId d : bare.devices.ids()) {
          CHECK(bare.devices[d].busy == counted.devices[d].busy);
          CHECK(bare.devices[d].peak == Bytes{});
        }
      }
    }
  }

  TEST_CASE(
      "idle devices change no step, though up to 64 are simulated by an engine of their own") {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const RandomProblem random({.ops = 60}, 4, seed);
      const std::vector<Bytes> memories{Bytes{1500}, Bytes{1 << 20}};  // most run out of the first
      for (const Bytes memory : memories) {
        const Cluster few = Cluster::uniform(4, {memory}, {.bandwidth = {1e9}});
        const Cluster many = Cluster::uniform(65, {memory}, {.bandwidth = {1e9}});
        const ProfiledCosts few_costs(random.graph, few), many_costs(random.graph, many);
        for (const EngineOptions& engine : all_engines()) {
          const StepResult of_few =
              simulate({random.graph, few, few_costs, engine}, random.placement);
          StepResult of_many = simulate({random.graph, many, many_costs, engine}, random.placement);
          IdVector<DeviceId, DeviceUse> used;
          for (const DeviceId d : of_few.devices.ids()) used.push_back(of_many.devices[d]);
          of_many.devices = used;
          check_equal(of_few, of_many);
        }
      }
    }
  }

  TEST_CASE("more concurrent events than the sorted part of the queue holds") {
    // 1000 sources of equal length on as many devices end together, then one op reads them all: its
    // device takes in 999 tensors of 1 ns, one after the other.
    OpGraphBuilder b;
    std::vector<TensorId> tensors;
    for (int i = 0; i < 1000; ++i) {
      const OpId v = b.add_op({.name = "s" + std::to_string(i), .compute = Duration{10 + i % 2}});
      tensors.push_back(b.add_tensor(v, Bytes{1}));
    }
    const OpId last = b.add_op({.name = "last", .compute = Duration{5}});
    for (const TensorId t : tensors) b.add_edge(t, last);
    const OpGraph graph = std::move(b).build();
    const Cluster cluster = Cluster::uniform(1000, Bytes{5000}, {.bandwidth = {1e9}});
    const ProfiledCosts costs(graph, cluster);
    Placement each{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
    for (std::uint32_t i = 0; i < 1000; ++i) each.device[OpId{i}] = DeviceId{i};
    // Those of 10 ns send 499 tensors (the first is there already); at 11 the others have ended.
    CHECK(simulate({graph, cluster, costs}, each).makespan == Duration{10 + 999 + 5});
    // All at once: the last arrive at 11 + 1.
    CHECK(simulate({graph, cluster, costs, {.transfers = Transfers::parallel}}, each).makespan ==
          Duration{11 + 1 + 5});
  }
}
