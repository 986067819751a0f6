#include "placers/interface/registry.h"
#include "tests/cli/session.h"
#include "tests/validate/virtual_clock.h"

namespace {

/// The exit code, with the error output if it is not 0.
void runs(const Session& session, const std::string& arguments) {
  const auto result = session.run(arguments);
  CAPTURE(arguments);
  CAPTURE(result.err);
  CHECK(result.code == 0);
}

/// Checks that the verbs with --placement read the file and agree on the step time.
void is_read(const Session& session, const std::string& trace, const std::string& flags,
             const std::string& placement, const Json& step_time) {
  CAPTURE(placement);
  const std::string rest = " " + flags + " --placement " + placement;
  CHECK(session.json("simulate " + trace + rest)["step_time_us"] == step_time);
  runs(session, "explain " + trace + rest);
  for (const std::string& placer :
       {"expert:file=" + placement, "search:start=" + placement + ",evaluations=5"})
    runs(session, "place " + trace + " " + flags + " --placer " + placer);
}

}  // namespace

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
    session.refuses("trace convert lanes.json lanes.graphml",
                    "GraphML cannot hold 2 ops in lanes other than 'compute'; 1 "
                    "collectives; 1 measured transfer times");
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
    session.refuses("run s.yaml --out o --quiet",
                    "'data_parallel' and 'data_parallel' both simulate all replicas");
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

  TEST_CASE("every file that place writes is read by the verbs with --placement") {
    const Session session;
    session.folder().write("work.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "kernels": [{"flops": 1000000, "traffic_bytes": 1000}]},
        {"name": "b", "kernels": [{"flops": 1000000, "traffic_bytes": 1000}]}]})");
    for (const PlacerEntry& entry : placers()) {
      const std::string name(entry.name);
      if (!entry.needs.empty() || name == "exec" || name == "expert") continue;
      CAPTURE(name);
      const std::string place = "place toy.json " + two_gpus + " --placer " + name;
      const Json answer = session.json(place + " -o file.json");
      session.folder().write("answer.json", answer.dump());
      if (answer["status"] != "ok") continue;
      for (const char* file : {"answer.json", "file.json"})
        CHECK(session.json("simulate toy.json " + two_gpus + " --placement " +
                           file)["step_time_us"] == answer["step_time_us"]);
    }
    // Times of the trace's only device type, of an assumed one, and of one without times.
    for (const auto& [trace, flags] : {std::pair<std::string, std::string>{"toy.json", two_gpus},
                                       {"work.json", two_gpus},
                                       {"toy.json", two_gpus + " --kind v100"}}) {
      CAPTURE(flags);
      const Json answer =
          session.json("place " + trace + " " + flags + " --placer heft -o file.json");
      session.folder().write("answer.json", answer.dump());
      is_read(session, trace, flags, "answer.json", answer["step_time_us"]);
      is_read(session, trace, flags, "file.json", answer["step_time_us"]);
    }
  }

  // 60 us of ops on three devices: 20 us per sample; on one device, 60.
  TEST_CASE("a file of place -o has the replicas, like the JSON output") {
    const Session session;
    const std::string gpus = "--devices 3 --memory '1 MB' --bandwidth '1 GB/s' --latency 0";
    const Json answer =
        session.json("place toy.json --placer exact_dp:replicate=true -o file.json " + gpus);
    session.folder().write("answer.json", answer.dump());
    for (const char* file : {"answer.json", "file.json"}) {
      CAPTURE(file);
      const Json step =
          session.json("simulate toy.json --objective max_load " + gpus + " --placement " + file);
      CHECK(step["max_load_us"] == 20.0);
      CHECK(
          holds(session.run("simulate toy.json " + gpus + " --placement " + file).out, "replicas"));
    }
  }

  TEST_CASE("every file that trace writes is read by trace, except DOT") {
    const Session session;
    for (const std::string ending : {"json", "json.gz", "json.zst", "graphml"}) {
      CAPTURE(ending);
      runs(session, "trace convert toy.json other." + ending);
      const Json info = session.json("trace info other." + ending);
      CHECK(info["ops"] == 3);
      runs(session, "trace convert other." + ending + " again.json");
      runs(session, "place again.json " + two_gpus);
    }
    runs(session, "trace generate layered ops=20 -o graph.json.zst");
    runs(session, "bound graph.json.zst " + two_gpus);
    runs(session, "trace convert toy.json toy.dot");
    CHECK(session.run("trace info toy.dot").code == 2);
  }

  TEST_CASE("folders of run, shards, duels, plans and policies are read by the other verbs") {
    const Session session;
    session.folder().write(
        "s.yaml",
        "name: s\ngraph: {import: toy.json}\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
        "placers: [single, m_etf]\n");
    runs(session, "run s.yaml --out all --quiet");
    for (const char* verb : {"report all", "compare all", "run s.yaml --out all --resume --quiet"})
      runs(session, verb);
    for (const std::string shard : {"1", "2"})
      runs(session, "run s.yaml --out part" + shard + " --quiet --shard " + shard + "/2");
    runs(session, "merge part1 part2 --out joined");
    CHECK(session.folder().read("joined/results.csv").size() > 100);
    runs(session, "compare all joined");

    runs(session, "validate plan s.yaml -o run");
    validate::replay_virtually(session.folder().file("run"));
    runs(session, "validate calibrate run");
    runs(session, "validate report run");
    session.folder().write("calibrated.yaml",
                           session.folder().read("s.yaml") + "calibration: run/calibration.yaml\n");
    runs(session, "run calibrated.yaml --out calibrated --quiet");

    runs(session,
         "plan "
         "gpt:num_hidden_layers=2,hidden_size=64,num_attention_heads=2,length=16,vocab_size=100 "
         "--batch 8 --devices 8 "
         "--nodes dgx_a100 --as a100_megatron --write-scenario plan.yaml");
    runs(session, "run plan.yaml --out planned --quiet");
    runs(session, "arena duel single m_etf --evaluations 40 -o duel");
    runs(session, "run duel/duel.yaml --out fought --quiet");
    runs(session, "arena --placer single --hidden 3 -o hidden");
    runs(session, "arena --placer single --instances hidden");
  }
}
