#include "scenarios/read/device_table.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"

namespace {

/// A scenario with the section `cluster`, indented by two.
ScenarioFile with_cluster(const std::string& cluster, const std::vector<std::string>& sets = {},
                          const std::string& path = "test.yaml") {
  return scenario_of("graph: {generate: layered, ops: 10}\nplacers: [single]\ncluster:\n" + cluster,
                     sets, path);
}

Cluster first_cluster(const ScenarioFile& file) { return make_cluster(file.point(0).cluster); }

/// The time of an all_reduce of a megabyte among the first `members` devices.
Duration all_reduce(const Cluster& cluster, std::uint32_t members) {
  std::vector<DeviceId> devices;
  for (const DeviceId d : id_range<DeviceId>(0, members)) devices.push_back(d);
  return cluster.collectives().time(
      {.bytes = Bytes{1'000'000}, .ranks = members, .members = members}, devices, cluster);
}

}  // namespace

TEST_SUITE_BEGIN("nodes");
TEST_CASE("a section of nodes: devices, a link inside, NICs of an oversubscribed network") {
  const ScenarioFile file = with_cluster(R"(
  nodes:
    count: 3
    devices: {count: 2, memory: 4 GiB, name: rank}
    link: {bandwidth: 100 GB/s, latency: 2 us}
    nics: 2
    network: {bandwidth: 20 GB/s, latency: 5 us}
    oversubscription: 4
    network_efficiency: 0.8
  memory_fraction: 0.5
)");
  const Cluster cluster = first_cluster(file);
  REQUIRE(cluster.num_nodes() == 3);
  REQUIRE(cluster.num_devices() == 6);
  CHECK(cluster.device(gpu3).name == "rank3");
  CHECK(cluster.device(gpu3).memory == 2_GiB);
  CHECK(cluster.node_of(gpu3) == NodeId{1});
  CHECK(cluster.first_device(NodeId{2}) == DeviceId{4});
  CHECK(cluster.node(NodeId{2}).nics == 2);
  CHECK(cluster.link(gpu2, gpu3) == Link{.bandwidth = 100.0_GBps, .latency = 2us});
  // 80 % of 20 / 4
  CHECK(cluster.link(gpu1, gpu2) == Link{.bandwidth = 4.0_GBps, .latency = 5us});
  // hierarchical by default: inside 2 us + 500 kB / 100 GB/s twice; between nodes each rank has a
  // NIC: twice 5 us + 2 x (5 us + 500 kB / 3 in 41666.75 ns)
  CHECK(all_reduce(cluster, 2) == 2 * (2us + 5us));
  CHECK(all_reduce(cluster, 6) == 2 * (2us + 5us) + 4 * (5us + 41667ns));
}

