#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"
#include "tests/this_build.h"

TEST_SUITE("arena") {
  // One device holds each of the graphs; four must be faster.
  TEST_CASE("the evolved placer and its start place a graph of every family") {
    const std::string program = "exec:" + source_dir() + "/scenarios/examples/formula_placer.py";
    for (const char* family : {"cells", "recurrent", "seq2seq", "blocks", "layered"}) {
      CAPTURE(family);
      const Results results = run_all(sweep_of(fmt::format(
          R"(
name: family
graph: {{generate: {}, seed: 3}}
cluster: {{devices: {{count: 4, kind: v100_fp32, memory: 4 GiB}}, link: {{bandwidth: 16 GB/s, latency: 10 us}}}}
placers: [single, "{}", {{exec: {{path: "{}", args: [start]}}}}]
)",
          family, program, program.substr(5))));
      REQUIRE(results.rows.size() == 3);
      for (const RunResult& row : results.rows) {
        CAPTURE(row.placer);
        CAPTURE(row.detail);
        CHECK(row.status == Status::ok);
      }
      CHECK(results.rows[1].value < results.rows[0].value);
    }
  }
}
