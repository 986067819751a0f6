#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/session.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

TEST_SUITE("cli") {
  TEST_CASE("trace info counts ops, and reports the coverage") {
    const Session session;
    const Json info = session.json("trace info toy.json");
    CHECK(info["name"] == "toy");
    CHECK(info["ops"] == 3);
    CHECK(info["edges"] == 2);
    CHECK(info["tensors"] == 1);
    CHECK(info["groups"] == 0);
    CHECK(info["critical_path_us"] == 40.0);
    CHECK(info["compute_us"] == 60.0);
    CHECK(info["output_bytes"] == 1000);
    CHECK(info["coverage"]["ops"] == 3);
    CHECK(info["coverage"]["with_time"] == 3);
    CHECK(holds(session.run("trace info toy.json").out, "times 3/3"));
  }

  TEST_CASE("trace check reports all mistakes of all files, and unknown facts") {
    const Session session;
    session.folder().write("bad.json",
                           R"({"format": "baechi-trace", "version": 1,
 "ops": [{"name": "a", "compute_us": -1}, {"name": "b", "compute_us": 1, "colour": "red"}],
 "edges": [{"from": "a", "output": 0, "to": "z"}]})");
    const auto bad = session.run("trace check toy.json bad.json");
    CHECK(bad.code == 2);
    CHECK(holds(bad.out, "toy.json: ok, 3 ops, 2 edges"));
    CHECK(holds(bad.err, "bad.json:2:"));
    CHECK(holds(bad.err, "colour"));
    CHECK(holds(bad.err, "bad.json:3:"));

    session.folder().write("bare.json", R"({"format": "baechi-trace", "version": 1,
 "ops": [{"name": "a", "compute_us": 0}], "edges": []})");
    const auto bare = session.run("trace check bare.json");
    CHECK(bare.code == 0);
    CHECK(holds(bare.out, "warning: no op has a time"));
    CHECK(holds(bare.out, "warning: no tensor has a size"));
  }

  TEST_CASE("a converted graph is equal") {
    const Session session;
    Json before = session.json("trace info toy.json");
    for (const char* name : {"copy.json", "copy.json.gz", "copy.json.zst"}) {
      CAPTURE(name);
      CHECK(session.run(std::string("trace convert toy.json ") + name).code == 0);
      CHECK(session.json(std::string("trace info ") + name) == before);
    }
    CHECK(session.run("trace convert toy.json toy.dot").code == 0);
    CHECK(holds(session.folder().read("toy.dot"), "n0 -> n2"));
    CHECK(session.run("trace convert toy.json toy.graphml").code == 0);
    CHECK(holds(session.folder().read("toy.graphml"),
                "<edge id=\"e1\" source=\"n0\" target=\"n2\">"));
  }

  TEST_CASE("generate writes a file or standard output") {
    const Session session;
    CHECK(session.run("trace generate layered ops=50 -o g.json.zst").code == 0);
    CHECK(session.json("trace info g.json.zst")["ops"] == 50);
    const auto printed = session.run("trace generate layered ops=50");
    session.folder().write("g.json", printed.out);
    CHECK(session.json("trace info g.json") == session.json("trace info g.json.zst"));
    CHECK(session.run("trace generate layered:ops=50").out == printed.out);  // as plan has it
  }
}
