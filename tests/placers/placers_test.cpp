#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "placers/colocation.h"
#include "placers/registry.h"
#include "sim/engine/simulation.h"
#include "sim/graph/analysis.h"
#include "sim/random.h"
#include "tests/message.h"
#include "tests/small_graphs.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"
#include "tests/thorough.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

using Values = std::map<std::string, Options::Value>;

Options::Value value(std::string text, std::string where = {}) {
  return {.text = std::move(text), .where = std::move(where), .children = {}};
}

std::unique_ptr<Placer> placer(const std::string& name, const Values& values = {}) {
  return make_placer(name, Options(name, values));
}

Placement place(const std::string& name, const OpGraph& graph, const Cluster& cluster,
                const Values& values = {}, std::uint64_t seed = 0) {
  const ProfiledCosts costs(graph, cluster);
  return placer(name, values)->place({graph, cluster, costs}, seed);
}

/// The devices of the ops in id order, as "0 1 1".
std::string devices(const Placement& placement) {
  std::string text;
  for (const DeviceId d : placement.device)
    text += fmt::format("{}{}", text.empty() ? "" : " ", index(d));
  return text;
}

/// Devices of 1 B/ns links, one for each of `memories`.
Cluster with_memory(std::initializer_list<Bytes> memories) {
  IdVector<DeviceId, Device> all;
  for (const Bytes memory : memories)
    all.push_back({.name = fmt::format("gpu{}", all.size()), .kind = {}, .memory = memory});
  return Cluster::uniform(all, {.bandwidth = 1.0_GBps, .latency = 0ns});
}

/// Ops named a, b, c, ... of these persistent bytes, without edges, 1 ns each.
OpGraph weights(std::initializer_list<std::int64_t> bytes) {
  OpGraphBuilder g;
  char name = 'a';
  for (const std::int64_t b : bytes)
    g.add_op({.name = std::string(1, name++), .compute = 1ns, .persistent = {b}});
  return std::move(g).build();
}

/// 20 to 60 ops, up to three inputs each, a quarter of them in groups.
OpGraph random_graph(std::uint64_t seed) {
  Random random(seed);
  OpGraphBuilder g;
  const std::uint32_t n = 20 + random.below(41);
  std::vector<TensorId> tensors;
  for (std::uint32_t i = 0; i < n; ++i) {
    const OpId v = g.add_op({.name = fmt::format("op{}", i),
                             .compute = Duration(1 + random.below(1000)),
                             .persistent = {random.below(4000)},
                             .temporary = {random.below(1000)}});
    for (std::uint32_t k = random.below(4); k > 0 && i > 0; --k)
      g.add_edge(tensors[random.below(i)], v);
    if (random.below(4) == 0) g.colocate(v, fmt::format("group{}", random.below(5)));
    tensors.push_back(g.add_tensor(v, {random.below(2000)}));
  }
  return std::move(g).build();
}

Cluster faster_second(Bytes memory) {
  IdVector<DeviceId, Device> all;
  all.push_back({.name = "slow", .kind = {}, .memory = memory, .speed = 1.0});
  all.push_back({.name = "fast", .kind = {}, .memory = memory, .speed = 2.5});
  Cluster cluster = Cluster::uniform(all, {.bandwidth = 1.0_GBps, .latency = 10ns});
  cluster.set_link(gpu1, gpu0, {.bandwidth = 0.5_GBps, .latency = 300ns});
  return cluster;
}

bool have_python() {
  return std::system("python3 -c '' 2>/dev/null") == 0;  // NOLINT(concurrency-mt-unsafe)
}

/// Options with which `entry` can be made; nothing if it cannot be run here.
std::optional<Values> usable_options(const PlacerEntry& entry) {
  if (entry.name == "expert") return Values{{"default", value("0")}};
  // Graphs as random as these have ideals without number.
  if (entry.name == "exact_dp") return Values{{"max_ideals", value("1000")}};
  if (entry.name.starts_with("mip_")) return Values{{"max_nodes", value("0")}};  // the start only
  if (entry.name == "learned")
    return Values{{"evaluations", value("16")}, {"imitate", value("false")}};
  if (entry.name == "search") return Values{{"evaluations", value("100")}};
  if (entry.make_planner != nullptr)
    return std::nullopt;  // exact/plan_test.cpp: they read files of their own
  if (entry.name != "exec") return Values{};
  if (!have_python()) {
    MESSAGE("skipped: exec, for there is no python3");
    return std::nullopt;
  }
  return Values{{"path", value(source_dir() + "/scenarios/examples/external_placer.py")}};
}

