#include "scenarios/read/scenario_schema.h"
#include "scenarios/read/yaml.h"
#include "tests/expected_messages.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/scenarios/sweeps.h"

namespace fs = std::filesystem;

namespace {

const fs::path source = source_dir();

std::string text_in(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

/// Without the names of what is registered, which are not the point.
std::string without_names(std::string message) {
  for (const std::string_view list :
       {"(placers: ", "(generators: ", "(importers: ", "(transforms: ", "(link kinds: ",
        "(node kinds: ", "(collective kinds: "}) {
    for (std::size_t at = 0; (at = message.find(list, at)) != std::string::npos;) {
      at += list.size();
      message.replace(at, message.find(')', at) - at, "...");
    }
  }
  return message;
}

/// What is wrong with `path`, its folder left out.
std::string mistakes_of(const fs::path& path) {
  Mistakes mistakes;
  load_scenario(path.string(), {}, mistakes);
  const std::string said = message<InputError>([&] { mistakes.throw_if_any(); });
  return without_names(without(said, path.parent_path().string() + "/"));
}

const std::string small = R"(
graph: {generate: layered, ops: 50}
cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 1 GB/s, latency: 5 us}}
placers: [single, m_topo]
)";

std::string after_put(const std::string& tree, std::string_view key, const std::string& value) {
  Options::Value root = parse_yaml(tree, "t");
  put(root, key, parse_yaml(value, "v"));
  return one_line(root);
}

}  // namespace

TEST_SUITE_BEGIN("scenario");
TEST_CASE("a scenario is read to plain values") {
  const ScenarioFile file = scenario_of(R"(
name: all of it
graph: {generate: layered, ops: 50, seed: 3}
cluster:
  devices:
    - {name: fast, count: 1, memory: 2 GiB, speed: 2}
    - {name: slow, count: 2, memory: 4 GiB, kind: cpu}
  memory_fraction: 0.5
  link: {bandwidth: 1 GB/s, latency: 5 us}
  links: [{from: slow, to: slow, bandwidth: 2 GB/s}]
engine: {transfers: duplex, queue: priority, semantics: baechi, cache_tensors: false, overlap: false, enforce_memory: false}
placers: [single, {m_topo: {uniform: false}}]
seeds: [1, 18446744073709551615]
report: {placements: false, pictures: 3, timelines: best}
)");
  REQUIRE(file.num_points() == 1);
  const Scenario& s = file.point(0);
  CHECK(s.name == "all of it");
  CHECK(s.graph.generate->name == "layered");
  CHECK(s.cluster.devices.size() == 2);
  CHECK(s.engine.transfers == Transfers::duplex);
  CHECK(s.engine.queue == ReadyOrder::priority);
  CHECK(s.engine.semantics == Semantics::baechi);
  CHECK_FALSE(s.engine.cache_tensors);
  CHECK_FALSE(s.engine.overlap);
  CHECK_FALSE(s.engine.enforce_memory);
  CHECK(s.placers[1].name == "m_topo");
  CHECK(s.placers[1].label == "m_topo");
  CHECK(s.placers[1].text == "m_topo:uniform=false");
  CHECK(s.seeds == std::vector<std::uint64_t>{1, 18446744073709551615U});
  CHECK_FALSE(file.report.placements);
  CHECK(file.report.pictures == 3);
  CHECK(file.report.timelines == Timelines::best);

  const Cluster cluster = make_cluster(s.cluster);
  REQUIRE(cluster.num_devices() == 3);
  CHECK(cluster.device(gpu0).name == "fast0");
  CHECK(cluster.device(gpu2).name == "slow2");
  CHECK(cluster.device(gpu2).memory == 2_GiB);
  CHECK(cluster.device(gpu0).speed == 2.0);
  CHECK(cluster.link(gpu1, gpu2).bandwidth == 2.0_GBps);
  CHECK(cluster.link(gpu1, gpu2).latency == 0us);
  CHECK(cluster.link(gpu0, gpu2).bandwidth == 1.0_GBps);
  CHECK(cluster.link(gpu0, gpu2).latency == 5us);
}

