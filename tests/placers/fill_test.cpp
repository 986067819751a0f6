#include "placers/interface/registry.h"
#include "tests/prelude.h"
#include "tests/small_graphs.h"

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

TEST_SUITE("placers") {
  using Devices = std::vector<std::size_t>;

  TEST_CASE("fill keeps room for the largest layer on the first GPU and the host") {
    // GPU 0 takes 30 - 10: embed, l0 (14); l1 would be 24. GPU 1 takes l1, l2. The largest of what
    // is left is head, so the host takes l3 and head.
    CHECK(devices(decoder(), of({{"", 30}, {"", 20}, {"cpu", 100}}), "fill", Options("fill")) ==
          Devices{0, 0, 1, 1, 2, 2});
    // GPU 0 takes 12 - 10 = 2: nothing. The host takes 30 - 10 = 20: embed and l0. No disk.
    CHECK_THROWS_AS(devices(decoder(), of({{"", 12}, {"cpu", 30}}), "fill", Options("fill")),
                    InfeasibleError);
  }

  TEST_CASE("balanced gives each GPU its share and room for a block, and the last one the rest") {
    // Share 48 / 2, room floor(1.25 x 10) = 12: GPU 0 has 36 - 10 = 26 for embed, l0, l1 (24).
    CHECK(devices(decoder(), of({{"", 60}, {"", 60}}), "balanced", Options("balanced")) ==
          Devices{0, 0, 0, 1, 1, 1});
    // low_zero: GPU 1 keeps 60 >= 48, so GPU 0 gets nothing.
    CHECK(devices(decoder(), of({{"", 60}, {"", 60}}), "balanced",
                  Options("balanced", {{"low_zero", {"true", {}, {}}}})) ==
          Devices{1, 1, 1, 1, 1, 1});
  }

  TEST_CASE("fill splits modules that do not fit, but not those that no_split names") {
    const OpGraph graph =
        chain_of_modules({{"a.x", 6}, {"a.y", 6}, {"b.x", 6}, {"b.y", 6}, {"c", 2}});
    // Largest layer 6: GPU 0 takes 24 - 6 = 18: a (12), then b (12) does not fit and is split: b.x.
    CHECK(devices(graph, of({{"", 24}, {"", 12}}), "fill", Options("fill")) ==
          Devices{0, 0, 0, 1, 1});
    // Whole, b is the largest layer: GPU 0 takes 24 - 12 = 12: a.
    CHECK(devices(graph, of({{"", 24}, {"", 14}}), "fill",
                  Options("fill", {{"no_split", {"?", {}, {}}}})) == Devices{0, 0, 1, 1, 1});
  }
}
