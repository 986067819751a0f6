#include "placers/interface/colocation.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"

TEST_SUITE_BEGIN("placers");
TEST_CASE("a unit is a group or a lone op, numbered by its first member") {
  const OpGraph graph = graph_of("a0,w10,t1,c:shared -4> .; b0,w20,t7; c0,w40,t2,c:shared -5> .");
  constexpr OpId a{0}, b{1}, c{2};
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
  // Units: {a, c}, {b}, {d} on devices 0, 1, 0.
  CHECK(devices(place("round_robin", graph_of("a0,c:x; b0; c0,c:x; d0"), gpus(2))) == "0 1 0 0");
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
  // On the devices: 30 | 0, 30 | 20, 30 | 30, then 40 | 30: the lower one.
  const OpGraph graph = graph_of("a30; b20; c10; d10");
  CHECK(devices(place("least_loaded", graph, gpus(2))) == "0 1 1 0");
  // The second device is 2.5 times as fast: a 30 or 12; b 20 or 12 + 8, the lower device; c 20 + 10
  // or 12 + 4; d 20 + 10 or 16 + 4.
  CHECK(devices(place("least_loaded", graph, faster_second(1_GiB))) == "1 0 1 1");
}

TEST_CASE("least_loaded skips a full device, and reports what does not fit") {
  CHECK(devices(place("least_loaded", weights({60, 50, 30}), gpus(2, 90_B))) == "0 1 0");
  const std::string what = message<InfeasibleError>(
      [] { place("least_loaded", weights({60, 50, 45}), of_memories({100_B, 90_B})); });
  CHECK(what ==
        "least_loaded: op 'c' has no room left on any device: needs 45 B persistent and 0 B while "
        "running; missing: 5 B on gpu0, 5 B on gpu1");
}

TEST_SUITE_BEGIN("placers");
TEST_CASE("m_topo fills a device to an even share plus the largest op") {
  // Share 40 / 2 + 10 = 30: three on the first.
  CHECK(devices(place("m_topo", weights({10, 10, 10, 10}), gpus(2))) == "0 0 0 1");
}

TEST_CASE("m_topo fills a device to its memory if not uniform, or if its memory is smaller") {
  const Values not_uniform{{"uniform", value("false")}};
  CHECK(devices(place("m_topo", weights({10, 10, 10, 10}), gpus(2), not_uniform)) == "0 0 0 0");
  CHECK(devices(place("m_topo", weights({10, 10, 10, 10}), gpus(2, 25_B), not_uniform)) ==
        "0 0 1 1");
  CHECK(devices(place("m_topo", weights({10, 10, 10, 10}), gpus(2, 25_B))) == "0 0 1 1");
}

TEST_CASE("m_topo gives larger devices larger shares") {
  // 8 ops of 10: shares 80 / 4 + 10 = 30 and 3 * 80 / 4 + 10 = 70.
  const OpGraph graph = weights({10, 10, 10, 10, 10, 10, 10, 10});
  CHECK(devices(place("m_topo", graph, of_memories({100_B, 300_B}))) == "0 0 0 1 1 1 1 1");
}

TEST_CASE("m_topo returns to an earlier device rather than fail") {
  const Values not_uniform{{"uniform", value("false")}};
  // 20 of 30 on the first, 25 of 30 on the second, 10 back on the first.
  CHECK(devices(place("m_topo", weights({20, 25, 10}), gpus(2, 30_B), not_uniform)) == "0 1 0");
}

TEST_CASE("m_topo exceeds a share rather than fail") {
  // Ops of 30 fit only on the large device, whose share is 360 * 400 / (400 + 10 * 29) + 30 = 238:
  // seven ops. The other five go there too, within its memory.
  IdVector<DeviceId, Device> all;
  all.push_back({.name = "large", .kind = {}, .memory = 400_B});
  for (int i = 0; i < 10; ++i) all.push_back({.name = "small", .kind = {}, .memory = 29_B});
  const Cluster cluster = Cluster::uniform(all, {.bandwidth = 1.0_GBps, .latency = 0ns});
  const OpGraph graph = weights({30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30});
  CHECK(devices(place("m_topo", graph, cluster)) == "0 0 0 0 0 0 0 0 0 0 0 0");
}

