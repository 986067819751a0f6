#include "scenarios/read/yaml.h"
#include "sim/collectives/collective_models.h"
#include "tests/prelude.h"

namespace {

using Kind = CollectiveKind;

std::vector<DeviceId> first(std::size_t n) {
  std::vector<DeviceId> devices;
  for (const DeviceId d : id_range<DeviceId>(0, n)) devices.push_back(d);
  return devices;
}

/// `n` devices; a byte takes 1 ns, a message 10 ns besides.
Cluster flat(std::size_t n) {
  return Cluster::uniform(n, 1_GiB, {.bandwidth = 1.0_GBps, .latency = 10ns});
}

/// As many GPUs as the nodes have.
Cluster of(std::vector<Node> nodes) {
  IdVector<DeviceId, Device> all;
  for (const Node& node : nodes)
    for (std::uint32_t i = 0; i < node.devices; ++i)
      all.push_back({.name = "gpu", .kind = {}, .memory = 1_GiB});
  return Cluster::of_nodes(std::move(all), std::move(nodes));
}

/// Nodes of `devices` each. Inside 4 B/ns and 1 ns; a NIC 1 B/ns and 10 ns.
Cluster machines(std::size_t count, std::uint32_t devices, std::uint32_t nics) {
  const Node node{.devices = devices,
                  .nics = nics,
                  .network = {.bandwidth = 1.0_GBps, .latency = 10ns},
                  .inside = {.bandwidth = 4.0_GBps, .latency = 1ns}};
  return of(std::vector<Node>(count, node));
}

Options::Value value(std::string text) { return {std::move(text), ""}; }

std::shared_ptr<const CollectiveModel> model(std::string_view name,
                                             std::map<std::string, Options::Value> options = {}) {
  return make_collectives(name, Options(std::string(name), std::move(options)));
}

Duration time_of(const CollectiveModel& model, Kind kind, Bytes bytes, const Cluster& cluster,
                 std::size_t members, Collective more = {}) {
  more.kind = kind;
  more.bytes = bytes;
  more.members = static_cast<std::uint32_t>(members);
  more.ranks = std::max(more.ranks, more.members);
  return model.time(more, first(members), cluster);
}

std::vector<Kind> kinds() {
  constexpr auto every = all<Kind>();
  return {every.begin(), every.end()};
}

/// A table of 2 and 4 ranks.
const char* const small_table =
    "ranks,bytes,us\n"
    "2,1000,10\n"
    "2,100000,40\n"
    "4,1000,20\n"
    "4,100000,80\n";

/// Every registered model, with what it needs.
std::vector<std::pair<std::string, std::shared_ptr<const CollectiveModel>>> all_models(
    const TemporaryFolder& folder) {
  std::vector<std::pair<std::string, std::shared_ptr<const CollectiveModel>>> models;
  for (const CollectiveModelEntry& entry : collective_models()) {
    std::map<std::string, Options::Value> options;
    if (entry.name == "line")
      options = {{"latency", value("5 us")}, {"bandwidth", value("10 GB/s")}};
    if (entry.name == "table") options = {{"file", value(folder.write("t.csv", small_table))}};
    models.emplace_back(entry.name, model(entry.name, std::move(options)));
  }
  return models;
}

}  // namespace

TEST_SUITE_BEGIN("collectives");
TEST_CASE("ring: 2 (n - 1) steps of S / n") {
  const auto ring = model("ring");
  const Cluster cluster = flat(4);
  // n = 4: a step of 1000 B takes 1010 ns
  CHECK(time_of(*ring, Kind::all_reduce, 4000_B, cluster, 4) == 6060ns);
  CHECK(time_of(*ring, Kind::reduce_scatter, 4000_B, cluster, 4) == 3030ns);
  CHECK(time_of(*ring, Kind::all_gather, 4000_B, cluster, 4) == 3030ns);
  CHECK(time_of(*ring, Kind::all_to_all, 4000_B, cluster, 4) == 3030ns);
  CHECK(time_of(*ring, Kind::broadcast, 4000_B, cluster, 4) == 4030ns);
  CHECK(time_of(*ring, Kind::send_recv, 4000_B, cluster, 2) == 4010ns);
  // n = 2: two steps of 2000 B
  CHECK(time_of(*ring, Kind::all_reduce, 4000_B, cluster, 2) == 4020ns);
  CHECK(time_of(*ring, Kind::broadcast, 4000_B, cluster, 2) == 4010ns);
  CHECK(time_of(*ring, Kind::all_reduce, 4000_B, cluster, 1) == 0ns);
  // parts are rounded up to bytes: 4001 B in parts of 1001
  CHECK(time_of(*ring, Kind::all_gather, 4001_B, cluster, 4) == 3033ns);
}

