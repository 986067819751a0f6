// The importers `piper` and `doppler` on hand-written examples and on published files.

#include <doctest/doctest.h>

#include <map>

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "tests/shared_data.h"
#include "tests/traces/import/imported.h"

using namespace baechi;
using namespace baechi::testing;
using namespace std::chrono_literals;

namespace {

Duration total(const OpGraph& graph) {
  Duration sum{};
  for (const OpId v : graph.ops()) sum += graph.op(v).compute;
  return sum;
}

}  // namespace

TEST_SUITE("planners") {
  TEST_CASE("a file of Piper's planner: one degree and one mode of every node") {
    const Trace trace = read_trace(seed("piper/two.json"));
    CHECK(trace.format == "piper");
    const OpGraph& g = trace.graph;
    REQUIRE(g.num_ops() == 2);
    CHECK(g.name(OpId{0}) == "in");
    CHECK(g.op(OpId{0}).compute == 2ms);
    CHECK(g.op(OpId{0}).persistent == Bytes{800 + 100});  // and one micro-batch in flight
    CHECK(g.op(OpId{1}).persistent == Bytes{1200 + 200});
    REQUIRE(g.num_edges() == 1);
    CHECK(g.tensor(g.edge(EdgeId{0}).tensor).size == Bytes{5000});
    REQUIRE(trace.cluster.has_value());
    CHECK(trace.cluster->accelerators == 4);
    CHECK(trace.cluster->memory == Bytes{1'000'000});
    CHECK(trace.cluster->transfer[TensorId{0}] == 5us);  // 5000 B at 1 GB/s
    const Trace less = imported(seed("piper/two.json"), "piper", {{"mode", "activation recomp"}});
    CHECK(less.graph.op(OpId{0}).persistent == Bytes{850 + 10});
    CHECK(less.graph.op(OpId{0}).compute == 3ms);
    CHECK(less.notes.front() == "1 ops have no mode 'activation recomp': their first mode is used");
    CHECK_THROWS_WITH_AS(imported(seed("piper/two.json"), "piper", {{"degree", "2"}}),
                         doctest::Contains("node 0 has no mode of degree 2"), InputError);
    CHECK(imported(seed("piper/two.json"), "piper", {{"time_unit", "ms"}})
              .graph.op(OpId{0})
              .compute == 2us);
  }

  TEST_CASE("Piper's published files") {
    const std::filesystem::path data = testing::published_data();
    const std::map<std::string, std::size_t> nodes{
        {"bert32a100", 37}, {"gnmt", 78}, {"resnet", 177}};
    for (const auto& [name, count] : nodes) {
      CAPTURE(name);
      const Trace trace = read_trace((data / "piper/inputs" / (name + ".json.zst")).string());
      CHECK(trace.format == "piper");
      CHECK(trace.graph.num_ops() == count);
      CHECK(trace.coverage.with_time > 0);
      CHECK(trace.cluster.has_value());
    }
    CHECK_NOTHROW(
        imported((data / "piper/inputs/bert32a100.json.zst").string(), "piper", {{"degree", "8"}}));
  }

  // 1e9 units of compute are 10 us, 4e9 of comm 40 us; no size is stated.
  TEST_CASE("a graph of DOPPLER: inputs are not ops, times are costs x 1e-8 us") {
    const Trace trace = read_trace(seed("doppler/three.txt"));
    CHECK(trace.format == "doppler");
    const OpGraph& g = trace.graph;
    REQUIRE(g.num_ops() == 3);
    CHECK(g.num_edges() == 3);
    CHECK(g.op(OpId{0}).compute == 10us);
    CHECK(g.op(OpId{2}).compute == 5us);
    CHECK(g.kind(OpId{0}) == "matmul");
    CHECK(g.kind(OpId{2}).empty());
    CHECK(g.tensor(TensorId{0}).size == Bytes{});
    CHECK(g.measured_transfer(TensorId{0}) == 40us);
    CHECK(g.measured_transfer(TensorId{1}) == 4us);
    CHECK(critical_path(g) == 35us);  // 10 + 20 + 5
    const Trace twice = imported(seed("doppler/three.txt"), "doppler", {{"unit_us", "2e-8"}});
    CHECK(twice.graph.op(OpId{0}).compute == 20us);
  }

  TEST_CASE("DOPPLER's published graphs: ops, edges, and a quarter of the total time") {
    const auto data = shared_data("doppler");
    if (!data) return;
    struct Known {
      const char* file;
      std::size_t ops, edges;
      double quarter_us;
    };
    for (const Known& k : {Known{"gdp_chain_mm_112nodes.txt", 76, 80, 120'007.0},
                           Known{"gdp_ffnn_192nodes.txt", 180, 208, 5669.6},
                           Known{"gdp_transformer_block_215nodes.txt", 182, 234, 9717.0},
                           Known{"gdp_full_transformer_layer_261nodes.txt", 229, 284, 9724.0}}) {
      CAPTURE(k.file);
      const Trace trace = read_trace((*data / "doppler" / k.file).string());
      CHECK(trace.format == "doppler");
      CHECK(trace.graph.num_ops() == k.ops);
      CHECK(trace.graph.num_edges() == k.edges);
      CHECK(to_us(total(trace.graph)) / 4 == doctest::Approx(k.quarter_us).epsilon(1e-4));
    }
  }
}
