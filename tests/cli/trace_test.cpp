#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
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

  // 1e9 flops per op; nobody measured a time.
  TEST_CASE("a written graph states no modelled time, and is placed as what it was made from") {
    const Session session;
    session.folder().write("work.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "kernels": [{"flops": 1000000000, "traffic_bytes": 1000}]},
        {"name": "b", "kernels": [{"flops": 1000000000, "traffic_bytes": 1000}]}]})");
    CHECK(session.run("trace convert work.json copy.json").code == 0);
    CHECK(session
              .run("trace generate gpt num_hidden_layers=1 hidden_size=64 num_attention_heads=2 "
                   "length=8 -o g.json")
              .code == 0);
    for (const char* file : {"copy.json", "g.json"}) {
      CHECK(session.json(std::string("trace info ") + file)["assumed_kind"] == "h100");
      CHECK(
          holds(session.run(std::string("trace check ") + file).out, "no op has a measured time"));
      for (const auto& op : Json::parse(session.folder().read(file))["ops"]) {
        CAPTURE(op.dump());
        CHECK(op["compute_us"] == 0);
      }
    }
    const std::string place = " --placer single --devices 2 --memory '1 GiB'";
    const std::string placed = session.run("place copy.json" + place).out;
    CHECK(placed.starts_with("assumed      h100: "));
    const auto step = [](const std::string& out) { return out.substr(out.find("step time")); };
    CHECK(step(placed) == step(session.run("place work.json" + place).out));
    // One model from its file and from its generator, in half precision.
    for (const char* graph : {"{import: g.json}",
                              "{generate: gpt, num_hidden_layers: 1, hidden_size: 64, "
                              "num_attention_heads: 2, length: 8}"}) {
      session.folder().write("s.yaml", std::string("graph: ") + graph +
                                           "\ncluster: {devices: {count: 1, kind: rtx_2080}, link: "
                                           "{bandwidth: 1 GB/s}}\ntransforms: [{precision: {to: "
                                           "amp}}]\nplacers: [single]\n");
      CHECK(session.run("run s.yaml --out " + std::string(graph[1] == 'i' ? "f" : "g")).code == 0);
    }
    const auto column = [&](const std::string& csv, std::string_view name) {
      std::istringstream lines(csv);
      std::string header, row, cell;
      std::getline(lines, header);
      std::getline(lines, row);
      std::istringstream names(header), values(row);
      while (std::getline(names, cell, ',')) {
        std::string value;
        std::getline(values, value, ',');
        if (cell == name) return value;
      }
      return std::string("no column");
    };
    CHECK(column(session.folder().read("f/results.csv"), "step_time_us") ==
          column(session.folder().read("g/results.csv"), "step_time_us"));
  }

  TEST_CASE("GraphML that would be another step is refused; smaller losses are named") {
    const Session session;
    session.folder().write("lanes.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "compute_us": 10, "lane": "host", "outputs": [{"bytes": 8, "transfer_us": 1}]},
        {"name": "b", "compute_us": 10}, {"name": "c"}],
        "edges": [{"from": "a", "to": "b"}],
        "collectives": [{"kind": "all_reduce", "bytes": 8, "ops": ["c"], "ranks": 2}]})");
    const auto refused = session.run("trace convert lanes.json lanes.graphml");
    CHECK(refused.code == 2);
    CHECK(holds(refused.err,
                "GraphML cannot hold 2 ops in lanes other than 'compute'; 1 "
                "collectives; 1 measured transfer times"));
    CHECK_FALSE(std::filesystem::exists(session.folder().file("lanes.graphml")));
    session.folder().write("unread.json", R"({"format": "baechi-trace", "version": 1, "batch": 4,
        "ops": [{"name": "a", "compute_us": 10, "outputs": [{"bytes": 8}]}]})");
    const auto named = session.run("trace convert unread.json unread.graphml");
    CHECK(named.code == 0);
    CHECK(named.err ==
          "unread.graphml: GraphML does not hold 1 outputs that no op reads, with "
          "their memory\nunread.graphml: GraphML does not hold batch 4\n");
  }

  TEST_CASE("two transforms that replicate: the message names the transforms") {
    const Session session;
    session.folder().write("s.yaml", R"(graph: {generate: layered, ops: 4, training: true, width: 1}
transforms: [{data_parallel: {replicas: 2, gradients: 0.3, simulate: all}}, {data_parallel: {replicas: 2, gradients: 0.3, simulate: all}}]
cluster: {devices: {count: 4, memory: 1 GB}, link: {bandwidth: 1 GB/s}}
placers: [single]
)");
    const auto result = session.run("run s.yaml --out o --quiet");
    CHECK(result.code == 2);
    CHECK(holds(result.err, "'data_parallel' and 'data_parallel' both simulate all replicas"));
    session.folder().write("s.yaml", R"(graph: {generate: layered, ops: 4}
transforms: [{host: {launch: 5 us}}, {host: {launch: 5 us}}]
cluster: {devices: {count: 4, memory: 1 GB}, link: {bandwidth: 1 GB/s}}
placers: [single]
)");
    CHECK(session.run("run s.yaml --out o --quiet").err ==
          "s.yaml:2:38: transforms: 'host' is listed twice\n");
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
