#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/session.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

TEST_SUITE("cli") {
  TEST_CASE("arena: a placer's score and rank; better best values are saved") {
    const Session session;
    std::filesystem::create_directories(session.folder().file("mine/instances"));
    session.folder().write("mine/instances/a.yaml", R"(
name: a.v1
graph: {generate: layered, ops: 40}
cluster: {devices: {count: 2, memory: 1 GiB}}
placers: [single]
sweep: {cluster.link.bandwidth: [1 MB/s, 100 GB/s]}
)");
    const auto arena = [&](const std::string& rest) {
      const auto result = session.run("arena --instances mine --format json --placer " + rest);
      REQUIRE(result.code == 0);
      return Json::parse(result.out);
    };
    const Json first = arena("round_robin --update-best");
    CHECK(has_keys(first, {"score", "instances", "solved", "failures", "placing_s", "rank"}));
    CHECK(first["instances"] == 2);
    CHECK(first["score"] == 1.0);
    const Json other = arena("single");
    CHECK(other["score"].get<double>() > 1.0);  // all ops on one device
    CHECK(other["rank"].get<int>() == 2);
    CHECK(other["ranking"].size() == 2);
    CHECK(arena("round_robin")["ranking"].size() == 1);         // single is not saved
    const Json known = session.json("arena --instances mine");  // no competing placer
    CHECK(known["instances"] == 2);
    CHECK(known["ranking"].size() == 1);
    CHECK(session.run("arena --instances nowhere --placer single").code == 2);
  }

  TEST_CASE("duel writes the instance that it finds as a scenario with both steps") {
    const Session session;
    const Json found = session.json("arena duel single m_etf --evaluations 60 --seed 2 -o fought");
    CHECK(found["ratio"] > 1.0);
    CHECK(session.run("run fought/duel.yaml --out again").code == 0);
  }

  TEST_CASE("the arena's best known values belong to its current instances") {
    const Session session;
    const Json arena = session.json("arena --placer single");
    CHECK(arena["instances"] == 286);
    CHECK(arena["solved"].get<int>() + arena["failures"].get<int>() == 286);
  }
}
