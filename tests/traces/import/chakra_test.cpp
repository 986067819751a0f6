#include <nlohmann/json.hpp>

#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/import/chakra/nodes.h"

// The importer `chakra` on two hand-written ranks and on public traces.
TEST_SUITE_BEGIN("chakra");
// load - mm - grad - all_reduce - send or receive; the all_reduce - update. Other dependencies
// are implied, but mm reads what load loads.
TEST_CASE("a single rank keeps recorded times; data dependencies are tensors") {
  const Trace trace = imported(seed("chakra/two.0.et"), "", {});
  CHECK(trace.format == "chakra");
  const OpGraph& g = trace.graph;
  REQUIRE(g.num_ops() == 6);
  CHECK(g.name(OpId{1}) == "mm.2");
  CHECK(g.op(OpId{1}).compute == 100us);
  CHECK(g.collectives().empty());
  CHECK(g.work(OpId{4}).flops + g.work(OpId{5}).flops == 1'000'000);
  // mm's tensor 7, which grad reads, has 256 elements of 4 bytes.
  REQUIRE(g.num_edges() >= 1);
  Bytes bytes_read{};
  for (const EdgeId e : g.edges())
    if (g.edge(e).src == OpId{1}) bytes_read += g.tensor(g.edge(e).tensor).size;
  CHECK(bytes_read == Bytes{1024});
}

TEST_CASE("two ranks: the all_reduce is one collective; the receive reads what the send writes") {
  const Trace trace = imported(seed("chakra/two.0.et"), "chakra", {{"ranks", "two.*.et"}});
  const OpGraph& g = trace.graph;
  CHECK(g.num_ops() == 12);
  REQUIRE(g.collectives().size() == 1);
  const Collective& sum = g.collectives()[CollectiveId{0}];
  CHECK(sum.kind == CollectiveKind::all_reduce);
  CHECK(sum.bytes == Bytes{1 << 20});
  CHECK(sum.members == 2);
  const OpId receive = *g.find("rank1/Receive.5");
  Bytes received{};
  for (const EdgeId e : g.in_edges(receive))
    if (g.name(g.edge(e).src) == "rank0/Send.5") received = g.tensor(g.edge(e).tensor).size;
  CHECK(received == Bytes{2048});
}

TEST_CASE("a dependency on a node that the file does not have is a warning with both ids") {
  const TemporaryFolder folder;
  folder.write("miss.json", R"({"schema": "1.0", "workload_graph": [
        {"Id": 5, "Name": "b", "NodeType": 4, "runtime": 1, "data_deps": [4, 9]},
        {"Id": 4, "Name": "a", "NodeType": 4, "runtime": 10000000000}]})");
  const Trace trace = imported(folder.file("miss.json"), "chakra");
  CHECK(has_note(trace,
                 "warning: 1 dependencies on nodes that the file does not have are taken "
                 "as met; the first: node 5 waits for node 9"));
  CHECK(trace.graph.name(OpId{0}) == "a.4");
  CHECK(trace.graph.op(OpId{0}).compute == 10'000s);
}

// Three ranks: all are in group "0", which takes 1024 bytes, the first two before in group "1".
TEST_CASE("a group of some of the files' ranks has only these ranks") {
  const TemporaryFolder folder;
  for (const int rank : {0, 1, 2}) {
    const auto node = [](int id, const char* group) {
      return fmt::format(
          R"({{"id": {}, "name": "sum{}", "node_type": 7, "ctrl_deps": [], "data_deps": [], )"
          R"("duration_micros": 1, "comm_type": 0, "comm_size": {}, "pg_name": "{}"}})",
          id, id, *group == '0' ? 1024 : 2048, group);
    };
    write_file(folder.file(fmt::format("r{}.json", rank)),
               fmt::format(R"({{"workload_graph": [{}{}]}})", rank < 2 ? node(1, "1") + ", " : "",
                           node(2, "0")));
  }
  const OpGraph g = imported(folder.file("r0.json"), "chakra", {{"ranks", "r*.json"}}).graph;
  REQUIRE(g.collectives().size() == 2);
  std::map<std::uint32_t, std::uint32_t> ranks;  // by members
  for (const Collective& c : g.collectives()) {
    ranks[c.members] = c.ranks;
    CHECK(c.bytes == (c.members == 3 ? Bytes{1024} : Bytes{2048}));
  }
  CHECK(ranks == std::map<std::uint32_t, std::uint32_t>{{2, 2}, {3, 3}});
}

// An all-gather of four ranks with 1000 bytes each has 4000; the group is known from the files, a
// list or its size.
TEST_CASE("an all-gather's bytes are those of all ranks of its group") {
  const auto gathered = [](const std::string& keys,
                           std::map<std::string, Options::Value> options = {}) {
    TextFile file("x.json", R"({"workload_graph": [{"id": 1, "name": "g", "node_type": 7, )"
                            R"("comm_type": 2, "comm_size": 1000, )" +
                                keys + R"("pg_name": "0"}]})");
    const OpGraph g = read_trace(file, "chakra", Options("chakra", std::move(options))).graph;
    REQUIRE(g.collectives().size() == 1);
    return g.collectives()[CollectiveId{0}];
  };
  for (const char* keys :
       {R"("group_size": 4, )", R"("ranks": [0, 2, 4, 6], )", R"("ranks": "[0, 2, 4, 6]", )"}) {
    CAPTURE(keys);
    CHECK(gathered(keys).ranks == 4);
    CHECK(gathered(keys).bytes == Bytes{4000});
  }
  CHECK(gathered("", {{"world", {"8", ""}}}).bytes == Bytes{8000});
  CHECK(gathered(R"("group_size": 4, )", {{"world", {"8", ""}}}).ranks == 4);
}

