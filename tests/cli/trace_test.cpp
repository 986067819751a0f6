#include "placers/interface/registry.h"
#include "tests/cli/session.h"
#include "tests/validate/virtual_clock.h"

namespace {

/// Checks that the verbs with --placement read the file and agree on the step time.
void is_read(const Session& session, const std::string& trace, const std::string& flags,
             const std::string& placement, const Json& step_time) {
  CAPTURE(placement);
  const std::string rest = " " + flags + " --placement " + placement;
  CHECK(session.json("simulate " + trace + rest)["step_time_us"] == step_time);
  session.runs("explain " + trace + rest);
  for (const std::string& placer :
       {"expert:file=" + placement, "search:start=" + placement + ",evaluations=5"})
    session.runs("place " + trace + " " + flags + " --placer " + placer);
}

}  // namespace

TEST_SUITE_BEGIN("cli");
TEST_CASE_FIXTURE(Session, "trace info counts ops, and reports the coverage") {
  const Json info = json("trace info toy.json");
  CHECK_PARTS(info, R"({"name": "toy", "ops": 3, "edges": 2, "tensors": 1, "groups": 0,
      "critical_path_us": 40.0, "compute_us": 60.0, "output_bytes": 1000, "coverage": {"ops": 3,
      "with_time": 3}})");
  CHECK(holds(run("trace info toy.json").out, "times 3/3"));
}

TEST_CASE_FIXTURE(Session, "trace check reports all mistakes of all files, and unknown facts") {
  write("bad.json",
        R"({"format": "baechi-trace", "version": 1,
 "ops": [{"name": "a", "compute_us": -1}, {"name": "b", "compute_us": 1, "colour": "red"}],
 "edges": [{"from": "a", "output": 0, "to": "z"}]})");
  const auto bad = run("trace check toy.json bad.json");
  CHECK(bad.code == 2);
  CHECK(holds(bad.out, "toy.json: ok, 3 ops, 2 edges"));
  CHECK(holds(bad.err, "bad.json:2:"));
  CHECK(holds(bad.err, "colour"));
  CHECK(holds(bad.err, "bad.json:3:"));

  write("bare.json", R"({"format": "baechi-trace", "version": 1,
 "ops": [{"name": "a", "compute_us": 0}], "edges": []})");
  const auto bare = run("trace check bare.json");
  CHECK(bare.code == 0);
  CHECK(holds(bare.out, "warning: no op has a time"));
  CHECK(holds(bare.out, "warning: no tensor has a size"));
}

TEST_CASE_FIXTURE(Session, "a converted graph is equal") {
  Json before = json("trace info toy.json");
  for (const char* name : {"copy.json", "copy.json.gz", "copy.json.zst"}) {
    CAPTURE(name);
    runs(std::string("trace convert toy.json ") + name);
    CHECK(json(std::string("trace info ") + name) == before);
  }
  runs("trace convert toy.json toy.dot");
  CHECK(holds(read("toy.dot"), "n0 -> n2"));
  runs("trace convert toy.json toy.graphml");
  CHECK(holds(read("toy.graphml"), "<edge id=\"e1\" source=\"n0\" target=\"n2\">"));
}

