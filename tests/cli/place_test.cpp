#include "tests/cli/session.h"

TEST_SUITE_BEGIN("cli");
TEST_CASE_FIXTURE(Session, "a generator is a graph where a file is, devices are a list of types") {
  const Json placed = json("place resnet50:batch=2 --gpus 1xrtx_4090+1xrtx_2080");
  CHECK(placed["graph"] == json("place resnet50:batch=2 --devices rtx_4090,rtx_2080")["graph"]);
  CHECK(placed["devices"] == 2);
  CHECK(placed["status"] == "ok");
  CHECK(json("trace info llama:size=7b,num_hidden_layers=1")["name"] ==
        json("trace info llama:num_hidden_layers=1")["name"]);
  refuses("place gpt3 --gpus 1xh100",
          "gpt3: neither a file, a generator nor a known model (did you mean 'gpt'?)");
  refuses("place gpt3.json --gpus 1xh100", "gpt3.json: cannot be read");
  refuses("place gpt2 --gpus 1xh10", "the nearest are h100");
}

TEST_CASE_FIXTURE(Session, "place without a placer uses and names the best of the quick ones") {
  const Json placed = json("place toy.json " + two_gpus);
  CHECK(placed["placer"] == "auto");
  CHECK(holds(placed["detail"].get<std::string>(), " placers run, "));
  CHECK(placed["step_time_us"] <=
        json("place toy.json --placer m_etf " + two_gpus)["step_time_us"]);
}

// A recorded step of 755 ops whose weights and activations barely fit two devices.
TEST_CASE_FIXTURE(Session, "an infeasible result is reported; fallback names its placer") {
  const std::string tight = "place " + source_dir() +
                            "/traces/data/transformer_small_train.trace.json.zst --devices 2 "
                            "--memory '115 MiB' --bandwidth '5.7 GB/s' --latency '134 us' ";
  for (const std::string placer : {"m_etf", "m_sct", "m_topo"}) {
    CAPTURE(placer);
    const Json alone = json(tight + "--placer " + placer);
    CHECK(alone["status"] == "infeasible");
    CHECK_FALSE(alone.contains("placed_by"));
    const Json other = json(tight + "--placer " + placer + ":fallback=true");
    CHECK(other["status"] == "ok");
    CHECK(other["placer"] == placer + ":fallback=true");
    CHECK(other["placed_by"].get<std::string>().starts_with("fallback:"));
  }
  CHECK(json("place toy.json --placer heft " + two_gpus)["placed_by"] == "heft");
}

TEST_CASE_FIXTURE(Session, "a step beyond the cluster is infeasible for place as for run") {
  // Three replicas of a placement on four devices need twelve.
  const std::string scenario = R"(name: all
graph: {generate: layered, ops: 4, training: true, width: 1}
transforms: [{data_parallel: {replicas: 3, gradients: 0.33, simulate: all}}]
cluster: {devices: {count: 4, memory: 1 GB}, link: {bandwidth: 1 GB/s, latency: 0 us}}
placers: [round_robin, single]
)";
  write("all.yaml", scenario);
  runs("trace generate layered ops=4 training=true width=1 -o g.json");
  CHECK(holds(run("run all.yaml --out rows").out, "round_robin  infeasible"));
  const Json placed = json("place g.json --scenario all.yaml --placer round_robin -o placed.json");
  CHECK(placed["status"] == "infeasible");
  CHECK(holds(placed["detail"].get<std::string>(), "would be on device 4"));
  CHECK_FALSE(std::filesystem::exists(file("placed.json")));
  CHECK(json("place g.json --scenario all.yaml --placer single -o one.json")["status"] == "ok");
}

TEST_CASE_FIXTURE(Session, "place writes a file that simulate reads") {
  const Json placed = json("place toy.json --placer single:device=1 -o placed.json " + two_gpus);
  CHECK(has_keys(placed, {"format", "version", "graph", "devices", "placement", "placer",
                          "placing_ms", "status", "detail", "step_time_us"}));
  CHECK_PARTS(placed, R"({"format": "baechi-placement", "graph": "toy", "devices": 2})");
  CHECK(placed["placement"] == Json{{"a", 1}, {"b", 1}, {"c", 1}});
  CHECK_PARTS(placed, R"({"placer": "single:device=1", "status": "ok", "step_time_us": 60.0})");
  const Json step = json("simulate toy.json --placement placed.json " + two_gpus);
  CHECK(step["step_time_us"] == placed["step_time_us"]);
  CHECK(step["devices"][0]["busy_us"] == 0.0);
}

TEST_CASE_FIXTURE(Session, "infeasible is a result, and writes no file") {
  const std::string tight =
      "place toy.json --placer m_topo -o placed.json --devices 2 --memory '999 B'";
  const Json placed = json(tight);
  CHECK(placed["status"] == "infeasible");
  CHECK(placed["detail"] != "");
  CHECK(placed["step_time_us"].is_null());
  CHECK(placed["placement"].empty());
  CHECK(read("placed.json").empty());
  CHECK(holds(run(tight).out, "infeasible"));
}

TEST_CASE_FIXTURE(Session, "a placement that runs out of memory has an OOM report") {
  const Json placed = json("place toy.json --placer single --devices 2 --memory '999 B'");
  CHECK(placed["status"] == "oom");
  CHECK(placed["step_time_us"].is_null());
  CHECK(holds(placed["detail"].get<std::string>(), "out of memory on gpu0"));
  write("oom.json", placed.dump());  // is still a placement file
  CHECK(json("simulate toy.json --placement oom.json " + two_gpus)["status"] == "ok");
}

TEST_CASE_FIXTURE(Session, "--reserve keeps memory free, and 'spare' says what is left") {
  // a's output: 1000 B of 1 MB on one device.
  const std::string one = "place toy.json " + two_gpus;
  CHECK(json(one)["spare_bytes"] == 999'000);
  CHECK(json(one + " --reserve '900 kB'")["spare_bytes"] == 999'000);
  CHECK(json(one + " --reserve '999001 B'")["status"] == "infeasible");
  CHECK(holds(run(one).out, "spare"));
  CHECK_FALSE(holds(run(one).out, "framework's runtime"));  // 1 MB is no GPU
  CHECK(run(one + " --reserve much").code == 2);
  graph("full.json", "a10k,w7516192768");
  const std::string full = "place full.json --devices 1 --memory '7.5 GiB'";
  CHECK(holds(run(full).out, "spare        512.00 MiB, less than a framework's runtime"));
  CHECK(json(full + " --reserve '1 GiB'")["status"] == "infeasible");
}

TEST_CASE_FIXTURE(Session, "an external program may state its own time") {
  write("own.sh",
        "#!/bin/sh\ncat >/dev/null\nsleep 1\n"
        "echo '{\"format\": \"baechi-placement\", \"version\": 1, "
        "\"placement\": {\"a\": 0, \"b\": 0, \"c\": 0}, \"placing_ms\": 2.5}'\n");
  const auto ran = run("place toy.json --placer exec:./own.sh --format json " + two_gpus,
                       "chmod +x own.sh && {}");
  const double placing = Json::parse(ran.out)["placing_ms"].get<double>();
  CHECK(placing >= 2.5);  // and the time of transforms of the graph
  CHECK(placing < 1000.0);
  CHECK(holds(ran.err, "persistent=true"));
}