TEST_CASE("Baechi's fit gives its rounded microseconds, and the link that it rounds") {
  //  1 MB: 0.0001754 us/B x 1 000 000 B + 134 us = 309.4 us, rounded to 309 us
  const ScenarioFile file = scenario_of(R"(
graph: {generate: layered, ops: 10}
cluster: {devices: {count: 2, memory: 1 GiB}, fit: baechi}
placers: [single]
)");
  const ClusterChoice& choice = file.point(0).cluster;
  OpGraphBuilder b;
  b.add_tensor(b.add_op({.name = "a"}), Bytes{1'000'000});
  const OpGraph graph = std::move(b).build();
  const Cluster cluster = make_cluster(choice);
  CHECK(make_costs(choice, graph, cluster)->transfer(TensorId{0}, gpu0, gpu1) == 309us);
  CHECK(cluster.link(gpu0, gpu1).latency == 134us);
  CHECK(cluster.link(gpu0, gpu1).bandwidth.bytes_per_second == doctest::Approx(1e6 / 0.0001754));
}

TEST_CASE("--set overrides a key, makes one, and ends its sweep") {
  const std::string two_points = small + "sweep: {cluster.memory_fraction: [0.1, 0.2]}\n";
  CHECK(scenario_of(two_points).num_points() == 2);
  const ScenarioFile file =
      scenario_of(two_points, {"cluster.memory_fraction=0.3", "engine={transfers: shared}",
                               "cluster.devices.count=7", "seeds=[4, 5]"});
  REQUIRE(file.num_points() == 1);
  CHECK(file.point(0).cluster.memory_fraction == 0.3);
  CHECK(file.point(0).engine.transfers == Transfers::shared);
  CHECK(file.point(0).cluster.devices.front().count == 7);
  CHECK(file.point(0).seeds.size() == 2);
  CHECK(scenario_of(two_points, {"sweep.engine.transfers=[sequential, parallel]"}).num_points() ==
        4);
  CHECK_REFUSED(scenario_of(small, {"engine"}), "--set engine: not KEY=VALUE");
  CHECK_REFUSED(scenario_of(small, {"engine.overlap=often"}),
                "--set engine.overlap:1:1: engine.overlap: 'often' is not true or false");
}

TEST_CASE("two placers of one name are told apart by their options") {
  const ScenarioFile file = scenario_of(small, {"placers=[single, {single: {device: 1}}, m_topo]"});
  const auto& placers = file.point(0).placers;
  CHECK(placers[0].label == "single");
  CHECK(placers[1].label == "single:device=1");
  CHECK(placers[2].label == "m_topo");
}

TEST_CASE("every broken file says what is wrong with it, all at once") {
  const fs::path folder = source / "tests" / "bad" / "scenarios";
  const auto expected = expected_messages(folder / "expected.txt");
  std::size_t seen = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (file == "expected.txt" || file == "included_by_another.yaml") continue;
    CAPTURE(file);
    const auto it = expected.find(file);
    CHECK(mistakes_of(entry.path()) ==
          (it == expected.end() ? "(not in expected.txt)" : it->second));
    ++seen;
  }
  CHECK(seen == expected.size());
}

TEST_CASE("a scenario's name is a file's name, and each scenario is given once") {
  const TemporaryFolder folder;
  const auto mistakes_with = [&](const std::string& name) {
    Mistakes mistakes;
    parse_scenario("name: " + name + "\n" + small, "s.yaml", {}, mistakes);
    return message<InputError>([&] { mistakes.throw_if_any(); });
  };
  CHECK(mistakes_with("../../x") ==
        "s.yaml:1:7: name: '../../x' is a path; the name also names the folder results/NAME");
  CHECK(holds(mistakes_with(".."), "is a path"));
  CHECK(holds(mistakes_with("\"a\\0b\""), "control characters"));
  CHECK(holds(mistakes_with("\"a\\nb\""), "control characters"));
  CHECK(holds(mistakes_with("caf\xe9"), "not UTF-8"));
  CHECK(holds(mistakes_with(std::string(300, 'a')), "longer than 200 bytes"));
  CHECK(mistakes_with("caf\xc3\xa9 2") == "no error");

  const std::string path = folder.write("s.yaml", small);
  const std::vector<std::string> twice{path, folder.file("./s.yaml")};
  Mistakes mistakes;
  load_scenarios(twice, {}, mistakes);
  CHECK_REFUSED(mistakes.throw_if_any(), doctest::Contains("s.yaml: this scenario is given twice"));
}

