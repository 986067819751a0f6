#include "sim/graph/analysis.h"
#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/format/trace_file.h"

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

namespace fs = std::filesystem;

TEST_SUITE_BEGIN("traces");
TEST_CASE("a PipeDream profile: forward ops, colocated backward ops, mirrored edges") {
  //  node1 (4 bytes) -> node2 (5 + 6 bytes)
  const std::string text =
      "node1 -- Conv2d(3, 64, kernel_size=(3, 3)) -- forward_compute_time=1.500, "
      "backward_compute_time=2.000, activation_size=4.0, parameter_size=8.000\r\n"
      "node2 -- LSTM(1 -- 2) -- forward_compute_time=0.5, backward_compute_time=0.25, "
      "activation_size=[5.0; 6.0], parameter_size=0.000 -- stage_id=1\n"
      "\tnode1 -- node2\n";
  const auto read = [&](const std::map<std::string, std::string>& o) {
    TextFile file("graph.txt", text);
    return read_trace(file, "", options("pipedream", o));
  };
  const Trace t = read({});
  const OpGraph& g = t.graph;
  REQUIRE(g.num_ops() == 4);
  const OpId one = *g.find("node1"), two = *g.find("node2");
  const OpId one_grad = *g.find("node1_grad"), two_grad = *g.find("node2_grad");
  CHECK(g.kind(one) == "Conv2d");
  CHECK(g.kind(two) == "LSTM");
  CHECK(g.op(one).compute == 1500us);
  CHECK(g.op(one_grad).compute == 2ms);
  CHECK(g.op(one).persistent == 24_B);  // weights, gradients, momentum
  CHECK(g.op(one_grad).forward == one);
  CHECK(g.op(one).group == g.op(one_grad).group);
  CHECK(g.op(one).group != g.op(two).group);
  // node1 -> node2 and node1_grad, node2 -> node2_grad, node2_grad -> node1_grad with 4 bytes
  CHECK(g.num_edges() == 4);
  CHECK(g.num_tensors() == 3);
  CHECK(g.tensor(*g.outputs(two).begin()).size == 11_B);
  CHECK(g.tensor(*g.outputs(two_grad).begin()).size == 4_B);
  const Trace inference = read({{"training", "false"}});
  CHECK(inference.graph.num_ops() == 2);
  CHECK(inference.graph.num_edges() == 1);
  CHECK(inference.graph.op(OpId{0}).persistent == 8_B);
  CHECK(read({{"parameter_copies", "4"}}).graph.op(OpId{0}).persistent == 32_B);
}

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
TEST_CASE("a workload of Tarnawski et al.: times by device type; sizes rounded up") {
  //  0 -> 2 with 19.2 bytes and 0 -> 1 with 10 bytes; 2 is the backward node of 0
  const std::string text = R"({"maxSizePerFPGA": 1e9, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [
      {"name": "x", "id": 7, "supportedOnFpga": 1, "cpuLatency": 1.5, "fpgaLatency": 0.14,
       "isBackwardNode": 0, "colorClass": 3, "layerId": 1, "size": 100.5},
      {"name": "x", "id": 8, "supportedOnFpga": false, "cpuLatency": 2, "fpgaLatency": 0},
      {"name": "xgrad", "id": 9, "cpuLatency": 0, "fpgaLatency": 0, "isBackwardNode": true,
       "colorClass": 3}],
      "edges": [{"sourceId": 7, "destId": 9, "cost": 0.002, "size": 19.2},
                {"sourceId": 7, "destId": 8, "cost": 0.001, "size": 10}]})";
  const auto read = [&](const std::map<std::string, std::string>& o) {
    TextFile file("m.json", text);
    return read_trace(file, "", options("dnn_partitioning", o));
  };
  const Trace t = read({});
  const OpGraph& g = t.graph;
  CHECK(t.format == "dnn_partitioning");
  CHECK(g.device_kinds() == std::vector<std::string>{"accelerator", "cpu"});
  CHECK(g.op(OpId{0}).compute == 140us);
  CHECK(*g.compute(OpId{0}, 1) == 1500us);
  CHECK(g.op(OpId{0}).persistent == 101_B);
  CHECK_FALSE(g.compute(OpId{1}, 0));
  CHECK(g.name(OpId{1}) == "x#8");
  CHECK(g.op(OpId{2}).forward == OpId{0});
  CHECK(g.op(OpId{2}).phase == Phase::backward);
  CHECK(g.op(OpId{2}).group == g.op(OpId{0}).group);
  CHECK(g.op(OpId{1}).group == no_group);
  REQUIRE(g.num_tensors() == 1);
  CHECK(g.tensor(TensorId{0}).size == 20_B);
  CHECK_FALSE(g.measured_transfer(TensorId{0}));
  CHECK(t.cluster->accelerators == 2);
  CHECK(t.cluster->memory == Bytes{1'000'000'000});
  CHECK(t.cluster->transfer[TensorId{0}] == 2us);
  CHECK(t.notes.size() == 3);  // several sizes, several costs, one renamed
  CHECK(*read({{"transfers", "measured"}}).graph.measured_transfer(TensorId{0}) == 2us);
  CHECK(
      *read({{"transfers", "measured"}, {"cost_unit", "s"}}).graph.measured_transfer(TensorId{0}) ==
      2ms);
  CHECK_THROWS_WITH_AS(read({{"transfer", "link"}}),
                       "dnn_partitioning has no option 'transfer' (did you mean 'transfers'?) "
                       "(options: transfers, cost_unit, backward, names)",
                       InputError);
}

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

TEST_CASE("a backward pass that is a copy of the forward pass is mirrored, unless as_given") {
  //   a -10 B-> b -20 B-> c   and   agrad -11 B-> bgrad -21 B-> cgrad
  const std::string text = R"({"nodes": [
      {"name": "a", "id": 1, "cpuLatency": 1, "fpgaLatency": 1},
      {"name": "b", "id": 2, "cpuLatency": 1, "fpgaLatency": 1},
      {"name": "c", "id": 3, "cpuLatency": 1, "fpgaLatency": 1},
      {"name": "agrad", "id": 4, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": true},
      {"name": "bgrad", "id": 5, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": true},
      {"name": "cgrad", "id": 6, "cpuLatency": 1, "fpgaLatency": 1, "isBackwardNode": true}],
      "edges": [{"sourceId": 1, "destId": 2, "cost": 0.001, "size": 10},
                {"sourceId": 2, "destId": 3, "cost": 0.002, "size": 20},
                {"sourceId": 4, "destId": 5, "cost": 0.003, "size": 11},
                {"sourceId": 5, "destId": 6, "cost": 0.004, "size": 21}]})";
  const auto edges = [&](const char* backward) {
    TextFile file("m.json", text);
    const Trace t = read_trace(file, "", options("dnn_partitioning", {{"backward", backward}}));
    std::set<std::string> all;
    for (const EdgeId e : t.graph.edges()) {
      const Edge& edge = t.graph.edge(e);
      all.insert(fmt::format("{} {} {}", t.graph.name(edge.src), t.graph.name(edge.dst),
                             t.graph.tensor(edge.tensor).control
                                 ? "control"
                                 : to_text(t.cluster->transfer[edge.tensor])));
    }
    CHECK(t.notes.empty() == (std::string(backward) == "as_given"));
    return all;
  };
  CHECK(edges("as_given") == std::set<std::string>{"a b 1.000 us", "b c 2.000 us",
                                                   "agrad bgrad 3.000 us", "bgrad cgrad 4.000 us"});
  CHECK(edges("mirrored") == std::set<std::string>{"a b 1.000 us", "b c 2.000 us",
                                                   "bgrad agrad 3.000 us", "cgrad bgrad 4.000 us",
                                                   "a agrad 1.000 us", "b bgrad 2.000 us",
                                                   "c cgrad control"});
}