TEST_CASE("ring: the slowest link of the ring determines the time, links outside do not matter") {
  Cluster cluster = flat(3);
  cluster.set_link(gpu1, gpu0, {.bandwidth = 0.1_GBps});  // the circle goes 0, 1, 2, 0
  CHECK(time_of(*model("ring"), Kind::all_gather, 3000_B, cluster, 3) == 2020ns);
  cluster.set_link(gpu2, gpu0, {.bandwidth = 0.5_GBps, .latency = 30ns});
  CHECK(time_of(*model("ring"), Kind::all_gather, 3000_B, cluster, 3) == 2 * 2030ns);
}

TEST_CASE("tree: ceil(log2 n) steps of all") {
  const auto tree = model("tree");
  const Cluster cluster = flat(8);
  CHECK(time_of(*tree, Kind::all_reduce, 4000_B, cluster, 4) == 2 * (20ns + 4000ns));
  CHECK(time_of(*tree, Kind::broadcast, 4000_B, cluster, 4) == 4020ns);
  CHECK(time_of(*tree, Kind::broadcast, 4000_B, cluster, 5) == 4030ns);
  CHECK(time_of(*tree, Kind::reduce_scatter, 4000_B, cluster, 4) == 3020ns);
  CHECK(time_of(*tree, Kind::all_to_all, 4000_B, cluster, 4) == 20ns + 2 * 2000ns);
  CHECK(time_of(*tree, Kind::send_recv, 4000_B, cluster, 2) == 4010ns);
}

TEST_CASE("hierarchical: inside, between on a share of the NICs, inside") {
  const auto model_ = model("hierarchical");
  // Two nodes of two. Inside a part of 2000 B takes 500 + 1. Between the nodes each of a node's
  // two ranks reduces 2000 B in two steps of 1000 B.
  const auto all_reduce = [&](std::uint32_t nics, Collective more = {}) {
    return time_of(*model_, Kind::all_reduce, 4000_B, machines(2, 2, nics), 4, more);
  };
  CHECK(all_reduce(1) == 501ns + 2 * (2000ns + 10ns) + 501ns);  // each at half a NIC
  CHECK(all_reduce(2) == 501ns + 2 * (1000ns + 10ns) + 501ns);  // each has a NIC
  CHECK(all_reduce(8) == all_reduce(2));                        // a rank uses one NIC
  CHECK(all_reduce(1, {.sharing = 2}) == 501ns + 2 * (4000ns + 10ns) + 501ns);
  CHECK(all_reduce(4, {.sharing = 2}) == all_reduce(2));
  const Cluster two = machines(2, 2, 2);
  CHECK(time_of(*model_, Kind::reduce_scatter, 4000_B, two, 4) == 501ns + 1010ns);
  CHECK(time_of(*model_, Kind::all_gather, 4000_B, two, 4) == 501ns + 1010ns);
  // once to the other node, then inside: (10 + 4000) + (1 + 1000)
  CHECK(time_of(*model_, Kind::broadcast, 4000_B, two, 4) == 5011ns);
  // 1000 B to each other rank: two away, one inside
  CHECK(time_of(*model_, Kind::all_to_all, 4000_B, two, 4) == 2 * 1010ns + 251ns);
  Collective away{.kind = Kind::send_recv, .bytes = 4000_B, .ranks = 2, .members = 2};
  CHECK(model_->time(away, std::vector{gpu0, gpu2}, two) == 4010ns);
  CHECK(model_->time(away, std::vector{gpu0, gpu1}, two) == 1001ns);
}

