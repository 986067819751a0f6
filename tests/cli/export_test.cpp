#include <doctest/doctest.h>

#include <string>

#include "tests/cli/session.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

namespace {

constexpr std::string_view cluster = "--devices 4 --memory '500 MiB' --bandwidth '50 GB/s'";

/// Number of keys of `map` that are the module or enclose it.
std::size_t keys_for(const Json& map, const std::string& module) {
  std::size_t n = 0;
  for (const auto& [key, value] : map.items())
    n += key.empty() || module == key || module.starts_with(key + ".") ? 1U : 0U;
  return n;
}

}  // namespace

TEST_SUITE("cli export") {
  TEST_CASE("each module of the trace is exported once; the change of the step time is printed") {
    const Session session;
    REQUIRE(session.run("trace generate resnet50 batch=2 -o r.json").code == 0);
    const auto place = [&](const std::string& format, const std::string& file) {
      const auto result = session.run("place r.json --placer m_topo " + std::string(cluster) +
                                      " --export " + format + " -o " + file);
      CAPTURE(result.err);
      CHECK(result.code == 0);
      CHECK(holds(result.err, "step") == (format != "json"));
      return Json::parse(session.folder().read(file));
    };
    const Json map = place("accelerate", "map.json");
    const Json stages = place("pipelining", "stages.json");
    const OpGraph graph = read_trace(session.folder().file("r.json")).graph;
    for (const OpId v : graph.ops()) {
      CAPTURE(graph.name(v));
      CHECK(keys_for(map, std::string(graph.module(v))) == 1);
      CHECK(keys_for(stages["modules"], std::string(graph.module(v))) == 1);
    }
    for (const auto& [name, device] : map.items()) CHECK(device.get<std::size_t>() < 4);
    CHECK(stages["split_spec"].size() + 1 == stages["stages"]);
    CHECK(stages["stage_devices"].size() == stages["stages"]);
    for (const auto& [name, where] : stages["split_spec"].items())
      CHECK(stages["modules"].contains(name));
    CHECK(place("json", "p.json")["format"] == "baechi-placement");
    CHECK(session.run("simulate r.json --placement p.json " + std::string(cluster)).code == 0);
  }

  // a -> b -> c -> b again -> d, with a module r without weights after each: PyTorch can cut before
  // b and before d. Before r it could, but no weights move; before c it cannot, because b comes
  // again.
  TEST_CASE("stages of a pipeline begin where PyTorch can cut") {
    const Session session;
    std::string ops, edges, before;
    for (const std::string name : {"a", "r1", "b", "r2", "c", "r3", "b2", "r4", "d"}) {
      const std::string module = name[0] == 'r' ? "r" : name.substr(0, 1);
      ops += (ops.empty() ? "" : ", ") + (R"({"name": ")" + name + R"(", "module": ")" + module) +
             R"(", "compute_us": 10, "outputs": [{"bytes": 4}], "persistent_bytes": )" +
             (module == "r" || name == "b2" ? "0" : "1000") +
             (module == "b" ? R"(, "colocation": ["b"]})" : "}");
      if (!before.empty())
        edges += (edges.empty() ? "" : ", ") + (R"({"from": ")" + before) + R"(", "to": ")" + name +
                 R"("})";
      before = name;
    }
    session.folder().write("again.json", R"({"format": "baechi-trace", "version": 1, "ops": [)" +
                                             ops + R"(], "edges": [)" + edges + "]}");
    const auto result = session.run(
        "place again.json --placer m_topo --devices 3 --memory '2500 B' --bandwidth '1 GB/s' "
        "--export pipelining -o s.json");
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(holds(result.err, "of 3 modules between which PyTorch can cut"));
    const Json stages = Json::parse(session.folder().read("s.json"));
    CHECK(stages["modules"].size() == 5);
    CHECK(stages["split_spec"].size() + 1 == stages["stages"]);
    for (const auto& [name, where] : stages["split_spec"].items())
      CHECK((name == "b" || name == "d"));
    CHECK(stages["modules"]["b"] == stages["modules"]["c"]);
  }

  // Layers of 1 MB in turn on devices named gpu0, cpu and gpu1: accelerate numbers the GPUs alone.
  TEST_CASE("accelerate: a device named cpu is 'cpu', and the GPUs are numbered without it") {
    const Session session;
    session.folder().write("three.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "module": "a", "compute_us": 9, "outputs": [{"bytes": 8}]},
        {"name": "b", "module": "b", "compute_us": 9, "outputs": [{"bytes": 8}]},
        {"name": "c", "module": "c", "compute_us": 9}],
        "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]})");
    session.folder().write("s.yaml", R"(graph: {import: three.json}
cluster: {devices: [{name: gpu, count: 1, memory: 1 MB}, {name: cpu, count: 1, memory: 1 MB},
                    {name: gpu_b, count: 1, memory: 1 MB}], link: {bandwidth: 1 GB/s}}
placers: [round_robin]
)");
    const auto placed = session.run(
        "place three.json --scenario s.yaml --placer round_robin "
        "--export accelerate -o map.json");
    CAPTURE(placed.err);
    REQUIRE(placed.code == 0);
    const Json map = Json::parse(session.folder().read("map.json"));
    CHECK(map["a"] == 0);
    CHECK(map["b"] == "cpu");
    CHECK(map["c"] == 1);
  }

  TEST_CASE("an export needs a file and modules") {
    const Session session;
    const std::string place = "place toy.json --placer m_etf " + two_gpus + " --export accelerate";
    CHECK(holds(session.run(place).err, "-o FILE"));
    const auto result = session.run(place + " -o map.json");
    CHECK(result.code == 2);
    CHECK(holds(result.err, "key `module` of an op"));
  }
}
