#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/shared_data.h"
#include "tests/small_graphs.h"
#include "tests/traces/import/imported.h"
#include "traces/format/trace_file.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;
namespace fs = std::filesystem;

TEST_SUITE("traces") {
  TEST_CASE(
      "a workload of Tarnawski et al.: times by device type; sizes rounded up, the largest per "
      "node") {
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
    CHECK(*read({{"transfers", "measured"}, {"cost_unit", "s"}})
               .graph.measured_transfer(TensorId{0}) == 2ms);
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
                                                     "agrad bgrad 3.000 us",
                                                     "bgrad cgrad 4.000 us"});
    CHECK(edges("mirrored") == std::set<std::string>{"a b 1.000 us", "b c 2.000 us",
                                                     "bgrad agrad 3.000 us", "cgrad bgrad 4.000 us",
                                                     "a agrad 1.000 us", "b bgrad 2.000 us",
                                                     "c cgrad control"});
  }
}