TEST_CASE("m_topo counts a group as a whole, and reports what does not fit") {
  const OpGraph graph = graph_of("a0,w20,c:x; b0,w20; c0,w20,c:x");
  // Total 60, largest unit 40: cap 30 + 40.
  CHECK(devices(place("m_topo", graph, gpus(2))) == "0 0 0");
  CHECK(devices(place("m_topo", graph, gpus(2, 50_B))) == "0 1 0");
  CHECK(message<InfeasibleError>([&] { place("m_topo", graph, gpus(2, 39_B)); }) ==
        "m_topo: no device has memory for group 'x' of 2 ops, which needs 40 B; missing: 1 B on "
        "gpu0, 1 B on gpu1");
}

namespace {

/// A chain of modules with the given bytes of weights.
OpGraph chain_of_modules(const std::vector<std::pair<std::string, std::int64_t>>& modules) {
  OpGraphBuilder g;
  TensorId last{};
  for (const auto& [name, bytes] : modules) {
    const OpId v = g.add_op({.name = name, .compute = 10ns, .persistent = {bytes}, .module = name});
    if (last != TensorId{} || g.num_ops() > 1) g.add_edge(last, v);
    last = g.add_tensor(v, 1_B);
  }
  return std::move(g).build();
}

OpGraph decoder() {
  return chain_of_modules(
      {{"embed", 4}, {"l0", 10}, {"l1", 10}, {"l2", 10}, {"l3", 10}, {"head", 4}});
}

Cluster of(const std::vector<std::pair<std::string, std::int64_t>>& kinds) {
  IdVector<DeviceId, Device> devices;
  for (const auto& [kind, memory] : kinds)
    devices.push_back(
        {.name = kind + std::to_string(devices.size()), .kind = kind, .memory = {memory}});
  return Cluster::uniform(std::move(devices), {.bandwidth = {1e9}, .latency = {}});
}

std::vector<std::size_t> devices(const OpGraph& graph, const Cluster& cluster,
                                 const std::string& placer, Options options) {
  const ProfiledCosts costs(graph, cluster);
  const Placement p = make_placer(placer, std::move(options))->place({graph, cluster, costs}, 0);
  std::vector<std::size_t> result;
  for (const DeviceId d : p.device) result.push_back(index(d));
  return result;
}

}  // namespace

TEST_SUITE_BEGIN("placers");

using DeviceNumbers = std::vector<std::size_t>;

TEST_CASE("fill keeps room for the largest layer on the first GPU and the host") {
  // GPU 0 takes 30 - 10: embed, l0 (14); l1 would be 24. GPU 1 takes l1, l2. The largest of what
  // is left is head, so the host takes l3 and head.
  CHECK(devices(decoder(), of({{"", 30}, {"", 20}, {"cpu", 100}}), "fill", Options("fill")) ==
        DeviceNumbers{0, 0, 1, 1, 2, 2});
  // GPU 0 takes 12 - 10 = 2: nothing. The host takes 30 - 10 = 20: embed and l0. No disk.
  CHECK_THROWS_AS(devices(decoder(), of({{"", 12}, {"cpu", 30}}), "fill", Options("fill")),
                  InfeasibleError);
}

TEST_CASE("balanced gives each GPU its share and room for a block, and the last one the rest") {
  // Share 48 / 2, room floor(1.25 x 10) = 12: GPU 0 has 36 - 10 = 26 for embed, l0, l1 (24).
  CHECK(devices(decoder(), of({{"", 60}, {"", 60}}), "balanced", Options("balanced")) ==
        DeviceNumbers{0, 0, 0, 1, 1, 1});
  // low_zero: GPU 1 keeps 60 >= 48, so GPU 0 gets nothing.
  CHECK(devices(decoder(), of({{"", 60}, {"", 60}}), "balanced",
                Options("balanced", {{"low_zero", {"true", {}, {}}}})) ==
        DeviceNumbers{1, 1, 1, 1, 1, 1});
}

TEST_CASE("fill splits modules that do not fit, but not those that no_split names") {
  const OpGraph graph =
      chain_of_modules({{"a.x", 6}, {"a.y", 6}, {"b.x", 6}, {"b.y", 6}, {"c", 2}});
  // Largest layer 6: GPU 0 takes 24 - 6 = 18: a (12), then b (12) does not fit and is split: b.x.
  CHECK(devices(graph, of({{"", 24}, {"", 12}}), "fill", Options("fill")) ==
        DeviceNumbers{0, 0, 0, 1, 1});
  // Whole, b is the largest layer: GPU 0 takes 24 - 12 = 12: a.
  CHECK(devices(graph, of({{"", 24}, {"", 14}}), "fill",
                Options("fill", {{"no_split", {"?", {}, {}}}})) == DeviceNumbers{0, 0, 1, 1, 1});
}