TEST_CASE("hierarchical: parts are rounded up to bytes") {
  const auto model_ = model("hierarchical");
  const Cluster two = machines(2, 2, 2);
  // Inside a part of 4001 B is 2001 B, which take 501 ns at 4 B/ns and 1. Between, 2001 B go in
  // parts of 1001 B, of 1001 + 10 ns each.
  CHECK(time_of(*model_, Kind::all_reduce, 4001_B, two, 4) == 2 * 502ns + 2 * 1011ns);
  // 1001 B to each of two ranks away; 2002 B among the two inside, a part of 1001 B in 251 + 1.
  CHECK(time_of(*model_, Kind::all_to_all, 4001_B, two, 4) == 2 * 1011ns + 252ns);
}

TEST_CASE("hierarchical: groups of several ranks per node may reach fewer NICs") {
  const auto all = model("hierarchical");
  const auto few = model("hierarchical", {{"nics_per_group", {"1", {}, {}}}});
  // Inside 2000 B at 4 B/ns and 1 ns, twice. Between four nodes 6 steps of 500 B: a NIC for each
  // of the two ranks of a node, or half of one.
  const Cluster four = machines(4, 2, 2);
  CHECK(time_of(*all, Kind::all_reduce, 4000_B, four, 8) == 2 * 501ns + 6 * 510ns);
  CHECK(time_of(*few, Kind::all_reduce, 4000_B, four, 8) == 2 * 501ns + 6 * 1010ns);
  // With a second concurrent group: half of the bandwidth.
  CHECK(time_of(*few, Kind::all_reduce, 4000_B, four, 8, {.sharing = 2}) == 2 * 501ns + 6 * 2010ns);
  // On two nodes, or with one rank on each, all NICs are reached.
  const Cluster two = machines(2, 2, 2);
  for (const std::uint32_t ranks : {4U, 2U})
    CHECK(time_of(*few, Kind::all_reduce, 4000_B, two, ranks, {.nodes = 2}) ==
          time_of(*all, Kind::all_reduce, 4000_B, two, ranks, {.nodes = 2}));
}

TEST_CASE("hierarchical: the slowest node determines the intra-node time") {
  for (const bool slow_first : {false, true}) {
    CAPTURE(slow_first);
    const Node fast{.devices = 2,
                    .nics = 2,
                    .network = {.bandwidth = 1.0_GBps, .latency = 10ns},
                    .inside = {.bandwidth = 4.0_GBps, .latency = 1ns}};
    Node slow = fast;
    slow.inside = {.bandwidth = 1.0_GBps, .latency = 1ns};
    const Cluster cluster = of(slow_first ? std::vector{slow, fast} : std::vector{fast, slow});
    // 2000 B inside the slow node take 2000 + 1 ns; between 2 x (1000 + 10)
    CHECK(time_of(*model("hierarchical"), Kind::all_reduce, 4000_B, cluster, 4) ==
          2 * 2001ns + 2 * 1010ns);
  }
}

TEST_CASE("one member that represents replicas takes the time of all of them") {
  for (const char* name : {"ring", "tree", "hierarchical", "nccl"}) {
    CAPTURE(name);
    const auto model_ = model(name);
    for (const Kind kind : kinds()) {
      CAPTURE(to_text(kind));
      if (kind == Kind::send_recv) continue;
      const Duration all_of_them = time_of(*model_, kind, 4000_B, machines(2, 2, 1), 4);
      CHECK(time_of(*model_, kind, 4000_B, machines(2, 2, 1), 1, {.ranks = 4}) == all_of_them);
      CHECK(time_of(*model_, kind, 4000_B, machines(2, 2, 1), 2, {.ranks = 4, .nodes = 2}) ==
            all_of_them);
    }
  }
}

TEST_CASE("a model inside the nodes of hierarchical") {
  const Options::Value inside{
      "",
      "",
      {{"model", value("line")}, {"latency", value("100 ns")}, {"bandwidth", value("2 GB/s")}}};
  const auto line_inside = model("hierarchical", {{"inside", inside}});
  // n = 2 of 4000 B: half of 100, and 4000 (2 - 1) / 2 bytes at 2 B/ns; twice
  CHECK(time_of(*line_inside, Kind::all_reduce, 4000_B, machines(2, 2, 2), 4) ==
        2 * (50ns + 1000ns) + 2 * 1010ns);
  CHECK(time_of(*line_inside, Kind::all_reduce, 4000_B, machines(1, 2, 2), 2) == 2100ns);
}

