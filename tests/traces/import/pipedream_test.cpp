#include <doctest/doctest.h>

#include "tests/shared_data.h"
#include "tests/small_graphs.h"
#include "tests/traces/import/imported.h"
#include "traces/format/trace_file.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;
namespace fs = std::filesystem;

TEST_SUITE("traces") {
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
}