TEST_CASE("a list of different nodes; between them the slower network") {
  const Cluster cluster = first_cluster(with_cluster(R"(
  nodes:
    - {count: 2, devices: {memory: 1 GiB}, network: {bandwidth: 10 GB/s}}
    - {devices: {count: 2, memory: 2 GiB}, link: {kind: nvlink3}, network: {bandwidth: 4 GB/s}}
)"));
  REQUIRE(cluster.num_nodes() == 3);
  REQUIRE(cluster.num_devices() == 4);
  // By default 95 % of the line rate is achieved.
  CHECK(cluster.link(gpu0, gpu1).bandwidth.bytes_per_second == doctest::Approx(9.5e9));
  CHECK(cluster.link(gpu1, gpu2).bandwidth.bytes_per_second == doctest::Approx(3.8e9));
  CHECK(cluster.link(gpu2, gpu3).bandwidth == 300.0_GBps);
}

TEST_CASE("a node type; further keys override its keys") {
  const ScenarioFile file =
      with_cluster("  nodes: {kind: dgx_a100, count: 2, nics: 4, devices: {memory: 40 GB}}\n",
                   {"sweep.cluster.nodes.count=[1, 2]"});
  CHECK(file.num_points() == 2);
  const Cluster cluster = make_cluster(file.point(1).cluster);
  CHECK(cluster.num_devices() == 16);
  CHECK(cluster.node(NodeId{0}).nics == 4);
  CHECK(cluster.device(gpu0).memory == Bytes{40'000'000'000});
  CHECK(cluster.device(gpu0).kind == "a100");
}

TEST_CASE("the wires of a DGX-1: one, two, or PCIe") {
  const Cluster cluster = first_cluster(with_cluster("  nodes: {kind: dgx1_v100}\n"));
  CHECK(cluster.link(gpu0, gpu1).bandwidth == 25.0_GBps);
  CHECK(cluster.link(gpu0, gpu3).bandwidth == 50.0_GBps);
  CHECK(cluster.link(gpu0, DeviceId{5}).bandwidth == Bandwidth{15.75e9});
}

TEST_CASE("every built-in type of nodes and of collectives makes a cluster, and has a source") {
  for (const auto& [name, model] : built_in_devices().nodes) {
    CAPTURE(name);
    CHECK_FALSE(model.source.empty());
    const Cluster two = first_cluster(with_cluster("  nodes: {kind: " + name + ", count: 2}\n"));
    CHECK(two.num_nodes() == 2);
    const auto devices = static_cast<std::uint32_t>(two.num_devices());
    CHECK(all_reduce(two, devices) > all_reduce(two, devices / 2));
    CHECK(all_reduce(two, devices) < 10ms);
  }
  for (const auto& [name, model] : built_in_devices().collectives) {
    CAPTURE(name);
    CHECK_FALSE(model.source.empty());
    const Cluster cluster = first_cluster(
        with_cluster("  nodes: {kind: dgx1_v100}\n  collectives: {kind: " + name + "}\n"));
    CHECK(all_reduce(cluster, 8) > 10us);
  }
}

TEST_CASE("collectives: a name, options, a type, a type with changes, one inside another") {
  const auto time = [](const std::string& collectives) {
    return all_reduce(
        first_cluster(with_cluster("  nodes: {count: 1, devices: {count: 4, memory: 1 GiB}, link: "
                                   "{bandwidth: 100 GB/s, latency: 1 us}}\n  collectives: " +
                                   collectives + "\n")),
        4);
  };
  const std::string line = "{model: line, latency: 100 us, bandwidth: 150 GB/s}";
  CHECK(time("ring") == 6 * 3500ns);
  CHECK(time("{model: ring}") == time("ring"));
  CHECK(time("tree") == 2 * (2us + 10us));
  CHECK(time(line) == 110us);
  CHECK(time("{model: hierarchical, inside: " + line + "}") == 110us);
  // 49.04 + 6 x 3.171 us and 1.5 MB at 246 / (1 + 0.5224 / 4) GB/s
  CHECK(time("{kind: a100_nvlink}") == 74960ns);
  CHECK(time("{kind: a100_nvlink, latency: 50.04 us}") == time("{kind: a100_nvlink}") + 1us);
  CHECK(time("{model: hierarchical, inside: {kind: a100_nvlink}}") == time("{kind: a100_nvlink}"));
}

TEST_CASE("a table in the scenario's folder") {
  const TemporaryFolder folder;
  folder.write("measured.csv", "ranks,bytes,us\n4,1000000,77\n");
  const ScenarioFile file = with_cluster(
      "  devices: {count: 4, memory: 1 GiB}\n  link: {kind: pcie3}\n"
      "  collectives: {model: table, file: measured.csv}\n",
      {}, folder.file("s.yaml"));
  CHECK(all_reduce(first_cluster(file), 4) == 77us);
}

TEST_CASE("collectives over nodes without a network are refused") {
  const Cluster cluster = first_cluster(
      with_cluster("  nodes: {devices: {count: 2, memory: 1 GiB}, link: {kind: nvlink3}}\n"));
  const std::vector<DeviceId> devices{gpu0, gpu1};
  CHECK_REFUSED(
      cluster.collectives().time({.ranks = 8, .members = 2}, devices, cluster),
      "cluster.nodes: all_reduce of 8 ranks spans several nodes, and 'network' is missing");
}

TEST_CASE("runs on other nodes, or with other collectives, have other hashes") {
  const std::string text =
      "graph: {generate: layered, ops: 10}\nplacers: [single]\n"
      "cluster: {nodes: {kind: dgx_a100, count: 2}}\n";
  const std::string plain = sweep_of(text).header().hash;
  CHECK(sweep_of(text).header().hash == plain);
  CHECK(sweep_of(text, {"cluster.nodes.nics=4"}).header().hash != plain);
  CHECK(sweep_of(text, {"cluster.nodes.oversubscription=2"}).header().hash != plain);
  CHECK(sweep_of(text, {"cluster.collectives=ring"}).header().hash != plain);
}
