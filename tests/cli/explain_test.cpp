#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/session.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

TEST_SUITE("cli") {
  TEST_CASE("explain: the critical path adds up to the step time, waits included") {
    // a 0-10, its 1000 B 10-11, b 11-31, c 31-61.
    const Session session;
    const Json json = session.json("explain toy.json --placement split.json " + two_gpus);
    CHECK(json["step_time_us"] == 61.0);
    double sum = 0.0, what_if = 0.0;
    std::vector<std::string> kinds;
    for (const Json& part : json["critical_path"]) {
      sum += part["us"].get<double>();
      kinds.push_back(part["kind"]);
    }
    CHECK(sum == doctest::Approx(61.0));
    CHECK(kinds == std::vector<std::string>{"compute", "transfer", "wait_device", "compute"});
    CHECK(json["critical_path"][2]["behind"] == "b");
    for (const Json& part : json["what_if"]) what_if += part["us"].get<double>();
    CHECK(what_if == doctest::Approx(61.0));
    const auto text = session.run("explain toy.json --placement split.json " + two_gpus);
    CHECK(holds(text.out, "'c', queued after 'b' on gpu1"));
  }

  TEST_CASE("explain: the OOM report lists live tensors and what keeps them") {
    // The copy of a's 1000 B does not fit while gpu1 holds 1.5 MB of workspace for x.
    const Session session;
    session.folder().write("tight.json",
                           R"({"format": "baechi-trace", "version": 1, "name": "tight",
 "ops": [{"name": "x", "compute_us": 50, "temporary_bytes": 999500},
         {"name": "a", "compute_us": 10, "outputs": [{"bytes": 1000}]},
         {"name": "b", "compute_us": 20}],
 "edges": [{"from": "a", "output": 0, "to": "b"}]})");
    session.folder().write("apart.json",
                           R"({"format": "baechi-placement", "version": 1, "graph": "tight",
 "devices": 2, "placement": {"x": 1, "a": 0, "b": 1}})");
    const Json json = session.json("explain tight.json --placement apart.json " + two_gpus);
    CHECK(json["status"] == "oom");
    CHECK(json["step_time_us"].is_null());
    CHECK(json["without_limit_us"] == 70.0);  // x 0-50, b 50-70
    REQUIRE(json["oom"]["live"].size() == 1);
    CHECK(json["oom"]["live"][0]["kind"] == "workspace");
    CHECK(json["oom"]["live"][0]["name"] == "x");
  }

  TEST_CASE("explain --against: the difference of two placements by cause adds up") {
    // split: a 0-10, copy 10-11, b 11-31, c 31-61. One device: a, b, c follow each other, 60 us, of
    // which c waits 20 for b.
    const Session session;
    session.run("place toy.json --placer single -o one.json " + two_gpus);
    const std::string both =
        "explain toy.json --placement one.json --against split.json " + two_gpus;
    const Json json = session.json(both);
    CHECK(json["steps"][0]["step_time_us"] == 60.0);
    CHECK(json["steps"][1]["step_time_us"] == 61.0);
    double sum = 0.0;
    for (const auto& [cause, us] : json["difference"].items())
      if (cause != "step_time_us") sum += us.get<double>();
    CHECK(sum == doctest::Approx(1.0));
    CHECK(json["difference"]["transfer"] == 1.0);
    CHECK(holds(session.run(both).out, "split.json"));
  }

  TEST_CASE("explain --run takes a run of results, and refuses results of other files") {
    const Session session;
    const std::string scenario =
        "name: s\ngraph: {import: toy.json}\nplacers: [single, round_robin]\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s, latency: 0 us}}\n";
    session.folder().write("s.yaml", scenario);
    REQUIRE(session.run("run s.yaml --out rows --quiet").code == 0);
    CHECK(session.json("explain rows --run 0")["step_time_us"] == 60.0);
    const Json both = session.json("explain rows --run 0 --against 1");
    CHECK(both["steps"][0]["name"] == "run 0, single");
    CHECK(holds(session.run("explain rows --run 2").err, "'2' is not one of the 2 runs of rows"));
    CHECK(session.run("explain rows").code == 2);
    CHECK(session.run("explain rows --run 0 --devices 2").code == 2);
    std::string slower(toy);
    slower.replace(slower.find("30"), 2, "40");
    session.folder().write("toy.json", slower);
    CHECK(holds(session.run("explain rows --run 0").err, "a file that they name"));
  }
}