TEST_CASE("mistakes of several files, and of their graphs, are told together") {
  const TemporaryFolder folder;
  const std::string bad = folder.write(
      "bad.yaml", "graph: {generate: layered, opps: 5}\n" + small.substr(small.find("cluster")));
  Mistakes mistakes;
  std::vector<ScenarioFile> files{load_scenario(folder.file("none.yaml"), {}, mistakes),
                                  load_scenario(bad, {}, mistakes)};
  make_sweep(std::move(files), 2, mistakes);
  CHECK_REFUSED(mistakes.throw_if_any(), doctest::Contains("none.yaml: no such file\n"));
  CHECK_REFUSED(mistakes.throw_if_any(),
                doctest::Contains("bad.yaml:1:34: layered has no option 'opps'"));
}

TEST_CASE("hostile YAML is refused, and soon") {
  CHECK_REFUSED(parse_yaml(std::string(5000, '['), "f"), doctest::Contains("f:1:"));
  CHECK_REFUSED(parse_yaml(std::string(150, '[') + std::string(150, ']'), "f"),
                "f:1:101: nested more than 100 levels deep");
  CHECK_REFUSED(parse_yaml(std::string(std::size_t{2} << 20U, 'x'), "f"),
                "f: more than 1048576 bytes");
  std::string wide;
  for (int i = 0; i < 60'000; ++i) wide += fmt::format("k{}: v\n", i);
  CHECK_REFUSED(parse_yaml(wide, "f"), doctest::Contains("more than 100000 values"));
  std::string deep = "x: ";
  for (int i = 0; i < 2000; ++i)
    deep += "\n" + std::string(static_cast<std::size_t>(i) + 1, ' ') + "y:";
  CHECK_THROWS_AS(parse_yaml(deep.substr(0, 1'000'000), "f"), InputError);
}

TEST_CASE("paths are relative to the file they stand in, and ${NAME} is expanded in them") {
  const TemporaryFolder folder;
  fs::create_directories(folder.file("clusters"));
  folder.write("clusters/c.yaml",
               "devices: {count: 2, memory: 1 GiB}\nlink: {bandwidth: 1 GB/s}\n");
  folder.write("b.trace.json",
               R"({"format": "baechi-trace", "version": 1, "name": "b", "ops": [{"name": "x"}]})");
  folder.write("a.trace.json",
               R"({"format": "baechi-trace", "version": 1, "name": "a", "ops": [{"name": "x"}]})");
  setenv("BAECHI_TEST_FOLDER", fs::path(folder.file("x")).parent_path().c_str(), 1);
  const std::string path = folder.write("s.yaml", R"(
cluster: clusters/c.yaml
placers: [single]
sweep: {graph.import: [b.trace.json, "${BAECHI_TEST_FOLDER}/?.trace.json"]}
)");
  const ScenarioFile file = load_scenario(path);
  REQUIRE(file.num_points() == 3);
  CHECK(file.point(0).at[0] == "b.trace.json");
  CHECK(file.point(1).at[0] == "${BAECHI_TEST_FOLDER}/a.trace.json");
  CHECK(file.point(1).graph.file == folder.file("a.trace.json"));
  CHECK(file.point(2).graph.file == folder.file("b.trace.json"));
  CHECK(file.point(0).cluster.devices.front().count == 2);
}

TEST_CASE("a graph that comes with the program is found from any folder") {
  const TemporaryFolder folder;
  const auto scenario = [&](const std::string& import) {
    return folder.write(
        "s.yaml", "name: s\ngraph: {import: " + import +
                      "}\ncluster: {devices: {count: 1, memory: 4 GiB}}\nplacers: [single]\n");
  };
  const std::string brought = "traces/data/two_towers.trace.json";
  CHECK(load_scenario(scenario(brought)).point(0).graph.file == (source / brought).string());
  fs::create_directories(folder.file("traces/data"));
  folder.write(brought, text_in(source / brought));  // one beside the scenario goes before
  CHECK(load_scenario(scenario(brought)).point(0).graph.file == folder.file(brought));
  CHECK(message<InputError>([&] { load_scenario(scenario("nowhere.json")); }) ==
        folder.file("s.yaml") + ":2:17: graph.import: no file '" + folder.file("nowhere.json") +
            "'");
}

/// The working directory is another one: a path that started there would lead to no file.
TEST_CASE("paths of placers, and of placers in a search's portfolio, are relative to the file") {
  const TemporaryFolder folder;
  folder.write("all.rules", "* 0\n");
  const auto scenario = [&](const std::string& placers) {
    return folder.write("s.yaml",
                        small.substr(0, small.find("placers")) + "placers: [" + placers + "]\n");
  };
  for (const char* placer :
       {"expert: {rule_file: all.rules}",
        "search: {portfolio: [{expert: {rule_file: all.rules}}], evaluations: 0}"}) {
    CAPTURE(placer);
    CHECK(load_scenario(scenario(placer)).placers.size() == 1);
  }
  for (const char* placer : {"exec:./mine", "exec: {path: ./mine}"}) {
    CAPTURE(placer);
    const ScenarioFile file = load_scenario(scenario(placer));
    const RandomProblem random({.ops = 5}, 2, 1);
    CHECK(message<InputError>([&] { file.placers.front().placer->place(random.under({}), 0); }) ==
          folder.file("./mine") + ": no such file");
  }
}

TEST_CASE("the reference describes sections and all components") {
  const std::string reference = scenario_reference();
  for (const char* heading :
       {"\n## `cluster`\n", "\n## `engine`\n", "\n### `layered`\n", "\n### `pytorch`\n",
        "\n### `fuse`\n", "\n### `m_sct`\n", "\n### `max_load`\n"}) {
    CAPTURE(heading);
    CHECK(holds(reference, heading));
  }
  CHECK(reference.ends_with("`placed_by`, `point`.\n"));
}

TEST_CASE("the schema in the repo is what the program says") {
  CHECK_MESSAGE(text_in(source / "scenarios/scenario.schema.json") == scenario_schema(),
                "baechi schema > scenarios/scenario.schema.json");
}

TEST_SUITE_BEGIN("sweep");
TEST_CASE("a dotted key goes through mappings, creates them, and indexes the items of lists") {
  CHECK(after_put("{a: {b: 1}}", "a.b", "2") == "{a: {b: 2}}");
  CHECK(after_put("{a: {b: 1}}", "a.c.d", "[2, 3]") == "{a: {b: 1, c: {d: [2, 3]}}}");
  CHECK(after_put("{a: [{b: 1}, {b: 2}]}", "a.1.b", "9") == "{a: [{b: 1}, {b: 9}]}");
  CHECK(after_put("{a: {b: 1}}", "a", "x y") == "{a: x y}");
  CHECK_REFUSED(after_put("{a: 1}", "a.b", "2"), "v:1:1: a.b: a is the single value '1'");
  CHECK_REFUSED(after_put("{a: [1]}", "a.b", "2"),
                "v:1:1: a.b: a is a list of 1: its items are a.0 ... a.0");
  CHECK_REFUSED(after_put("{a: 1}", ".a", "2"), "v:1:1: '.a' is not a dotted key");
}

TEST_CASE("one line of YAML has the value of the original lines") {
  const Options::Value value = parse_yaml("a: [1, 'x, y', '']\nb: {c: \"say \\\"so\\\"\"}", "t");
  CHECK(one_line(value) == R"({a: [1, "x, y", ""], b: {c: "say \"so\""}})");
  CHECK(one_line(parse_yaml(one_line(value), "t")) == one_line(value));
}

