#include "tests/cli/session.h"
#include "tests/prelude.h"

using Json = nlohmann::json;

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

  TEST_CASE("codesign ranks architectures by their best plans") {
    const Session session;
    session.folder().write("areas.csv", areas);
    session.folder().write("s.yaml", scenario);
    const auto json = session.json("study codesign s.yaml --top 3");
    CHECK(json["status"] == "ok");
    CHECK(json["combinations"] == 32);
    // 16 x 32 is 512 multipliers, which the table lacks: half of the designs remain. With 4 MiB, 2
    // arrays of 1024 take over 8.2 mm2: two designs are too large.
    CHECK(json["architectures"] == 14);
    CHECK(json["visited"] == 14);
    CHECK(json["proved"] == true);
    REQUIRE(json["designs"].size() == 3);
    CHECK(json["designs"][0]["samples_per_s"] >= json["designs"][1]["samples_per_s"]);
    CHECK(json["gain"] >= 1.0);
    CHECK(json["reference"]["area_um2"] == 300'000 + 30'000 + 6'000'000);
    CHECK(json["front"].back()["on_front"] == true);
    const auto csv = session.run("study codesign s.yaml --format csv");
    CHECK(csv.code == 0);
    CHECK(std::ranges::count(csv.out, '\n') == 15);
    CHECK(holds(session.run("study codesign s.yaml").out, " x as fast as the reference"));
  }

  TEST_CASE("codesign reports missing keys") {
    const Session session;
    session.folder().write("areas.csv", areas);
    session.folder().write("s.yaml", scenario);
    session.folder().write("plain.yaml",
                           "graph: {generate: gpt}\nplacers: [single]\n"
                           "cluster: {devices: {count: 1, memory: 1 GiB}}\n");
    const auto error_of = [&](const std::string& arguments) {
      const auto result = session.run("study codesign " + arguments);
      CHECK(result.code == 2);
      return result.err;
    };
    CHECK(holds(error_of("plain.yaml"), "plain.yaml: it has no section 'codesign'"));
    CHECK(holds(error_of("s.yaml --set graph='{generate: alexnet}'"), "of kind Conv2d"));
    CHECK(holds(error_of("s.yaml --set codesign.areas=none.csv"), "none.csv"));
    CHECK(holds(error_of("s.yaml --set codesign.area='1 mm2'"), "none of its 32 architectures"));
    CHECK(holds(error_of("s.yaml --set graph.batch=3"), "gpt.batch: plans choose it"));
    session.refuses("run s.yaml", "it needs 'placers'");
  }
}
