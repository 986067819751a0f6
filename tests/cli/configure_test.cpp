#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/session.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

TEST_SUITE("cli") {
  TEST_CASE("configure chooses instances, and reports mistakes in a file of latencies by place") {
    const Session session;
    session.folder().write("latencies.csv",
                           "model,threads,batch,mean_ms\n"
                           "small,1,1,6\nsmall,2,2,9\nlarge,2,2,30\n");
    // Two instances of one thread take 6 ms, one of two threads 9 ms.
    const Json all = session.json("study configure latencies.csv --threads 2 --batch 2");
    REQUIRE(all["profiles"].size() == 2);
    const Json& large = all["profiles"][0]["configurations"][0];
    const Json& small = all["profiles"][1]["configurations"][0];
    CHECK(large["latency_ms"] == 30.0);
    CHECK(small["latency_ms"] == 6.0);
    CHECK(small["speed_up"] == 1.5);
    CHECK(small["instances"] == Json::parse(R"([{"count": 2, "threads": 1, "batch": 1}])"));
    // With interference the two take 12 ms.
    const Json disturbed = session.json(
        "study configure latencies.csv --threads 2 --batch 2 --interference 2 --where model=small");
    REQUIRE(disturbed["profiles"].size() == 1);
    CHECK(disturbed["profiles"][0]["configurations"][0]["latency_ms"] == 9.0);

    session.folder().write("wrong.csv", "threads,batch,mean_ms\n1,0,6\n1,1,-6\n1,1\n");
    const auto wrong = session.run("study configure wrong.csv --threads 2 --batch 2");
    CHECK(wrong.code == 2);
    CHECK(holds(wrong.err, "wrong.csv:2:3: batch: '0' is not a whole number from 1 to 65536"));
    CHECK(holds(wrong.err, "wrong.csv:3:5: mean_ms: '-6' is not a time above 0"));
    CHECK(holds(wrong.err, "wrong.csv:4:1: 2 cells, the first line has 3"));
  }
}
