#include <nlohmann/json.hpp>

#include "tests/prelude.h"
#include "tests/traces/import/imported.h"

// The importer `chakra` on public traces.
TEST_SUITE_BEGIN("chakra");
TEST_CASE("the source of a recording names its schema or its GPU") {
  CHECK(imported(seed("chakra/two.0.et"), "").source == "Chakra execution trace 0.0.4");
  CHECK(imported(seed("kineto/rank0.json"), "").source == "PyTorch profiler (Kineto), GPU");
  const auto source = [](const char* text) {
    TextFile file("x.et", text, Content::any);
    return read_trace(file, "chakra").source;
  };
  CHECK(source(R"({"schema": "2", "workload_graph": [{"id": 1, "type": 4, "num_ops": 1}]})") ==
        "Chakra execution trace 2");
  CHECK(source(R"({"schema": 2, "workload_graph": [{"id": 1, "type": 4, "num_ops": 1}]})") ==
        "Chakra execution trace");
}

TEST_CASE("public traces: all nodes, and one all_reduce of four ranks") {
  const auto data = shared_data();
  if (!data) return;
  const std::string folder = (*data / "traces/public/astra-sim").string();
  const OpGraph four = imported(folder + "/all_reduce_4npus_1MB/all_reduce.0.et", "chakra",
                                {{"ranks", "all_reduce.*.et"}})
                           .graph;
  REQUIRE(four.collectives().size() == 1);
  CHECK(four.collectives()[CollectiveId{0}].members == 4);
  CHECK(four.collectives()[CollectiveId{0}].bytes == Bytes{1 << 20});
  const OpGraph ring = imported(folder + "/custom_ring_allreduce_8npus_1MB/custom_allreduce.0.et",
                                "chakra", {{"ranks", "custom_allreduce.*.et"}})
                           .graph;
  CHECK(ring.num_ops() == 8 * 35);
  std::size_t messages = 0;  // sends, each with its receive: 14 per rank, of 128 KiB
  for (const EdgeId e : ring.edges())
    messages += ring.kind(ring.edge(e).src) == "Send" && ring.kind(ring.edge(e).dst) == "Receive" &&
                        ring.op(ring.edge(e).src).group != ring.op(ring.edge(e).dst).group
                    ? 1U
                    : 0U;
  CHECK(messages == 8 * 14);
}

// The importer `tensorflow` on a small graph with costs and on a public one.

namespace {

const Op& op_named(const OpGraph& g, std::string_view name) { return g.op(*g.find(name)); }

Bytes output(const OpGraph& g, std::string_view name, std::size_t slot = 0) {
  return g.tensor(*(g.outputs(*g.find(name)).begin() + static_cast<std::ptrdiff_t>(slot))).size;
}

}  // namespace

TEST_SUITE_BEGIN("tensorflow");
// x, w - product - parts (two outputs) - sum; w and product are colocated
TEST_CASE("a graph without costs has the sizes in its attributes") {
  const OpGraph g = imported(seed("tensorflow/small.pbtxt"), "").graph;
  REQUIRE(g.num_ops() == 5);
  CHECK(g.kind(*g.find("product")) == "MatMul");
  CHECK(output(g, "w") == Bytes{8 * 4 * 4});
  CHECK(output(g, "x") == Bytes{16 * 8 * 2});  // halves
  CHECK(g.num_groups() == 1);
  CHECK(op_named(g, "w").group == op_named(g, "product").group);
  const OpGraph binary = imported(seed("tensorflow/small.pb"), "").graph;
  CHECK(binary.num_edges() == 1);
  // A SavedModel: version 1, and a meta graph with the graph.
  const auto field_2 = [](const std::string& bytes) {
    return std::string{'\x12', static_cast<char>(bytes.size() % 128 + 128),
                       static_cast<char>(bytes.size() / 128)} +
           bytes;
  };
  TextFile saved("saved_model.pb",
                 "\x08\x01" + field_2(field_2(read_file(seed("tensorflow/small.pb")))),
                 Content::any);
  CHECK(read_trace(saved, "").graph.num_ops() == binary.num_ops());
}

TEST_CASE("costs: times of kernels, allocated bytes, persistent and temporary memory") {
  const Trace trace = imported(seed("tensorflow/small.pbtxt"), "tensorflow",
                               {{"costs", seed("tensorflow/small.run_meta")}});
  const OpGraph& g = trace.graph;
  CHECK(op_named(g, "product").compute == 150us);  // two kernels; stream:7 has the same ones
  CHECK(op_named(g, "w").compute == 10us);         // 11 - 1
  CHECK(op_named(g, "product").temporary == Bytes{4608});
  CHECK(op_named(g, "w").persistent == Bytes{256});
  CHECK(g.tensor(*g.outputs(*g.find("w")).begin()).reference);  // the variable's own memory
  CHECK(output(g, "product") == Bytes{512});
  CHECK(output(g, "parts", 1) == Bytes{256});
  CHECK(has_note(trace, "costs: 5 of 5 records are of nodes of the graph"));
  const OpGraph whole = imported(seed("tensorflow/small.pbtxt"), "tensorflow",
                                 {{"costs", seed("tensorflow/small.run_meta")},
                                  {"times", "whole"},
                                  {"sizes", "requested"}})
                            .graph;
  CHECK(op_named(whole, "product").compute == 422us);  // 423 - 1
  CHECK(output(whole, "product") == Bytes{384});
}

TEST_CASE("a public graph and its RunMetadata, binary and text") {
  const auto data = shared_data();
  if (!data) return;
  const std::string folder = (*data / "traces/public/tensorflow").string();
  const Trace bytes =
      imported(folder + "/graph.pbtxt", "", {}).graph.num_ops() == 31
          ? imported(folder + "/graph.pbtxt", "tensorflow", {{"costs", folder + "/run_meta"}})
          : Trace{};
  REQUIRE(bytes.graph.num_ops() == 31);
  const OpGraph text =
      imported(folder + "/graph.pbtxt", "tensorflow", {{"costs", folder + "/run_meta.pbtxt"}})
          .graph;
  for (const OpId v : text.ops()) {
    CHECK(text.op(v).compute == bytes.graph.op(v).compute);
    CHECK(text.op(v).temporary == bytes.graph.op(v).temporary);
  }
  // run_meta.pbtxt: output 768 of Conv2D was 432 requested; 8704 bytes of workspace.
  CHECK(output(text, "Conv2D") == Bytes{768});
  CHECK(op_named(text, "Conv2D").temporary == Bytes{8704});
  CHECK(op_named(text, "DW2").persistent == Bytes{1280});
}