// 1e9 flops per op; nobody measured a time.
TEST_CASE_FIXTURE(Session, "a written graph states no modelled time, and is placed as before") {
  graph("work.json", "a0,f1G,m1k; b0,f1G,m1k");
  runs("trace convert work.json copy.json");
  runs(
      "trace generate gpt num_hidden_layers=1 hidden_size=64 num_attention_heads=2 length=8 -o "
      "g.json");
  for (const char* path : {"copy.json", "g.json"}) {
    CHECK(json(std::string("trace info ") + path)["assumed_kind"] == "h100");
    CHECK(holds(run(std::string("trace check ") + path).out, "no op has a measured time"));
    const Json trace = Json::parse(read(path));
    for (const Json& op : trace["ops"]) {
      CAPTURE(op.dump());
      CHECK(op["compute_us"] == 0);
    }
  }
  const std::string place = " --placer single --devices 2 --memory '1 GiB'";
  const std::string placed = run("place copy.json" + place).out;
  CHECK(placed.starts_with("assumed      h100: "));
  const auto step = [](const std::string& out) { return out.substr(out.find("step time")); };
  CHECK(step(placed) == step(run("place work.json" + place).out));
  // One model from its file and from its generator, in half precision.
  for (const char* graph : {"{import: g.json}",
                            "{generate: gpt, num_hidden_layers: 1, hidden_size: 64, "
                            "num_attention_heads: 2, length: 8}"}) {
    write("s.yaml", std::string("graph: ") + graph +
                        "\ncluster: {devices: {count: 1, kind: rtx_2080}, link: {bandwidth: 1 "
                        "GB/s}}\ntransforms: [{precision: {to: amp}}]\nplacers: [single]\n");
    runs("run s.yaml --out " + std::string(graph[1] == 'i' ? "f" : "g"));
  }
  const auto step_time = [&](const char* csv) {
    const std::vector<std::string> lines = lines_of(read(csv)), names = lines_of(lines[0], ',');
    const auto column = std::ranges::find(names, "step_time_us") - names.begin();
    return lines_of(lines[1], ',').at(static_cast<std::size_t>(column));
  };
  CHECK(step_time("f/results.csv") == step_time("g/results.csv"));
}

TEST_CASE_FIXTURE(Session, "GraphML of another step is refused; smaller losses are named") {
  write("lanes.json", R"({"format": "baechi-trace", "version": 1, "ops": [
        {"name": "a", "compute_us": 10, "lane": "host", "outputs": [{"bytes": 8, "transfer_us": 1}]},
        {"name": "b", "compute_us": 10}, {"name": "c"}],
        "edges": [{"from": "a", "to": "b"}],
        "collectives": [{"kind": "all_reduce", "bytes": 8, "ops": ["c"], "ranks": 2}]})");
  refuses("trace convert lanes.json lanes.graphml",
          "GraphML cannot hold 2 ops in lanes other than 'compute'; 1 collectives; 1 measured "
          "transfer times");
  CHECK_FALSE(std::filesystem::exists(file("lanes.graphml")));
  write("unread.json", R"({"format": "baechi-trace", "version": 1, "batch": 4,
        "ops": [{"name": "a", "compute_us": 10, "outputs": [{"bytes": 8}]}]})");
  const auto named = run("trace convert unread.json unread.graphml");
  CHECK(named.code == 0);
  CHECK(named.err ==
        "unread.graphml: GraphML does not hold 1 outputs that no op reads, with their "
        "memory\nunread.graphml: GraphML does not hold batch 4\n");
}

TEST_CASE_FIXTURE(Session, "two transforms that replicate: the message names the transforms") {
  write("s.yaml", R"(graph: {generate: layered, ops: 4, training: true, width: 1}
transforms: [{data_parallel: {replicas: 2, gradients: 0.3, simulate: all}}, {data_parallel: {replicas: 2, gradients: 0.3, simulate: all}}]
cluster: {devices: {count: 4, memory: 1 GB}, link: {bandwidth: 1 GB/s}}
placers: [single]
)");
  refuses("run s.yaml --out o --quiet",
          "'data_parallel' and 'data_parallel' both simulate all replicas");
  write("s.yaml", R"(graph: {generate: layered, ops: 4}
transforms: [{host: {launch: 5 us}}, {host: {launch: 5 us}}]
cluster: {devices: {count: 4, memory: 1 GB}, link: {bandwidth: 1 GB/s}}
placers: [single]
)");
  CHECK(run("run s.yaml --out o --quiet").err ==
        "s.yaml:2:38: transforms: 'host' is listed twice\n");
}

TEST_CASE_FIXTURE(Session, "generate writes a file or standard output") {
  runs("trace generate layered ops=50 -o g.json.zst");
  CHECK(json("trace info g.json.zst")["ops"] == 50);
  const auto printed = run("trace generate layered ops=50");
  write("g.json", printed.out);
  CHECK(json("trace info g.json") == json("trace info g.json.zst"));
  CHECK(run("trace generate layered:ops=50").out == printed.out);  // as plan has it
}

