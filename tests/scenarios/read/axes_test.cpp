#include <doctest/doctest.h>

#include "scenarios/read/yaml.h"
#include "sim/error.h"
#include "tests/scenarios/sweeps.h"
#include "tests/temporary_folder.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

std::string after_put(const std::string& tree, std::string_view key, const std::string& value) {
  Options::Value root = parse_yaml(tree, "t");
  put(root, key, parse_yaml(value, "v"));
  return one_line(root);
}

}  // namespace

TEST_SUITE("sweep") {
  TEST_CASE("a dotted key goes through mappings, creates them, and indexes the items of lists") {
    CHECK(after_put("{a: {b: 1}}", "a.b", "2") == "{a: {b: 2}}");
    CHECK(after_put("{a: {b: 1}}", "a.c.d", "[2, 3]") == "{a: {b: 1, c: {d: [2, 3]}}}");
    CHECK(after_put("{a: [{b: 1}, {b: 2}]}", "a.1.b", "9") == "{a: [{b: 1}, {b: 9}]}");
    CHECK(after_put("{a: {b: 1}}", "a", "x y") == "{a: x y}");
    CHECK_THROWS_WITH_AS(after_put("{a: 1}", "a.b", "2"), "v:1:1: a.b: a is the single value '1'",
                         InputError);
    CHECK_THROWS_WITH_AS(after_put("{a: [1]}", "a.b", "2"),
                         "v:1:1: a.b: a is a list of 1: its items are a.0 ... a.0", InputError);
    CHECK_THROWS_WITH_AS(after_put("{a: 1}", ".a", "2"), "v:1:1: '.a' is not a dotted key",
                         InputError);
  }

  TEST_CASE("one line of YAML has the value of the original lines") {
    const Options::Value value = parse_yaml("a: [1, 'x, y', '']\nb: {c: \"say \\\"so\\\"\"}", "t");
    CHECK(one_line(value) == R"({a: [1, "x, y", ""], b: {c: "say \"so\""}})");
    CHECK(one_line(parse_yaml(one_line(value), "t")) == one_line(value));
  }

  TEST_CASE(
      "graphs vary slowest, then clusters, then engines; within a section the last axis fastest") {
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
    CHECK_THROWS_WITH_AS(mistakes.throw_if_any(),
                         doctest::Contains("sweep.cluster.memory_fraction: 1 is listed twice"),
                         InputError);
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
    CHECK_THROWS_WITH_AS(mistakes.throw_if_any(),
                         doctest::Contains("sweep.graph.import: a.json is listed twice"),
                         InputError);
  }
}
