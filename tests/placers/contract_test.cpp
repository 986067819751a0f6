#include <thread>

#include "placers/planners/planner.h"
#include "sim/graph/analysis.h"
#include "sim/processor_time.h"
#include "sim/random.h"
#include "tests/placers/counted_costs.h"
#include "tests/placers/place_by_name.h"
#include "tests/prelude.h"
#include "traces/format/compressed_file.h"

namespace {

/// 20 to 60 ops, up to three inputs each, a quarter of them in groups.
OpGraph seeded_graph(std::uint64_t seed) {
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
bool have_python() {
  return std::system("python3 -c '' 2>/dev/null") == 0;  // NOLINT(concurrency-mt-unsafe)
}

/// Options with which `entry` can be made; nothing if it cannot be run here.
std::optional<Values> usable_options(const PlacerEntry& entry) {
  if (entry.name == "expert") return Values{{"default", value("0")}};
  // Random graphs like these have too many ideals.
  if (entry.name == "exact_dp") return Values{{"max_ideals", value("1000")}};
  if (entry.name.starts_with("mip_")) return Values{{"max_nodes", value("0")}};  // only the start
  if (entry.name == "search") return Values{{"evaluations", value("100")}};
  if (planners::find_planner(entry.name) != nullptr)
    return std::nullopt;  // exact/plan_test.cpp: they read files of their own
  if (entry.name != "exec") return Values{};
  if (!have_python()) {
    MESSAGE("skipped: exec, because there is no python3");
    return std::nullopt;
  }
  return Values{{"path", value(source_dir() + "/scenarios/examples/external_placer.py")}};
}

/// Calls test(entry, placer) for each placer that can be run here.
void for_each_placer(auto&& test) {
  for (const PlacerEntry& entry : placers()) {
    const std::optional<Values> options = usable_options(entry);
    if (!options) continue;
    CAPTURE(entry.name);
    test(entry, *placer(std::string(entry.name), *options));
  }
}

/// The least memory of a device: the persistent bytes of all its ops and the working bytes of the
/// largest. For a placer that counts weights only: the weights.
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
  const Problem& problem = OwnedProblem(graph, cluster).problem;
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
TEST_CASE("a placer names the option that it needs, also in the error without it") {
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    const std::string said = message<InputError>([&] { make_placer(entry.name); });
    CHECK((said == "no error") == entry.needs.empty());
  }
}

TEST_CASE("placers/README.md has a row for every placer, with what it counts as memory") {
  std::map<std::string, std::string> memory;  // of each first cell
  for (const std::string& line : lines_of(read_file(source_dir() + "/placers/README.md"))) {
    const std::vector<std::string> cells = lines_of(line, '|');
    if (cells.size() > 4 && cells[1].starts_with(" `")) memory[cells[1]] = cells[4];
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
      const OpGraph graph = seeded_graph(seed);
      check_contract(entry, placer, graph, gpus(1), seed);
      check_contract(entry, placer, graph, gpus(4), seed);
      check_contract(entry, placer, graph, gpus(4, 50'000_B), seed);
      check_contract(entry, placer, graph, gpus(3, 30'000_B), seed);
      check_contract(entry, placer, graph, of_memories({10'000_B, 40'000_B, 0_B, 90'000_B}), seed);
      check_contract(entry, placer, graph, faster_second(100'000_B), seed);
    }
  });
}

TEST_CASE("every placer finds a placement with ample memory, and it runs") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(seeded_graph(1), gpus(4));
  for_each_placer([&](const PlacerEntry&, const Placer& placer) {
    const Placement p = placer.place(problem, 7);
    const StepResult step = simulate(problem, p);
    CHECK_FALSE(step.oom);
    CHECK(step.makespan >= critical_path(graph));
  });
}

TEST_CASE("with too little memory a placer reports infeasible, or the engine out of memory") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(seeded_graph(1), gpus(4, 1_B));
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
        Values{{planners::find_planner(entry.name) != nullptr ? "file" : "path", value("x")}});
    values["no_such_option"] = value("1", "x.yaml:3:4");
    const std::string what = message<InputError>([&] { placer(std::string(entry.name), values); });
    CHECK(
        what.starts_with(fmt::format("x.yaml:3:4: {} has no option 'no_such_option'", entry.name)));
  }
}

TEST_CASE("a placer may be called from several threads at once") {
  const auto& [graph, cluster, costs, problem] = OwnedProblem(seeded_graph(2), gpus(4));
  for_each_placer([&](const PlacerEntry&, const Placer& placer) {
    const Placement alone = placer.place(problem, 3);
    std::vector<Placement> together(4);
    std::vector<std::thread> threads;
    for (Placement& p : together) threads.emplace_back([&] { p = placer.place(problem, 3); });
    for (std::thread& t : threads) t.join();
    for (const Placement& p : together) CHECK(p.device == alone.device);
  });
}

TEST_CASE("the work of a placer on other threads counts as its processor time") {
  const OpGraph graph = seeded_graph(2);
  const Cluster cluster = gpus(4);
  const CountedCosts costs(graph, cluster);
  for_each_placer([&](const PlacerEntry&, const Placer& placer) {
    ProcessorTime used(CountedCosts::clock);
    const std::size_t asked = costs.asked_by([&] {
      const TaskPart placing(&used);
      placer.place({graph, cluster, costs}, 3);
    });
    CHECK(used.used().count() == static_cast<std::int64_t>(asked));
  });
}

TEST_CASE("an unknown placer is refused with the nearest name") {
  const std::string what =
      message<InputError>([] { make_placer("hefd", Options("hefd"), "x.yaml:9:5"); });
  CHECK(what.starts_with("x.yaml:9:5: no placer 'hefd' (did you mean 'heft'?) (placers: single, "));
}