TEST_CASE("ops without a duration and work are rejected, except on the host") {
  const auto untimed = [](const std::string& node) {
    TextFile file("x.json", R"({"workload_graph": [{"id": 1, "name": "g", )" + node + "}]}");
    return read_trace(file, "chakra").untimed;
  };
  CHECK(untimed(R"("node_type": 7, "comm_type": 0, "comm_size": 8)").first ==
        "g 'g.1': its partners are in other files");
  CHECK(untimed(R"("node_type": 7, "comm_type": 0)").ops == 1);
  CHECK(untimed(R"("node_type": 7, "comm_size": 8)").ops == 1);
  CHECK(untimed(R"("node_type": 4)").ops == 1);
  CHECK(untimed(R"("node_type": 4, "num_ops": 5)").ops == 0);
  CHECK(untimed(R"("node_type": 4, "duration_micros": 5)").ops == 0);
  CHECK(untimed(R"("node_type": 4, "is_cpu_op": true)").ops == 0);  // less than 1 us
}

TEST_CASE("what runs on the host is a lane of its own beside a GPU") {
  const auto lanes = [](const char* second_on_host) {
    TextFile file("x.json", fmt::format(
                                R"({{"workload_graph": [{{"id": 1, "name": "h", "node_type": 4,
          "duration_micros": 5, "is_cpu_op": true}}, {{"id": 2, "name": "k", "node_type": 4,
          "duration_micros": 5, "is_cpu_op": {}}}]}})",
                                second_on_host));
    const OpGraph g = read_trace(file, "chakra").graph;
    return fmt::format("{} {}", g.lanes()[index(g.lane(OpId{0}))],
                       g.lanes()[index(g.lane(OpId{1}))]);
  };
  CHECK(lanes("false") == "host compute");
  CHECK(lanes("true") == "compute compute");
}

// A tensor: id, storage, offset, elements, bytes of an element, device.
TEST_CASE("what has no size of 0 to 2^50 bytes is no tensor") {
  const auto tensors = [](const std::string& list) {
    const auto delimited = [](const std::string& bytes) {
      return static_cast<char>(bytes.size()) + bytes;
    };
    const std::string text = "\x0a" + delimited(list),  // field 1 of the node's field 8
        bytes = delimited("") + delimited("\x08\x01\x18\x04\x42" + delimited(text));
    TextFile file("x.et", bytes, Content::any);
    return chakra::read_nodes(file).nodes.front().inputs;
  };
  using Tensors = std::vector<chakra::Tensor>;
  constexpr std::int64_t most = std::int64_t{1} << 50;
  CHECK(tensors("[[4, 5, 0, 64, 64, 'c'], 1, [6, 5, 0, 0, 4, 'c']]") == Tensors{{4, 4096}, {6, 0}});
  CHECK(tensors(fmt::format("[[4, 5, 0, {}, 4, 'c']]", most / 4)) == Tensors{{4, most}});
  for (const std::string none :
       {"7, 5, 0, 64", "7, 5, 0, 64, 4, 1", "7, 5, 0, -1, 4", "7, 5, 0, 64, 0", "7, 5, 0, 64, 65",
        "7, 5, 0, 281474976710657, 4"}) {
    CAPTURE(none);
    CHECK(tensors("[[4, 5, 0, 64, 4, 'c'], [" + none + ", 'c']]") == Tensors{{4, 256}});
  }
}

TEST_CASE("the feeder's JSON is read with any spelling of its keys") {
  const OpGraph g = imported(seed("chakra/two.json"), "").graph;
  REQUIRE(g.num_ops() == 2);
  CHECK(g.op(OpId{0}).compute == 318us);
  CHECK(g.kind(OpId{1}) == "k");
  CHECK(g.num_edges() == 1);
}

TEST_CASE("implied control dependencies are removed, data dependencies are kept") {
  using chakra::Wait;
  std::vector<Wait> waits{{0, 1, -1}, {1, 2, -1}, {0, 2, -1}, {0, 3, 8}, {2, 3, -1}, {1, 3, -1}};
  CHECK(chakra::erase_implied(waits, 4) == 2);  // 0 - 2 and 1 - 3
  CHECK(waits.size() == 4);
  std::vector<Wait> cycle{{0, 1, -1}, {1, 0, -1}};
  CHECK(chakra::erase_implied(cycle, 2) == 0);
  CHECK(chakra::erase_backward(cycle, 2) == 1);
  CHECK(cycle.front().before == 0);
  CHECK(chakra::erase_backward(waits, 4) == 0);  // no cycle
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
