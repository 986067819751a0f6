// The importer `chakra` on two hand-written ranks and on public traces.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/error.h"
#include "tests/shared_data.h"
#include "tests/temporary_folder.h"
#include "tests/traces/import/imported.h"
#include "traces/import/chakra/nodes.h"

using namespace baechi;
using namespace baechi::testing;
using namespace std::chrono_literals;

TEST_SUITE("chakra") {
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
        {"Id": 4, "Name": "a", "NodeType": 4, "runtime": 1},
        {"Id": 5, "Name": "b", "NodeType": 4, "runtime": 1, "data_deps": [4, 9]}]})");
    const Trace trace = imported(folder.file("miss.json"), "chakra");
    CHECK(has_note(trace,
                   "warning: 1 dependencies on nodes that the file does not have are taken "
                   "as met; the first: node 5 waits for node 9"));
  }

  // Three ranks: all are in group "0", the first two in group "1".
  TEST_CASE("a group of some of the files' ranks has only these ranks") {
    const TemporaryFolder folder;
    for (const int rank : {0, 1, 2}) {
      const auto node = [](int id, const char* group) {
        return fmt::format(
            R"({{"id": {}, "name": "sum{}", "node_type": 7, "ctrl_deps": [], "data_deps": [], )"
            R"("duration_micros": 1, "comm_type": 0, "comm_size": 1024, "pg_name": "{}"}})",
            id, id, group);
      };
      write_file(folder.file(fmt::format("r{}.json", rank)),
                 fmt::format(R"({{"workload_graph": [{}{}]}})", node(1, "0"),
                             rank < 2 ? ", " + node(2, "1") : ""));
    }
    const OpGraph g = imported(folder.file("r0.json"), "chakra", {{"ranks", "r*.json"}}).graph;
    REQUIRE(g.collectives().size() == 2);
    std::map<std::uint32_t, std::uint32_t> ranks;  // by members
    for (const Collective& c : g.collectives()) ranks[c.members] = c.ranks;
    CHECK(ranks == std::map<std::uint32_t, std::uint32_t>{{2, 2}, {3, 3}});
  }

  // An all-gather of four ranks with 1000 bytes each has 4000; the group is known from the files, a
  // list or its size.
  TEST_CASE(
      "an all-gather's bytes are those of all ranks of its group, however the group is stated") {
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
    CHECK(untimed(R"("node_type": 4)").ops == 1);
    CHECK(untimed(R"("node_type": 4, "num_ops": 5)").ops == 0);
    CHECK(untimed(R"("node_type": 4, "duration_micros": 5)").ops == 0);
    CHECK(untimed(R"("node_type": 4, "is_cpu_op": true)").ops == 0);  // less than 1 us
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
      messages += ring.kind(ring.edge(e).src) == "Send" &&
                          ring.kind(ring.edge(e).dst) == "Receive" &&
                          ring.op(ring.edge(e).src).group != ring.op(ring.edge(e).dst).group
                      ? 1U
                      : 0U;
    CHECK(messages == 8 * 14);
  }
}
