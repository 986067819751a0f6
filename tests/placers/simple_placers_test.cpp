#include "placers/interface/colocation.h"
#include "tests/message.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"

TEST_SUITE_BEGIN("placers");

TEST_CASE("a unit is a group or a lone op, numbered by its first member") {
  OpGraphBuilder g;
  const OpId a = g.add_op({.name = "a", .persistent = 10_B, .temporary = 1_B});
  const OpId b = g.add_op({.name = "b", .persistent = 20_B, .temporary = 7_B});
  const OpId c = g.add_op({.name = "c", .persistent = 40_B, .temporary = 2_B});
  g.add_tensor(a, 4_B);
  g.add_tensor(c, 5_B);
  g.colocate(a, "shared");
  g.colocate(c, "shared");
  const OpGraph graph = std::move(g).build();
  const ColocationUnits units(graph);
  CHECK(units.size() == 2);
  CHECK(units.of(a) == units.of(c));
  CHECK(units.of(b) == UnitId{1});
  CHECK(units.members(UnitId{0}).size() == 2);
  CHECK(units.members(UnitId{0}).back() == c);
  CHECK(units.needs(UnitId{0}).persistent == 50_B);
  CHECK(units.needs(UnitId{0}).working == 7_B);     // of c: 2 + 5, against 1 + 4
  CHECK(units.needs(UnitId{0}).footprint == 62_B);  // 50 + 5 + 7
  CHECK(units.label(UnitId{0}, graph) == "group 'shared' of 2 ops");
  CHECK(units.label(UnitId{1}, graph) == "op 'b'");
}

TEST_CASE("round_robin assigns units in turn") {
  OpGraphBuilder g;
  for (const char* name : {"a", "b", "c", "d"}) g.add_op({.name = name});
  g.colocate(OpId{0}, "x");
  g.colocate(OpId{2}, "x");
  // Units: {a, c}, {b}, {d} on devices 0, 1, 0.
  CHECK(devices(place("round_robin", std::move(g).build(), gpus(2))) == "0 1 0 0");
}

TEST_CASE("random uses every device about equally and follows the seed") {
  OpGraphBuilder g;
  for (int i = 0; i < 3000; ++i) g.add_op({.name = fmt::format("op{}", i)});
  const OpGraph graph = std::move(g).build();
  const Placement p = place("random", graph, gpus(3), {}, 5);
  for (const DeviceId d : {gpu0, gpu1, gpu2}) {
    const auto count = std::ranges::count(p.device, d);
    CHECK(count > 900);  // 1000 expected, standard deviation 26
    CHECK(count < 1100);
  }
  CHECK(p.device != place("random", graph, gpus(3), {}, 6).device);
}

TEST_CASE("least_loaded places each op where the load stays least") {
  OpGraphBuilder g;
  g.add_op({.name = "a", .compute = 30ns});  // 30 | 0
  g.add_op({.name = "b", .compute = 20ns});  // 30 | 20
  g.add_op({.name = "c", .compute = 10ns});  // 30 | 30
  g.add_op({.name = "d", .compute = 10ns});  // 40 | 30: the lower device
  const OpGraph graph = std::move(g).build();
  CHECK(devices(place("least_loaded", graph, gpus(2))) == "0 1 1 0");
  // The second device is 2.5 times as fast: a 30 or 12; b 20 or 12 + 8, the lower device; c 20 + 10
  // or 12 + 4; d 20 + 10 or 16 + 4.
  CHECK(devices(place("least_loaded", graph, faster_second(1_GiB))) == "1 0 1 1");
}

TEST_CASE("least_loaded skips a full device, and reports what does not fit") {
  CHECK(devices(place("least_loaded", weights({60, 50, 30}), gpus(2, 90_B))) == "0 1 0");
  const std::string what = message<InfeasibleError>(
      [] { place("least_loaded", weights({60, 50, 45}), with_memory({100_B, 90_B})); });
  CHECK(what ==
        "least_loaded: op 'c' has no room left on any device: needs 45 B persistent and 0 B while "
        "running; missing: 5 B on gpu0, 5 B on gpu1");
}

TEST_SUITE_END();
