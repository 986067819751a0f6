#include "tests/message.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"

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
  CHECK(devices(place("m_topo", graph, with_memory({100_B, 300_B}))) == "0 0 0 1 1 1 1 1");
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
  OpGraphBuilder g;
  for (const char* name : {"a", "b", "c"}) g.add_op({.name = name, .persistent = 20_B});
  g.colocate(OpId{0}, "x");
  g.colocate(OpId{2}, "x");
  const OpGraph graph = std::move(g).build();
  // Total 60, largest unit 40: cap 30 + 40.
  CHECK(devices(place("m_topo", graph, gpus(2))) == "0 0 0");
  CHECK(devices(place("m_topo", graph, gpus(2, 50_B))) == "0 1 0");
  CHECK(message<InfeasibleError>([&] { place("m_topo", graph, gpus(2, 39_B)); }) ==
        "m_topo: no device has memory for group 'x' of 2 ops, which needs 40 B; missing: 1 B on "
        "gpu0, 1 B on "
        "gpu1");
}

TEST_SUITE_END();
