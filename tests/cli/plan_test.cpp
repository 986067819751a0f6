#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/session.h"

using namespace baechi::testing;
using Json = nlohmann::json;

namespace {

//   1 (8 s) --3 B--> 2 (4 s)      2 devices, 1 B/s, 4 micro-batches; 1 has 2 B of weights
constexpr std::string_view two_nodes = R"({"maxDevices": 2, "maxMemoryPerDevice": 10.0,
 "bandwidth": 1.0, "mbsInBatch": 4,
 "nodes": [{"id": 1, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 8, "parameterSize": 2,
             "memoryUsageA": 1, "memoryUsageB": 0, "syncTimeFw": {}, "syncTimeBw": {"2": 0}}]}},
           {"id": 2, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 4, "parameterSize": 0,
             "memoryUsageA": 1, "memoryUsageB": 0, "syncTimeFw": {"1": 0}, "syncTimeBw": {}}]}}],
 "edges": [{"sourceId": 1, "destId": 2, "communicationCost": 3.0}]})";

}  // namespace

TEST_SUITE("cli") {
  /// Two replicas of all: (8 + 4) / 2 + 4 x (2 - 1) x 2 / (2 x 4) = 7 s.
  TEST_CASE("a planner plans by 'plan --planner', and by the old spelling") {
    const Session session;
    session.folder().write("two.json", two_nodes);
    Json plan = session.json("plan two.json --planner piper -o plan.json");
    CHECK(plan["status"] == "ok");
    CHECK(plan["time_per_sample_us"] == doctest::Approx(7e6));
    CHECK(plan["plan"]["stages"].size() == 1);
    CHECK(plan["plan"]["stages"][0]["data_parallel"] == 2);
    CHECK(Json::parse(session.folder().read("plan.json"))["plan"] == plan["plan"]);
    Json placed = session.json("place two.json --placer piper");
    for (Json* answer : {&plan, &placed}) answer->erase("placing_ms");
    CHECK(plan == placed);
    // The file is a placement, too: its replicas share the 12 s.
    CHECK(session.json(
              "simulate two.json --objective max_load --placement plan.json")["max_load_us"] ==
          doctest::Approx(6e6));
    CHECK(holds(session.run("simulate two.json --placement plan.json").out, "replicas"));
    // One device: 8 + 4.
    CHECK(session.json("plan two.json --planner piper:data_parallel=false --devices 1")
              ["time_per_sample_us"] == doctest::Approx(12e6));
  }

  TEST_CASE("a plan that divides ops or runs them again is refused as a placement") {
    const Session session;
    session.folder().write("two.json", two_nodes);
    const Json plan = session.json("plan two.json --planner piper");
    const auto refused = [&](const char* key, const Json& value, std::string_view said) {
      Json other = plan;
      other["plan"]["stages"][0][key] = value;
      session.folder().write("plan.json", other.dump(1));
      const auto result = session.run("simulate two.json --placement plan.json");
      CHECK(result.code == 2);
      CHECK_MESSAGE(holds(result.err, said), result.err);
    };
    refused("tensor_parallel", 2,
            "tensor_parallel: a placement cannot say that devices divide ops");
    refused("recompute", {"1"}, "a placement cannot say that ops run again");
  }

  TEST_CASE("plan says what a planner does not know, and what it needs without one") {
    const Session session;
    session.folder().write("two.json", two_nodes);
    const auto check = [&](const std::string& arguments, std::string_view said) {
      CAPTURE(arguments);
      const auto result = session.run("plan " + arguments);
      CHECK(result.code == 2);
      CHECK_MESSAGE(result.err.find(said) != std::string::npos, result.err);
    };
    check("two.json --planner pipr", "no planner 'pipr' (did you mean 'piper'?)");
    check("two.json --planner piper --batch 4", "--batch excludes --planner");
    check("two.json --planner piper --latency '1 us'", "planners know --devices");
    check("gpt2 --devices 2 --kind v100", "--batch is required");
    check("gpt2 --devices 2 --kind v100 --batch 8 -o plan.json", "--planner");
  }
}