TEST_CASE("hierarchical on one node is ring, for every kind") {
  for (const Kind kind : kinds()) {
    CAPTURE(to_text(kind));
    for (const std::size_t n : {2UL, 3UL, 4UL}) {
      const Duration ring = time_of(*model("ring"), kind, 999_B, machines(1, 4, 1), n);
      CHECK(time_of(*model("hierarchical"), kind, 999_B, machines(1, 4, 1), n) == ring);
    }
    const Duration flat_ring = time_of(*model("ring"), kind, 999_B, flat(4), 4);
    CHECK(time_of(*model("hierarchical"), kind, 999_B, flat(4), 4) == flat_ring);
  }
}

TEST_CASE("steps, simulated send by send, is ring to the nanosecond on equal links") {
  const auto steps = model("steps");
  const auto ring = model("ring");
  for (std::size_t n = 2; n <= 9; ++n) {
    for (const std::int64_t part : {0, 1, 7, 1000, 123457}) {
      for (const double bandwidth : {0.3, 1.0, 12.34, 300.0}) {
        const Cluster cluster = Cluster::uniform(
            n, 1_GiB, {.bandwidth = {bandwidth * 1e9}, .latency = Duration{part % 5 * 100}});
        const Bytes bytes{part * static_cast<std::int64_t>(n)};
        for (const Kind kind :
             {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::all_to_all}) {
          INFO(n, " ", part, " ", bandwidth, " ", to_text(kind));
          CHECK(time_of(*steps, kind, bytes, cluster, n) ==
                time_of(*ring, kind, bytes, cluster, n));
        }
      }
    }
  }
  CHECK(time_of(*steps, Kind::send_recv, 4000_B, flat(2), 2) == 4010ns);
}

TEST_CASE("steps: a broadcast of n pipelined parts; finer parts would approach ring's formula") {
  // n = 4: the first part arrives last after 3 steps of 1010 ns, then 3 more parts
  CHECK(time_of(*model("steps"), Kind::broadcast, 4000_B, flat(4), 4) == 6 * 1010ns);
  CHECK(time_of(*model("steps"), Kind::broadcast, 4000_B, flat(2), 2) == 2 * 2010ns);
}

TEST_CASE("steps: sends that share a NIC are slower, unlike in ring's formula") {
  // Ranks 0, 1 | 2, 3 in two nodes: the ring crosses once each way, so one NIC is enough. In
  // all_to_all two ranks of a node cross at once in two of the three steps.
  const Cluster one = machines(2, 2, 1), two = machines(2, 2, 2);
  CHECK(time_of(*model("steps"), Kind::all_reduce, 4000_B, one, 4) ==
        time_of(*model("steps"), Kind::all_reduce, 4000_B, two, 4));
  CHECK(time_of(*model("steps"), Kind::all_to_all, 4000_B, one, 4) >
        time_of(*model("steps"), Kind::all_to_all, 4000_B, two, 4));
}

TEST_CASE("steps rejects replicas that are not simulated") {
  CHECK(message<InputError>(
            [] { time_of(*model("steps"), Kind::all_reduce, 1_B, flat(2), 2, {.ranks = 8}); }) ==
        "collectives: steps needs every rank, and 2 of the 8 ranks of all_reduce are simulated");
}

TEST_CASE("nccl: ring of Simple for large buffers, of LL for small ones") {
  // 4 ranks, 100 B/ns of which 80 % count
  const Cluster cluster = Cluster::uniform(4, 1_GiB, {.bandwidth = 100.0_GBps, .latency = 0ns});
  const auto nccl = model("nccl");
  // 8.4 + 6 x 3.4 us, and 2^30 x 2 x 3 / 4 bytes at 80 B/ns
  CHECK(time_of(*nccl, Kind::all_reduce, 1_GiB, cluster, 4) == 28800ns + 20132660ns);
  // LL: 3.6 + 6 x 0.47 us, and 8 x 2 x 3 / 4 bytes at 80 / 4 B/ns
  CHECK(time_of(*nccl, Kind::all_reduce, 8_B, cluster, 4) == 6421ns);
  // half of the steps, half of the bytes
  CHECK(time_of(*nccl, Kind::all_gather, 1_GiB, cluster, 4) == 18600ns + 10066330ns);
}

