// The importer `onnx`: a small model with a computed shape, and recorded models.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/shared_data.h"
#include "tests/traces/import/imported.h"
#include "traces/format/compressed_file.h"
#include "traces/import/onnx/model.h"
#include "traces/import/onnx/shapes.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

Bytes output(const OpGraph& g, std::string_view op) {
  return g.tensor(*g.outputs(*g.find(op)).begin()).size;
}

}  // namespace

TEST_SUITE("onnx") {
  // x [batch, 3, 16, 16] - conv 8 x 3 x 3 x 3 - relu - pool - reshape to [batch, -1] - fc 10 x 8
  TEST_CASE("shapes are inferred, through computed shapes, and work follows from them") {
    const Trace trace = imported(seed("onnx/small.onnx"), "");
    CHECK(trace.format == "onnx");
    const OpGraph& g = trace.graph;
    CHECK(g.num_ops() == 11);  // ten nodes and the input
    CHECK(output(g, "conv") == Bytes{8 * 16 * 16 * 4});
    CHECK(g.work(*g.find("conv")).flops == 2 * 8 * 16 * 16 * 3 * 3 * 3);
    CHECK(g.op(*g.find("conv")).persistent == Bytes{8 * 27 * 4 + 8 * 4});
    CHECK(output(g, "flat") == Bytes{8 * 4});
    CHECK(output(g, "fc") == Bytes{10 * 4});
    CHECK(g.work(*g.find("fc")).flops == 2 * 8 * 10);
    CHECK(g.kernels(*g.find("flat")).empty());
    CHECK(has_note(trace, "shapes of 10 of 10 values: 1 stated, 9 inferred"));
    CHECK(has_note(trace, "1 sides of inputs are open"));
    const OpGraph four = imported(seed("onnx/small.onnx"), "onnx", {{"batch", "4"}}).graph;
    CHECK(output(four, "fc") == Bytes{4 * 10 * 4});
    CHECK(four.work(*four.find("conv")).flops == 4 * g.work(*g.find("conv")).flops);
  }

  TEST_CASE("recorded models: all nodes, and the shapes that onnx inferred") {
    const auto data = shared_data();
    if (!data) return;
    const auto facts = nlohmann::json::parse(read_file((*data / "traces/facts.json").string()));
    for (const std::string model : {"resnet50", "gnmt_small", "transformer_small"}) {
      CAPTURE(model);
      const std::string name = "recorded/" + model + ".train.onnx.zst";
      TextFile file((*data / "traces" / name).string(), Content::any);
      const onnx::Model m = onnx::read_model(file);
      CHECK(m.ir_version == facts[name]["ir_version"]);
      CHECK(m.opset == facts[name]["opset"]);
      CHECK(m.nodes.size() == facts[name]["nodes"]);
      CHECK(m.inputs.size() == facts[name]["inputs"]);
      std::set<std::string> written;
      for (const onnx::Node& node : m.nodes)
        written.insert(node.outputs.begin(), node.outputs.end());
      std::size_t edges = 0;
      for (const onnx::Node& node : m.nodes)
        for (const std::string& input : node.inputs) edges += written.count(input);
      CHECK(edges == facts[name]["edges"]);
      // Ours, from the inputs alone, beside those that the file states.
      onnx::Tensors tensors;
      for (const onnx::Initializer& i : m.initializers) tensors[i.name] = i.info;
      for (const onnx::ValueInfo& i : m.inputs)
        tensors[i.name] = {.type = i.type, .shape = i.shape};
      for (const onnx::Node& node : m.nodes) {
        std::vector<const onnx::TensorInfo*> in;
        for (const std::string& input : node.inputs)
          in.push_back(tensors.contains(input) ? &tensors.at(input) : nullptr);
        auto out = onnx::infer(node, in, m.opset);
        for (std::size_t i = 0; i < out.size(); ++i) tensors[node.outputs[i]] = std::move(out[i]);
      }
      std::size_t same = 0, differ = 0, missing = 0, more = 0;
      std::set<std::string> stated;
      for (const onnx::ValueInfo& value : m.values) {
        const onnx::TensorInfo whole{.type = value.type, .shape = value.shape};
        if (!whole.elements() || !tensors.contains(value.name)) continue;
        stated.insert(value.name);
        const auto& ours = tensors.at(value.name);
        if (!ours.elements())
          ++missing;
        else if (*ours.shape == *value.shape)
          ++same;
        else
          ++differ;
      }
      for (const auto& [tensor, info] : tensors)
        more += written.contains(tensor) && info.elements() && !stated.contains(tensor) ? 1U : 0U;
      MESSAGE(model, ": ", same, " shapes as stated, ", missing, " not inferred, ", more,
              " inferred that the file does not state");
      CHECK(differ == 0);
      CHECK(20 * missing <= same);
    }
  }

  TEST_CASE("recorded models: ResNet-50 has its published weights and multiply-adds") {
    const auto data = shared_data();
    if (!data) return;
    const Trace trace =
        imported((*data / "traces/recorded/resnet50.train.onnx.zst").string(), "onnx");
    std::int64_t flops = 0;
    Bytes weights{};
    for (const OpId v : trace.graph.ops()) {
      flops += trace.graph.work(v).flops;
      weights += trace.graph.op(v).persistent;
    }
    // 25,557,032 parameters, and mean and variance of 26,560 channels, 4 bytes each.
    CHECK(weights == Bytes{(25'557'032 + 2 * 26'560) * 4});
    // 4.09e9 multiply-adds per image, a batch of 4; other ops add less than 2 %.
    CHECK(static_cast<double>(flops) > 2 * 4 * 4.08e9);
    CHECK(static_cast<double>(flops) < 2 * 4 * 4.17e9);
  }
}