/// `test(entry, placer)` of each that can be run here.
void for_each_placer(auto&& test) {
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    if (const auto options = usable_options(entry))
      test(entry, *placer(std::string(entry.name), *options));
  }
}

/// Persistent bytes of all its ops and the working bytes of the largest: the least a device needs.
/// For a placer that counts weights only: the weights.
Bytes least_memory(const PlacerEntry& entry, const OpGraph& graph, const Placement& placement,
                   DeviceId d) {
  Bytes persistent;
  Bytes working;
  for (const OpId v : graph.ops()) {
    if (placement.device[v] != d) continue;
    persistent += graph.op(v).persistent;
    working = std::max(working, graph.op(v).temporary + output_bytes(graph, v));
  }
  return entry.memory == CountedMemory::weights ? persistent : persistent + working;
}

void check_contract(const PlacerEntry& entry, const Placer& placer, const OpGraph& graph,
                    const Cluster& cluster, std::uint64_t seed) {
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  Placement p;
  try {
    p = placer.place(problem, seed);
  } catch (const InfeasibleError& e) {
    CHECK(entry.memory != CountedMemory::ignored);
    CHECK(std::string_view(e.what()).find('\n') == std::string_view::npos);
    return;
  }
  REQUIRE(p.device.size() == graph.num_ops());
  CHECK((p.priority.empty() || p.priority.size() == graph.num_ops()));
  for (const DeviceId d : p.device) REQUIRE(index(d) < cluster.num_devices());
  for (const GroupId g : graph.groups()) {
    for (const OpId v : graph.members(g)) CHECK(p.device[v] == p.device[graph.members(g).front()]);
  }
  const Placement again = placer.place(problem, seed);
  CHECK(p.device == again.device);
  CHECK(p.priority == again.priority);
  if (entry.memory == CountedMemory::ignored) return;
  for (const DeviceId d : cluster.devices())
    CHECK(least_memory(entry, graph, p, d) <= cluster.device(d).memory);
}

}  // namespace

TEST_SUITE_BEGIN("placers");

TEST_CASE("a placer that needs an option says which; it says so, too, if it is made without") {
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    const std::string said =
        message<InputError>([&] { make_placer(entry.name, Options(std::string(entry.name))); });
    CHECK((said == "no error") == entry.needs.empty());
  }
}

TEST_CASE("placers/README.md has a row for every placer, with what it counts as memory") {
  std::ifstream file(source_dir() + "/placers/README.md");
  std::map<std::string, std::string> memory;  // of each first cell
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    if (cells.size() > 5 && cells[1].starts_with(" `")) memory[cells[1]] = cells[4];
  }
  for (const PlacerEntry& entry : placers()) {
    const std::string name = entry.name == "exec" ? "exec:PATH" : std::string(entry.name);
    CHECK_MESSAGE(memory[" `" + name + "` "] == fmt::format(" {} ", to_text(entry.memory)), name);
  }
}