TEST_CASE("nccl: between nodes all NICs together are the limit of the ring") {
  // Nodes of 4 with 2 NICs of 10 B/ns, 95 % of it; inside 100 B/ns.
  const Node node{.devices = 4,
                  .nics = 2,
                  .network = {.bandwidth = 9.5_GBps},
                  .inside = {.bandwidth = 100.0_GBps}};
  const Cluster four = of(std::vector<Node>(4, node));
  // Four nodes: 30 steps, 6 of them between; (8.4 + 24 x 3.4 + 6 x 9.6) x 1.9 = 280.44 us;
  // 2^30 x 30 / 16 / 19 = 105961364.2 ns
  CHECK(time_of(*model("nccl"), Kind::all_reduce, 1_GiB, four, 16) == 280440ns + 105961365ns);
  // with a second concurrent one: half of the network
  CHECK(time_of(*model("nccl"), Kind::all_reduce, 1_GiB, four, 16, {.sharing = 2}) ==
        280440ns + 211922729ns);
}

TEST_CASE("nccl: trees of Simple for a large buffer of two nodes") {
  // Nodes of 2 with a NIC of 10 B/ns, 95 % of it; inside 100 B/ns.
  const Node node{.devices = 2,
                  .nics = 1,
                  .network = {.bandwidth = 9.5_GBps},
                  .inside = {.bandwidth = 100.0_GBps}};
  const Cluster two = of(std::vector<Node>(2, node));
  // Latency 2 x (28 + 50) us. Two trees: 0.92 x 2 x 9.5 B/ns, half of it each way; 2^30 bytes
  // take 2^30 / 8.74 = 122853755.6 ns. LL128 reaches 120/128 of it; a ring takes 1.5 x 2^30 / 9.5
  // ns.
  CHECK(time_of(*model("nccl"), Kind::all_reduce, 1_GiB, two, 4) == 156000ns + 122853756ns);
}

// Three devices, one wire between each two: two rings, one in each direction, of 3 B/ns each.
TEST_CASE("line: the wires of a node give the bandwidth, and are needed for it") {
  const auto cluster = [](std::size_t nodes, std::vector<std::uint32_t> wires) {
    return of(std::vector<Node>(nodes, {.devices = 3,
                                        .network = {.bandwidth = 1.0_GBps},
                                        .inside = {.bandwidth = 3.0_GBps},
                                        .wires = std::move(wires)}));
  };
  const std::vector<std::uint32_t> triangle{0, 1, 1, 1, 0, 1, 1, 1, 0};
  const auto line = model("line", {{"latency", value("100 ns")}, {"wire", value("3 GB/s")}});
  // 2 x 2 / 3 of 9000 B at 6 B/ns
  CHECK(time_of(*line, Kind::all_reduce, 9000_B, cluster(1, triangle), 3) == 100ns + 2000ns);
  const auto refused = [&](const Cluster& on, std::size_t members) {
    return message<InputError>([&] { time_of(*line, Kind::all_reduce, 9000_B, on, members); });
  };
  const std::string needs_wires =
      "collectives: line with 'wire' needs a cluster of nodes with wires";
  CHECK(refused(cluster(1, {}), 3) == needs_wires);
  CHECK(refused(flat(3), 3) == needs_wires);
  CHECK(refused(cluster(2, triangle), 6).starts_with("collectives: line with 'wire' is of one"));
}

