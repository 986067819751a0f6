#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/format/json.h"
#include "traces/format/trace_file.h"
#include "traces/import/piper_file.h"

// The importers `piper` and `doppler` on hand-written examples and on published files.

namespace {

Duration total(const OpGraph& graph) {
  Duration sum{};
  for (const OpId v : graph.ops()) sum += graph.op(v).compute;
  return sum;
}

}  // namespace

TEST_SUITE_BEGIN("planners");
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
  // "in" also sends 7000 B to a third node: an op has one tensor, of the larger size.
  std::string text = read_file(seed("piper/two.json"));
  for (std::size_t at = 0; (at = text.find(R"({"1": 0.0})", at)) != text.npos; ++at)
    text.insert(at + 1, R"("2": 0.0, )");
  text.insert(text.find("{\"id\": 1"),
              R"({"id": 2, "name": "third", "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 1,
                    "parameterSize": 4, "memoryUsageA": 1, "memoryUsageB": 8, "syncTimeFw": {"0": 0},
                    "syncTimeBw": {}}]}}, )");
  text.insert(text.rfind("]}"), R"(, {"sourceId": 0, "destId": 2, "communicationCost": 7000.0})");
  TextFile file("three.json", text);
  const Trace three = read_trace(file);
  CHECK(has_note(three, "1 ops have edges of different sizes: the largest is used"));
  CHECK(three.graph.num_edges() == 2);
  CHECK(three.graph.tensor(TensorId{0}).size == Bytes{7000});
  CHECK_THROWS_WITH_AS(imported(seed("piper/two.json"), "piper", {{"degree", "2"}}),
                       doctest::Contains("node 0 has no mode of degree 2"), InputError);
  CHECK(
      imported(seed("piper/two.json"), "piper", {{"time_unit", "ms"}}).graph.op(OpId{0}).compute ==
      2us);
}

TEST_CASE("a planner reads each mode's costs and the traffic of its edges") {
  std::string text = read_file(seed("piper/two.json"));
  text.replace(text.find(R"({"1": 0.0})"), 10, R"({"1": 32})");
  JsonFile json("two.json", text);
  const PiperFile file = read_piper_file(json);
  const PiperMode &sends = file.nodes[0].modes.at(1)[0], &reads = file.nodes[1].modes.at(2)[0];
  CHECK(std::vector{sends.time, sends.weights, sends.per_batch, sends.stays} ==
        std::vector{0.002, 400.0, 100.0, 800.0});
  CHECK(sends.out == std::vector{32.0});
  CHECK(reads.in == std::vector{64.0});
  CHECK((file.micro_batches == 8 && file.bandwidth == 1e9));
}

TEST_CASE("Piper's published files") {
  const std::filesystem::path data = testing::published_data();
  const std::map<std::string, std::size_t> nodes{{"bert32a100", 37}, {"gnmt", 78}, {"resnet", 177}};
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

namespace fs = std::filesystem;

TEST_SUITE_BEGIN("traces");
TEST_CASE("every published PipeDream profile imports with the nodes and edges its file lists") {
  const std::filesystem::path data = testing::published_data();
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(data / "pipedream")) {
    if (entry.path().extension() != ".zst") continue;
    CAPTURE(entry.path().string());
    const std::string text = read_file(entry.path().string());
    const std::size_t nodes = occurrences(text, "forward_compute_time=");
    const std::size_t edges = occurrences("\n" + text, "\n\t");
    const Trace t = read_trace(entry.path().string());
    CHECK(t.format == "pipedream");
    CHECK(t.graph.num_ops() == 2 * nodes);
    CHECK(t.graph.num_edges() == 2 * edges + nodes);
    CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
    ++files;
  }
  CHECK(files == 14);
}

namespace fs = std::filesystem;

TEST_SUITE_BEGIN("traces");
TEST_CASE("every published MSR workload imports with the nodes and edges its file lists") {
  const std::filesystem::path data = testing::published_data();
  std::size_t files = 0;
  for (const char* folder : {"latency-inputs", "throughput-inputs"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(data / "msr-dnn-partitioning" / folder)) {
      if (entry.path().extension() != ".zst") continue;
      CAPTURE(entry.path().string());
      const std::string text = read_file(entry.path().string());
      const Trace t = read_trace(entry.path().string());
      CHECK(t.format == "dnn_partitioning");
      CHECK(t.graph.num_ops() == occurrences(text, "\"fpgaLatency\""));
      CHECK(t.cluster->accelerators >= 3);
      std::size_t backward = 0, linked = 0;
      for (const OpId v : t.graph.ops()) {
        backward += t.graph.op(v).phase == Phase::backward;
        linked += t.graph.op(v).forward != no_op;
      }
      // In the layer graphs the importer lets each backward op read from its forward op.
      CHECK(t.graph.num_edges() == occurrences(text, "\"destId\"") + linked);
      CHECK((backward > 0) == entry.path().string().ends_with("_training.json.zst"));
      const bool seconds =
          entry.path().string().find("throughput-inputs/LayerGraphs") != std::string::npos;
      CHECK(seconds == std::ranges::any_of(t.notes, [](const std::string& note) {
              return note.find("seconds") != std::string::npos;
            }));
      CHECK(trace_json(parse(trace_json(t))) == trace_json(t));
      ++files;
    }
  }
  CHECK(files == 24);
  // Nodes and edges as the authors count them.
  const auto bert = read_trace((data / "msr-dnn-partitioning/throughput-inputs/OperatorGraphs/"
                                       "bert_L-12_training.json.zst")
                                   .string());
  CHECK(bert.graph.num_ops() == 2012);
  CHECK(bert.graph.num_edges() == 2751);
}
