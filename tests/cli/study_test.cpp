#include "tests/cli/session.h"

namespace {

constexpr std::string_view areas =
    "part,size,area_um2\n"
    "tensor_core,256,300000\ntensor_core,1024,1100000\n"
    "vector_core,16,30000\nvector_core,32,60000\n"
    "buffer,1 MiB,1500000\nbuffer,4 MiB,6000000\n";

constexpr std::string_view scenario = R"(
graph: {generate: gpt, num_hidden_layers: 2, hidden_size: 128, num_attention_heads: 4, length: 64, vocab_size: 512}
cluster: {devices: {count: 4, memory: 1 GiB}, link: {bandwidth: 10 GB/s}}
codesign:
  areas: areas.csv
  space: {tensor_cores: [1, 2], vector_cores: [1, 2], width: [16, 32], depth: [16, 32], buffer: [1 MiB, 4 MiB]}
  reference: {tensor_cores: 1, vector_cores: 1, width: 16, depth: 16, buffer: 4 MiB}
  area: 8 mm2
  patience: 0
  batch: 16
  memory_bandwidth: 100 GB/s
)";

}  // namespace

TEST_SUITE_BEGIN("cli");
TEST_CASE_FIXTURE(Session, "configure chooses instances, and reports mistakes by their place") {
  write("latencies.csv",
        "model,threads,batch,mean_ms\n"
        "small,1,1,6\nsmall,2,2,9\nlarge,2,2,30\n");
  // Two instances of one thread take 6 ms, one of two threads 9 ms.
  const Json all = json("study configure latencies.csv --threads 2 --batch 2");
  REQUIRE(all["profiles"].size() == 2);
  const Json& large = all["profiles"][0]["configurations"][0];
  const Json& small = all["profiles"][1]["configurations"][0];
  CHECK(large["latency_ms"] == 30.0);
  CHECK(small["latency_ms"] == 6.0);
  CHECK(small["speed_up"] == 1.5);
  CHECK(small["instances"] == Json::parse(R"([{"count": 2, "threads": 1, "batch": 1}])"));
  // With interference the two take 12 ms.
  const Json disturbed = json(
      "study configure latencies.csv --threads 2 --batch 2 --interference 2 --where model=small");
  REQUIRE(disturbed["profiles"].size() == 1);
  CHECK(disturbed["profiles"][0]["configurations"][0]["latency_ms"] == 9.0);

  write("wrong.csv", "threads,batch,mean_ms\n1,0,6\n1,1,-6\n1,1\n");
  const auto wrong = run("study configure wrong.csv --threads 2 --batch 2");
  CHECK(wrong.code == 2);
  CHECK(holds(wrong.err, "wrong.csv:2:3: batch: '0' is not a whole number from 1 to 65536"));
  CHECK(holds(wrong.err, "wrong.csv:3:5: mean_ms: '-6' is not a time above 0"));
  CHECK(holds(wrong.err, "wrong.csv:4:1: 2 values, not 3 as in the header"));
}

TEST_CASE_FIXTURE(Session, "codesign ranks architectures by their best plans") {
  write("areas.csv", areas);
  write("s.yaml", scenario);
  const auto answer = json("study codesign s.yaml --top 3");
  CHECK(answer["status"] == "ok");
  CHECK(answer["combinations"] == 32);
  // 16 x 32 is 512 multipliers, which the table lacks: half of the designs remain. With 4 MiB, 2
  // arrays of 1024 take over 8.2 mm2: two designs are too large.
  CHECK_PARTS(answer, R"({"architectures": 14, "visited": 14, "proved": true})");
  REQUIRE(answer["designs"].size() == 3);
  CHECK(answer["designs"][0]["samples_per_s"] >= answer["designs"][1]["samples_per_s"]);
  CHECK(answer["gain"] >= 1.0);
  CHECK(answer["reference"]["area_um2"] == 300'000 + 30'000 + 6'000'000);
  CHECK(answer["front"].back()["on_front"] == true);
  const auto csv = run("study codesign s.yaml --format csv");
  CHECK(csv.code == 0);
  CHECK(std::ranges::count(csv.out, '\n') == 15);
  CHECK(holds(run("study codesign s.yaml").out, " x as fast as the reference"));
}