TEST_CASE("line: a latency and a bandwidth by number of ranks") {
  const auto line = model("line", {{"latency", value("100 ns")},
                                   {"step_latency", value("10 ns")},
                                   {"bandwidth", value("3 GB/s")},
                                   {"loss", value("2")}});
  // n = 4: 100 + 60, and 6000 bytes at 3 / (1 + 2 / 4) = 2 B/ns
  CHECK(time_of(*line, Kind::all_reduce, 4000_B, flat(4), 4) == 160ns + 3000ns);
  CHECK(time_of(*line, Kind::all_gather, 4000_B, flat(4), 4) == 80ns + 1500ns);
  CHECK(time_of(*line, Kind::broadcast, 4000_B, flat(4), 4) == 80ns + 2000ns);
  // n = 2: 100 + 20, and 4000 bytes at 1.5 B/ns
  CHECK(time_of(*line, Kind::all_reduce, 4000_B, flat(2), 2) == 120ns + 2667ns);
  // An all_gather takes 0.6 of an all_reduce, and not half.
  const auto slow = model("line", {{"latency", value("100 ns")},
                                   {"step_latency", value("10 ns")},
                                   {"bandwidth", value("3 GB/s")},
                                   {"loss", value("2")},
                                   {"part", value("0.6")}});
  CHECK(time_of(*slow, Kind::all_gather, 4000_B, flat(4), 4) == 96ns + 1800ns);
  CHECK(time_of(*slow, Kind::all_reduce, 4000_B, flat(4), 4) == 160ns + 3000ns);
}

TEST_CASE("line: values of some numbers of ranks") {
  const Options::Value of_two{
      "", "", {{"latency", value("100 ns")}, {"bandwidth", value("2 GB/s")}}};
  const Options::Value ranks{"", "", {{"2", of_two}}};
  const auto line = model("line", {{"ranks", ranks}});
  CHECK(time_of(*line, Kind::all_reduce, 4000_B, flat(2), 2) == 100ns + 2000ns);
  CHECK_REFUSED(time_of(*line, Kind::all_reduce, 4000_B, flat(3), 3),
                "collectives: line has no values for 3 ranks");
}

TEST_CASE("table: exact at its points, lines of logarithms between") {
  const TemporaryFolder folder;
  const auto table = model("table", {{"file", value(folder.write("t.csv", small_table))}});
  CHECK(time_of(*table, Kind::all_reduce, 1000_B, flat(2), 2) == 10us);
  CHECK(time_of(*table, Kind::all_reduce, 100000_B, flat(4), 4) == 80us);
  CHECK(time_of(*table, Kind::all_reduce, 10000_B, flat(2), 2) == 20us);  // sqrt(10 x 40)
  CHECK(time_of(*table, Kind::all_reduce, 1_B, flat(2), 2) == 10us);      // below the least
  CHECK(time_of(*table, Kind::all_reduce, 300000_B, flat(2), 2) == 120us);
  // The least size is latency: half way between 2 and 4 ranks.
  CHECK(time_of(*table, Kind::all_reduce, 1000_B, flat(3), 3) == 15us);
  // What 100 kB take besides, 30 and 60 us, over (n - 1) / n: 1/2 of 2, 2/3 of 3, 3/4 of 4.
  CHECK(time_of(*table, Kind::all_reduce, 100000_B, flat(3), 3) == 65us);   // 15 + 30 + 2/3 x 30
  CHECK(time_of(*table, Kind::all_reduce, 1000_B, flat(8), 8) == 23333ns);  // 20 x 7/6
  CHECK(time_of(*table, Kind::all_gather, 1000_B, flat(2), 2) == 5us);
}

TEST_CASE("a table of times has its own time for each kind") {
  const auto table = make_collectives(parse_yaml(
      "{model: table, first: 1000 B, times: {all_reduce: {2: [10, 12, 20]}, all_gather: {2: [4, "
      "6, 9]}}}",
      "table"));
  CHECK(time_of(*table, Kind::all_reduce, 2000_B, flat(2), 2) == 12us);  // sizes double
  CHECK(time_of(*table, Kind::all_gather, 4000_B, flat(2), 2) == 9us);
  CHECK(time_of(*table, Kind::broadcast, 4000_B, flat(2), 2) == 9us);        // the same bytes
  CHECK(time_of(*table, Kind::reduce_scatter, 4000_B, flat(2), 2) == 10us);  // half of 20
  const auto wrong = [](const std::string& text) {
    return message<InputError>([&] { make_collectives(parse_yaml(text, "t")); });
  };
  CHECK(wrong("{model: table, times: {all_reduce: {2: [1, x]}}}") ==
        "t:1:44: table: times: 'x' is not a time in us above 0");
  CHECK(wrong("{model: table, times: {all_gather: {2: [1]}}}") ==
        "t:1:23: table.times: it needs all_reduce");
}