TEST_CASE_FIXTURE(Session, "every file that place writes is read by the verbs with --placement") {
  graph("work.json", "a0,f1M,m1k; b0,f1M,m1k");
  for (const PlacerEntry& entry : placers()) {
    const std::string name(entry.name);
    if (!entry.needs.empty() || name == "exec" || name == "expert") continue;
    CAPTURE(name);
    const std::string place = "place toy.json " + two_gpus + " --placer " + name;
    const Json answer = json(place + " -o file.json");
    write("answer.json", answer.dump());
    if (answer["status"] != "ok") continue;
    for (const char* path : {"answer.json", "file.json"})
      CHECK(json("simulate toy.json " + two_gpus + " --placement " + path)["step_time_us"] ==
            answer["step_time_us"]);
  }
  // Times of the trace's only device type, of an assumed one, and of one without times.
  for (const auto& [trace, flags] : {std::pair<std::string, std::string>{"toy.json", two_gpus},
                                     {"work.json", two_gpus},
                                     {"toy.json", two_gpus + " --kind v100"}}) {
    CAPTURE(flags);
    const Json answer = json("place " + trace + " " + flags + " --placer heft -o file.json");
    write("answer.json", answer.dump());
    is_read(*this, trace, flags, "answer.json", answer["step_time_us"]);
    is_read(*this, trace, flags, "file.json", answer["step_time_us"]);
  }
}

// 60 us of ops on three devices: 20 us per sample; on one device, 60.
TEST_CASE_FIXTURE(Session, "a file of place -o has the replicas, like the JSON output") {
  const std::string gpus = "--devices 3 --memory '1 MB' --bandwidth '1 GB/s' --latency 0";
  const Json answer = json("place toy.json --placer exact_dp:replicate=true -o file.json " + gpus);
  write("answer.json", answer.dump());
  for (const char* path : {"answer.json", "file.json"}) {
    CAPTURE(path);
    const Json step =
        json("simulate toy.json --objective max_load " + gpus + " --placement " + path);
    CHECK(step["max_load_us"] == 20.0);
    CHECK(holds(run("simulate toy.json " + gpus + " --placement " + path).out, "replicas"));
  }
}

TEST_CASE_FIXTURE(Session, "folders of runs, shards, duels and plans are read by other verbs") {
  write("s.yaml",
        "name: s\ngraph: {import: toy.json}\n"
        "cluster: {devices: {count: 2, memory: 1 MB}, link: {bandwidth: 1 GB/s}}\n"
        "placers: [single, m_etf]\n");
  runs("run s.yaml --out all --quiet");
  for (const char* verb : {"report all", "compare all", "run s.yaml --out all --resume --quiet"})
    runs(verb);
  for (const std::string shard : {"1", "2"})
    runs("run s.yaml --out part" + shard + " --quiet --shard " + shard + "/2");
  runs("merge part1 part2 --out joined");
  CHECK(read("joined/results.csv").size() > 100);
  runs("compare all joined");

  runs("validate plan s.yaml -o run");
  validate::replay_virtually(file("run"));
  runs("validate calibrate run");
  runs("validate report run");
  write("calibrated.yaml", read("s.yaml") + "calibration: run/calibration.yaml\n");
  runs("run calibrated.yaml --out calibrated --quiet");

  runs(
      "plan gpt:num_hidden_layers=2,hidden_size=64,num_attention_heads=2,length=16,vocab_size=100 "
      "--batch 8 --devices 8 --nodes dgx_a100 --as a100_megatron --write-scenario plan.yaml");
  runs("run plan.yaml --out planned --quiet");
  runs("arena duel single m_etf --evaluations 40 -o duel");
  runs("run duel/duel.yaml --out fought --quiet");
  runs("arena --placer single --hidden 3 -o hidden");
  runs("arena --placer single --instances hidden");
}