TEST_CASE("graphs vary slowest, then clusters, then engines; within a section the last axis") {
  const ScenarioFile file = scenario_of(R"(
cluster: {devices: {count: 2, memory: 1 GiB}, link: {bandwidth: 1 GB/s}}
placers: [single, m_topo]
sweep:
  engine.transfers: [sequential, parallel]
  cluster.devices.count: [2, 4]
  graph: [{generate: layered, ops: 10}, {generate: layered, ops: 20}]
  cluster.memory_fraction: [0.5, 1.0]
  seeds: [7, 8, 9]
)");
  CHECK(file.axes == std::vector<std::string>{"graph", "cluster.devices.count",
                                              "cluster.memory_fraction", "engine.transfers"});
  REQUIRE(file.num_points() == 16);
  const auto at = [&](std::size_t i) {
    const auto& a = file.point(i).at;
    return fmt::format("{}", fmt::join(a.begin() + 1, a.end(), " "));
  };
  CHECK(at(0) == "2 0.5 sequential");
  CHECK(at(1) == "2 0.5 parallel");
  CHECK(at(2) == "2 1.0 sequential");
  CHECK(at(4) == "4 0.5 sequential");
  CHECK(at(8) == "2 0.5 sequential");
  CHECK(file.point(0).at[0] == "{generate: layered, ops: 10}");
  CHECK(file.point(8).at[0] == "{generate: layered, ops: 20}");
  CHECK(file.point(4).cluster.devices.front().count == 4);
  CHECK(file.point(15).engine.transfers == Transfers::parallel);
  CHECK(file.point(0).seeds == std::vector<std::uint64_t>{7, 8, 9});
}