TEST_CASE_FIXTURE(Session, "codesign reports missing keys") {
  write("areas.csv", areas);
  write("s.yaml", scenario);
  write("plain.yaml",
        "graph: {generate: gpt}\nplacers: [single]\n"
        "cluster: {devices: {count: 1, memory: 1 GiB}}\n");
  const auto error_of = [&](const std::string& arguments) {
    const auto result = run("study codesign " + arguments);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK(holds(error_of("plain.yaml"), "plain.yaml: it has no section 'codesign'"));
  CHECK(holds(error_of("s.yaml --set graph='{generate: alexnet}'"), "of kind Conv2d"));
  CHECK(holds(error_of("s.yaml --set codesign.areas=none.csv"), "none.csv"));
  CHECK(holds(error_of("s.yaml --set codesign.area='1 mm2'"), "none of its 32 architectures"));
  CHECK(holds(error_of("s.yaml --set graph.batch=3"), "gpt.batch: plans choose it"));
  refuses("run s.yaml", "it needs 'placers'");
}

namespace {

/// toy.json on one device of 1 MB: 60 us. half.yaml makes b shorter.
struct WhatIf : Session {
  WhatIf() {
    folder().write("toy.yaml",
                   "graph: {import: toy.json}\n"
                   "cluster: {devices: {count: 1, memory: 1 MB}, link: {bandwidth: 1 GB/s, "
                   "latency: 0 us}}\nplacers: [single]\n");
    folder().write(
        "half.yaml",
        "with: {factor: 0.5}\nrules:\n  - scale: {time: \"${factor}\"}\n    where: {name: b}\n");
  }
};

}  // namespace

TEST_SUITE_BEGIN("cli what-if");
TEST_CASE_FIXTURE(WhatIf, "a row for the base, for each file of rules, and for all of them") {
  const auto rows = json("what-if toy.yaml half.yaml half.yaml:factor=0")["what_if"];
  REQUIRE(rows.size() == 4);
  CHECK_PARTS(rows, R"([{"name": "base", "step_time_us": 60.0, "peak_bytes": 1000,
      "critical_path_us": {"compute": 60.0}}, {"step_time_us": 50.0}, {"name": "half:factor=0",
      "step_time_us": 40.0}, {"name": "all together", "verdict": "fits"}])");
}

TEST_CASE_FIXTURE(WhatIf,
                  "a step that does not fit is simulated without the limit, and reported as such") {
  write("large.yaml", "- set: {bytes: 2 MB}\n  where: {name: a}\n");
  const auto rows = json("what-if toy.yaml large.yaml")["what_if"];
  CHECK_PARTS(rows, R"([{}, {"verdict": "out of memory", "step_time_us": 60.0,
      "peak_bytes": 2000000}])");
  const std::string text = run("what-if toy.yaml large.yaml").out;
  CHECK(holds(text, "large: gpu0 has 976.56 KiB; the step is simulated without memory limits"));
  CHECK(run("what-if toy.yaml large.yaml --format csv").out ==
        "what_if,step_us,change,peak_bytes,device,limit_bytes,verdict,compute_us,host_us,"
        "collective_us,transfer_us,waiting_us,samples\n"
        "base,60,0.000000,1000,gpu0,1000000,fits,60,0,0,0,0,1\n"
        "large,60,0.000000,2000000,gpu0,1000000,out of memory,60,0,0,0,0,1\n");
}

TEST_CASE_FIXTURE(WhatIf, "mistakes in rules end with code 2 and their place") {
  write("typo.yaml", "- scale: {tim: 2}\n- remove:\n  where: {name: d}\n");
  CHECK(run("what-if toy.yaml typo.yaml").code == 2);
  CHECK(run("what-if toy.yaml typo.yaml")
            .err.find("typo.yaml:1:16: scale has no option "
                      "'tim' (did you mean 'time'?)") != std::string::npos);
  CHECK(holds(run("what-if toy.yaml ampp").err, "did you mean 'amp'?"));
}

TEST_CASE_FIXTURE(WhatIf, "a rule that selects no op is a row, and has no part in all together") {
  const auto rows = json("what-if toy.yaml no_host infinite_network")["what_if"];
  REQUIRE(rows.size() == 4);
  CHECK(rows[1]["verdict"] == "does not apply");
  CHECK(holds(rows[1]["why"].get<std::string>(), "what_if: 'remove' selects none of 3 ops"));
  CHECK(rows[2]["verdict"] == "fits");
  CHECK(rows[3]["step_time_us"] == rows[2]["step_time_us"]);
}

TEST_CASE_FIXTURE(WhatIf, "what-if takes a graph file and the cluster's flags") {
  // auto keeps the three ops on one device: 10 + 20 + 30 us.
  write("slow.yaml", "- scale: {time: 2}\n");
  const auto rows = json("what-if toy.json slow.yaml " + two_gpus)["what_if"];
  CHECK(rows[0]["step_time_us"] == json("place toy.json " + two_gpus)["step_time_us"]);
  CHECK(rows[1]["change"].get<double>() > 0.5);
}