TEST_CASE("every placer keeps the contract, whatever the graph and the cluster") {
  for_each_placer([&](const PlacerEntry& entry, const Placer& placer) {
    const std::uint64_t rounds = entry.name == "exec" ? 2 : thorough() ? 40 : 8;
    for (std::uint64_t seed = 0; seed < rounds; ++seed) {
      CAPTURE(seed);
      const OpGraph graph = random_graph(seed);
      check_contract(entry, placer, graph, gpus(1), seed);
      check_contract(entry, placer, graph, gpus(4), seed);
      check_contract(entry, placer, graph, gpus(4, 50'000_B), seed);
      check_contract(entry, placer, graph, gpus(3, 30'000_B), seed);
      check_contract(entry, placer, graph, with_memory({10'000_B, 40'000_B, 0_B, 90'000_B}), seed);
      check_contract(entry, placer, graph, faster_second(100'000_B), seed);
    }
  });
}

TEST_CASE("every placer finds a placement where memory abounds, and it runs") {
  const OpGraph graph = random_graph(1);
  const Cluster cluster = gpus(4);
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  for_each_placer([&](const PlacerEntry&, const Placer& placer) {
    const Placement p = placer.place(problem, 7);
    const StepResult step = simulate(problem, p);
    CHECK_FALSE(step.oom);
    CHECK(step.makespan >= critical_path(graph));
  });
}

TEST_CASE("with too little memory a placer says infeasible, or the engine out of memory") {
  const OpGraph graph = random_graph(1);
  const Cluster cluster = gpus(4, 1_B);
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  for_each_placer([&](const PlacerEntry& entry, const Placer& placer) {
    if (entry.memory == CountedMemory::ignored)
      CHECK(simulate(problem, placer.place(problem, 7)).oom);
    else
      CHECK_THROWS_AS(placer.place(problem, 7), InfeasibleError);
  });
}

TEST_CASE("every placer refuses an option it does not have") {
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    Values values = usable_options(entry).value_or(
        Values{{entry.make_planner != nullptr ? "file" : "path", value("x")}});
    values["no_such_option"] = value("1", "x.yaml:3:4");
    const std::string what = message<InputError>([&] { placer(std::string(entry.name), values); });
    CHECK(
        what.starts_with(fmt::format("x.yaml:3:4: {} has no option 'no_such_option'", entry.name)));
  }
}

TEST_CASE("a placer may be called from several threads at once") {
  const OpGraph graph = random_graph(2);
  const Cluster cluster = gpus(4);
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  for_each_placer([&](const PlacerEntry&, const Placer& placer) {
    const Placement alone = placer.place(problem, 3);
    std::vector<Placement> together(4);
    std::vector<std::thread> threads;
    for (Placement& p : together) threads.emplace_back([&] { p = placer.place(problem, 3); });
    for (std::thread& t : threads) t.join();
    for (const Placement& p : together) CHECK(p.device == alone.device);
  });
}

TEST_CASE("an unknown placer is refused with the nearest name") {
  const std::string what =
      message<InputError>([] { make_placer("hefd", Options("hefd"), "x.yaml:9:5"); });
  CHECK(what.starts_with("x.yaml:9:5: no placer 'hefd' (did you mean 'heft'?) (placers: single, "));
}

TEST_CASE("the README has a row for every placer") {
  std::ifstream file(source_dir() + "/placers/README.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    CHECK(text.str().find(fmt::format("\n| `{}", entry.name)) != std::string::npos);
  }
}

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

TEST_CASE("round_robin deals units in turn") {
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

TEST_CASE("least_loaded puts each op where the load stays least") {
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

TEST_CASE("least_loaded passes over a full device, and says what does not fit") {
  CHECK(devices(place("least_loaded", weights({60, 50, 30}), gpus(2, 90_B))) == "0 1 0");
  const std::string what = message<InfeasibleError>(
      [] { place("least_loaded", weights({60, 50, 45}), with_memory({100_B, 90_B})); });
  CHECK(what ==
        "least_loaded: op 'c' fits on no device: needs 45 B persistent and 0 B while running; "
        "missing: 5 B on gpu0, 5 B on gpu1");
}

TEST_CASE("m_topo fills a device to an even share plus the largest op") {
  // Share 40 / 2 + 10 = 30: three on the first.
  CHECK(devices(place("m_topo", weights({10, 10, 10, 10}), gpus(2))) == "0 0 0 1");
}

TEST_CASE("m_topo fills a device to its memory if not uniform, or if memory is the lesser") {
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

TEST_CASE("m_topo counts a group as a whole, and says what does not fit") {
  OpGraphBuilder g;
  for (const char* name : {"a", "b", "c"}) g.add_op({.name = name, .persistent = 20_B});
  g.colocate(OpId{0}, "x");
  g.colocate(OpId{2}, "x");
  const OpGraph graph = std::move(g).build();
  // Total 60, largest unit 40: cap 30 + 40.
  CHECK(devices(place("m_topo", graph, gpus(2))) == "0 0 0");
  CHECK(devices(place("m_topo", graph, gpus(2, 50_B))) == "0 1 0");
  CHECK(message<InfeasibleError>([&] { place("m_topo", graph, gpus(2, 39_B)); }) ==
        "m_topo: no room for group 'x' of 2 ops, which needs 40 B; missing: 1 B on gpu0, 1 B on "
        "gpu1");
}

TEST_CASE("expert follows the first rule that matches, then the default") {
  OpGraphBuilder g;
  for (const char* name : {"encoder/a", "encoder/b1", "decoder/a", "loss"})
    g.add_op({.name = name});
  const OpGraph graph = std::move(g).build();
  Values values;
  values["rules"].children = {{"*/b?", value("2")}, {"encoder/*", value("1")}};
  values["default"] = value("0");
  CHECK(devices(place("expert", graph, gpus(3), values)) == "1 2 0 0");
  values.erase("default");
  CHECK(message<InputError>([&] { place("expert", graph, gpus(3), values); }) ==
        "expert: no rule matches op 'decoder/a', op 'loss'; add a rule or 'default'");
  values["default"] = value("7", "x.yaml:2:3");
  CHECK(message<InputError>([&] { place("expert", graph, gpus(2), values); }) ==
        "expert.rules: '*/b?' -> 2, but there are 2 devices (0 to 1)\n"
        "expert.default: 7, but there are 2 devices (0 to 1)");
}

TEST_CASE("expert sends a group where its first ruled member goes, and tells of disagreement") {
  OpGraphBuilder g;
  for (const char* name : {"free", "first", "second"}) {
    const OpId v = g.add_op({.name = name});
    g.colocate(v, "x");
  }
  const OpGraph graph = std::move(g).build();
  Values values;
  values["rules"].children = {{"first", value("1")}, {"second", value("0")}};
  const Placement p = place("expert", graph, gpus(2), values);
  CHECK(devices(p) == "1 1 1");
  CHECK(p.detail == "1 group with rules that differ: the first member decided");
}

TEST_CASE("expert wants a file, rules or a default, and devices in its rules") {
  CHECK(message<InputError>([] { placer("expert"); }) ==
        "expert.file: missing: give 'file', 'rules', 'rule_file' or 'default'");
  Values values;
  values["rules"].children = {{"a*", value("gpu0")}};
  CHECK(message<InputError>([&] { placer("expert", values); }) ==
        "expert.rules: 'a*' -> 'gpu0' is not a device: 0, 1, ...");
}

TEST_CASE("expert reads rules from a file, after those in place, and tells of every bad line") {
  const TemporaryFolder folder;
  const std::string good =
      folder.write("good.rules", "# two towers\n\nleft/* 1   # and its gradients\n *\t0\r\n");
  OpGraphBuilder g;
  for (const char* name : {"left/a", "right/a", "left/b"}) g.add_op({.name = name});
  const OpGraph graph = std::move(g).build();
  Values values{{"rule_file", value(good)}};
  CHECK(devices(place("expert", graph, gpus(2), values)) == "1 0 1");
  values["rules"].children = {{"*/b", value("0")}};
  CHECK(devices(place("expert", graph, gpus(2), values)) == "1 0 0");
  const std::string bad = folder.write("bad.rules", "a\nb 0\nc gpu1\nd 0 1\n");
  values["rule_file"] = value(bad);
  CHECK(message<InputError>([&] { placer("expert", values); }) ==
        bad + ":1:1: 'a' is not a pattern and a device, such as 'encoder/* 0'\n" + bad +
            ":3:1: 'c gpu1' is not a pattern and a device, such as 'encoder/* 0'\n" + bad +
            ":4:1: 'd 0 1' is not a pattern and a device, such as 'encoder/* 0'");
}

namespace {

/// The example of the HEFT paper (figure 2): ten tasks, three processors, times in thirds of its
/// unit, so that means over three are whole.
struct HeftPaper {
  OpGraph graph;
  Cluster cluster;
};
HeftPaper heft_paper() {
  constexpr int unit = 3;
  constexpr int times[10][3] = {{14, 16, 9}, {13, 19, 18}, {11, 13, 19}, {13, 8, 17},  {12, 13, 10},
                                {13, 16, 9}, {7, 15, 11},  {5, 11, 14},  {18, 12, 20}, {21, 7, 16}};
  constexpr int edges[15][3] = {{1, 2, 18}, {1, 3, 12}, {1, 4, 9},   {1, 5, 11},  {1, 6, 14},
                                {2, 8, 19}, {2, 9, 16}, {3, 7, 23},  {4, 8, 27},  {4, 9, 23},
                                {5, 9, 13}, {6, 8, 15}, {7, 10, 17}, {8, 10, 11}, {9, 10, 13}};
  OpGraphBuilder g;
  for (int i = 0; i < 10; ++i) {
    const OpId v = g.add_op({.name = fmt::format("t{}", i + 1)});
    for (int k = 0; k < 3; ++k)
      g.set_compute(v, fmt::format("p{}", k + 1), Duration(unit * times[i][k]));
  }
  for (const auto& [from, to, cost] : edges) {
    const TensorId t = g.add_tensor(static_cast<OpId>(from - 1), 0_B);
    g.set_transfer(t, Duration(unit * cost));
    g.add_edge(t, static_cast<OpId>(to - 1));
  }
  IdVector<DeviceId, Device> processors;
  for (const char* name : {"p1", "p2", "p3"})
    processors.push_back({.name = name, .kind = name, .memory = 1_GiB});
  return {std::move(g).build(),
          Cluster::uniform(processors, {.bandwidth = 1.0_GBps, .latency = 0ns})};
}

}  // namespace

TEST_CASE("upward ranks of the HEFT paper's example") {
  const HeftPaper paper = heft_paper();
  IdVector<OpId, Duration> mean(10);
  IdVector<TensorId, Duration> transfer(paper.graph.num_tensors());
  for (const OpId v : paper.graph.ops())
    mean[v] =
        (*paper.graph.compute(v, 0) + *paper.graph.compute(v, 1) + *paper.graph.compute(v, 2)) / 3;
  for (const TensorId t : paper.graph.tensors()) transfer[t] = *paper.graph.measured_transfer(t);
  const auto rank = b_levels(paper.graph, mean, transfer);
  // Published (table 3): 108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667.
  const int thirds[] = {324, 231, 240, 240, 207, 190, 128, 107, 133, 44};
  std::size_t i = 0;
  for (const Duration r : rank) CHECK(r == Duration(thirds[i++]));
}

TEST_CASE("heft finds the HEFT paper's schedule of its example") {
  const HeftPaper paper = heft_paper();
  const Placement p = place("heft", paper.graph, paper.cluster);
  // Figure 3(a): p1 runs 2 and 8, p2 runs 4, 6, 9 and 10, p3 runs 1, 3, 5 and 7; length 80.
  CHECK(devices(p) == "2 0 2 1 2 1 2 0 1 1");
  CHECK(p.facts.at("planned_step_us") == doctest::Approx(0.240));
  // Where transfers do not wait, the engine confirms it.
  const ProfiledCosts costs(paper.graph, paper.cluster);
  const EngineOptions engine{.transfers = Transfers::parallel, .queue = ReadyOrder::priority};
  CHECK(simulate({paper.graph, paper.cluster, costs, engine}, p).makespan == 240ns);
}

TEST_CASE("heft fills a gap that an op waiting for its input leaves") {
  // x is quick on p2 only, y and z on p1 only; y reads x, 20 ns away. On p1: z [0, 5), y [30, 40).
  OpGraphBuilder g;
  const auto add = [&](const char* name, Duration on_p1, Duration on_p2) {
    const OpId v = g.add_op({.name = name});
    g.set_compute(v, "p1", on_p1);
    g.set_compute(v, "p2", on_p2);
    return v;
  };
  const OpId x = add("x", 1000ns, 10ns);
  const OpId y = add("y", 10ns, 1000ns);
  add("z", 5ns, 900ns);
  g.add_edge(g.add_tensor(x, 20_B), y);
  const OpGraph graph = std::move(g).build();
  IdVector<DeviceId, Device> all;
  for (const char* name : {"p1", "p2"})
    all.push_back({.name = name, .kind = name, .memory = 1_GiB});
  const Cluster cluster = Cluster::uniform(all, {.bandwidth = 1.0_GBps, .latency = 0ns});
  const Placement p = place("heft", graph, cluster);
  CHECK(devices(p) == "1 0 0");
  CHECK(p.facts.at("planned_step_us") == doctest::Approx(0.040));
  CHECK(p.priority[OpId{2}] > p.priority[OpId{1}]);  // z starts before y
}

//   p(10) --30 B--> r(40) <-- q(5)     s(35)     q and r share a group
// By upward rank p comes first, on gpu0 until 10, then q on gpu1 until 5, then r, whose input is on
// gpu1 at 40. s fits into the gap of gpu1 from 5 to 40 exactly; on gpu0 it would end at 45.
TEST_CASE("heft fills a gap to its very end") {
  OpGraphBuilder g;
  const OpId p = g.add_op({.name = "p", .compute = 10ns});
  const OpId q = g.add_op({.name = "q", .compute = 5ns});
  const OpId r = g.add_op({.name = "r", .compute = 40ns});
  const OpId s = g.add_op({.name = "s", .compute = 35ns});
  g.add_edge(g.add_tensor(p, 30_B), r);
  g.add_control(q, r);
  g.colocate(q, "group");
  g.colocate(r, "group");
  const Placement placement = place("heft", std::move(g).build(), gpus(2));
  CHECK(placement.device[q] == gpu1);
  CHECK(placement.device[r] == gpu1);
  CHECK(placement.device[s] == gpu1);
}

TEST_CASE("heft passes over a device without room, and says what does not fit") {
  CHECK(devices(place("heft", weights({60, 50, 30}), gpus(2, 90_B))) == "0 1 0");
  CHECK(message<InfeasibleError>([] { place("heft", weights({60, 50}), gpus(1, 100_B)); }) ==
        "heft: op 'b' fits on no device: needs 50 B persistent and 0 B while running; missing: 10 "
        "B on gpu0");
}

TEST_SUITE_END();