TEST_CASE("an axis of whole sections does not override one of keys below them") {
  const ScenarioFile file = scenario_of(R"(
placers: [single]
graph: {generate: layered, ops: 10}
sweep:
  cluster.devices.count: [1, 3]
  cluster: [{devices: {memory: 1 GiB}, fit: baechi}, {devices: {memory: 2 GiB}, fit: baechi}]
)");
  REQUIRE(file.num_points() == 4);
  CHECK(file.point(3).cluster.devices.front().count == 3);
  CHECK(file.point(3).cluster.devices.front().memory.count == std::int64_t{2} << 30U);
}

TEST_CASE("a variant has only the values of its own axes, whatever their keys") {
  const auto variants = [](const std::vector<std::pair<std::string, std::string>>& swept) {
    std::vector<Axis> axes;
    for (const auto& [key, values] : swept) {
      axes.push_back({.key = key, .values = {}});
      for (const auto& [none, value] : parse_yaml(values, "v").children)
        axes.back().values.push_back(value);
    }
    std::string all;
    for_each_combination("s", parse_yaml("{a: {b: 0}}", "t"), axes, [&](const auto& variant) {
      all += (all.empty() ? "" : " ") + one_line(variant);
      return true;
    });
    return all;
  };
  CHECK(variants({}) == "{a: {b: 0}}");
  CHECK(variants({{"s.a.b", "[1, 2]"}, {"s.c", "[3, 4]"}}) ==
        "{a: {b: 1}, c: 3} {a: {b: 1}, c: 4} {a: {b: 2}, c: 3} {a: {b: 2}, c: 4}");
  // The last axis creates the mapping that its key needs.
  CHECK(variants({{"s.d.e", "[1, 2]"}}) == "{a: {b: 0}, d: {e: 1}} {a: {b: 0}, d: {e: 2}}");
  // The last axis replaces the section that the first axis changes.
  CHECK(variants({{"s.a.b", "[1, 2]"}, {"s.a", "[{}, {c: 3}]"}}) ==
        "{a: {b: 1}} {a: {c: 3, b: 1}} {a: {b: 2}} {a: {c: 3, b: 2}}");
}

TEST_CASE("1.0 and 1 are the same value of an axis") {
  const TemporaryFolder folder;
  const std::string path = folder.write("s.yaml", R"(
graph: {generate: layered, ops: 10}
cluster: {devices: {memory: 1 GiB}}
placers: [single]
sweep: {cluster.memory_fraction: [1.0, 1]}
)");
  Mistakes mistakes;
  const ScenarioFile file = load_scenario(path, {}, mistakes);
  CHECK_REFUSED(mistakes.throw_if_any(),
                doctest::Contains("sweep.cluster.memory_fraction: 1 is listed twice"));
}

TEST_CASE("a pattern expands to the files it matches, sorted, in its own spelling") {
  const TemporaryFolder folder;
  const std::string trace =
      R"({"format": "baechi-trace", "version": 1, "name": "g", "ops": [{"name": "x"}]})";
  for (const char* name : {"b.json", "a.json", "ab.json", ".a.json", "a.txt"})
    folder.write(name, trace);
  const std::string path = folder.write("s.yaml", R"(
cluster: {devices: {memory: 1 GiB}}
placers: [single]
sweep: {graph.import: ["a*.json", "?.json", "./b.json"]}
)");
  Mistakes mistakes;
  const ScenarioFile file = load_scenario(path, {}, mistakes);
  CHECK_REFUSED(mistakes.throw_if_any(),
                doctest::Contains("sweep.graph.import: a.json is listed twice"));
}