TEST_CASE("table: a measured kind takes its own time, others half of an all_reduce") {
  const TemporaryFolder folder;
  const auto table = model("table", {{"file", value(folder.write("t.csv",
                                                                 "kind,ranks,bytes,us\n"
                                                                 "all_reduce,2,1000,10\n"
                                                                 "broadcast,2,1000,7\n"))}});
  CHECK(time_of(*table, Kind::all_reduce, 1000_B, flat(2), 2) == 10us);
  CHECK(time_of(*table, Kind::broadcast, 1000_B, flat(2), 2) == 7us);
  CHECK(time_of(*table, Kind::all_gather, 1000_B, flat(2), 2) == 5us);
  const auto refused = [&](const char* text) {
    return message<InputError>(
        [&] { model("table", {{"file", value(folder.write("u.csv", text))}}); });
  };
  CHECK(holds(refused("kind,ranks,bytes,us\nsum,2,1000,7\n"),
              ":2:1: 'sum' is no kind of collective"));
  CHECK(holds(refused("kind,ranks,bytes,us\nbroadcast,2,1000,7\n"), "no all_reduce"));
}

TEST_CASE("errors in a table name their place") {
  const TemporaryFolder folder;
  const auto read = [&](std::string_view text) {
    const std::string path = folder.write("t.csv", text);
    return without(message<InputError>([&] { model("table", {{"file", value(path)}}); }), path);
  };
  CHECK(read("ranks,bytes\n2,1\n") == ":1:1: no column 'us' (columns: ranks, bytes)");
  CHECK(read("ranks,bytes,us\n1,1,1\n") == ":2:1: ranks '1' is not a whole number of at least 2");
  CHECK(read("ranks,bytes,us\n2,8,5\n2,8,6\n") == ":2:1: two times of 2 ranks and 8 bytes");
  CHECK(read("ranks,bytes,us\n") == "table.file: '' has no row");
  CHECK_REFUSED(model("table"), "table.file: missing: the CSV with the columns ranks, bytes, us");
}

TEST_CASE("every model is monotone in bytes, non-negative and deterministic") {
  const TemporaryFolder folder;
  for (const auto& [name, model_] : all_models(folder)) {
    CAPTURE(name);
    for (const Kind kind : kinds()) {
      CAPTURE(to_text(kind));
      for (const std::size_t n : {2UL, 3UL, 4UL}) {
        const Cluster cluster = flat(n);
        Duration last{};
        for (std::int64_t bytes = 0; bytes < (std::int64_t{1} << 40); bytes = bytes * 3 + 1) {
          const Duration now = time_of(*model_, kind, {bytes}, cluster, n);
          CHECK(now >= last);
          CHECK(now == time_of(*model_, kind, {bytes}, cluster, n));
          last = now;
        }
        CHECK(last > 1s);  // 10^12 bytes at 1 B/ns, or as the table goes on
      }
      CHECK(time_of(*model_, kind, 1000_B, flat(1), 1) == 0ns);
    }
  }
}

TEST_CASE("every model saturates at the limit instead of overflowing") {
  const TemporaryFolder folder;
  const Cluster slow =
      Cluster::uniform(2, 1_GiB, {.bandwidth = {1e-6}, .latency = Duration{count_limit}});
  for (const auto& [name, model_] : all_models(folder)) {
    CAPTURE(name);
    for (const Kind kind : kinds())
      CHECK(time_of(*model_, kind, Bytes{count_limit - 1}, slow, 2).count() <= count_limit);
  }
}

TEST_CASE("every model has a summary and a source, and rejects unknown options") {
  for (const CollectiveModelEntry& entry : collective_models()) {
    CAPTURE(entry.name);
    CHECK_FALSE(entry.summary.empty());
    CHECK_FALSE(entry.source.empty());
    CHECK_THROWS_AS(model(entry.name, {{"no_such_option", value("1")}}), InputError);
  }
  CHECK(message<InputError>([] {
          model("rings");
        }).starts_with("no collective model 'rings' (did you mean 'ring'?)"));
}
