#include <algorithm>

#include "tests/cli/session.h"

using namespace baechi::testing;

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
    const auto run = session.run("run s.yaml");
    CHECK(run.code == 2);
    CHECK(holds(run.err, "it needs 'placers'"));
  }
}
