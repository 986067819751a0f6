// The importer `onnx` on a small model with a computed shape and on recorded models.

#include <nlohmann/json.hpp>

#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/import/onnx/model.h"

namespace {

using Attributes = std::map<std::string, onnx::Attribute, std::less<>>;
using Infos = std::vector<const onnx::TensorInfo*>;

onnx::TensorInfo of_type(int type, onnx::Shape shape) {
  return {.type = static_cast<onnx::ElementType>(type), .shape = std::move(shape)};
}
onnx::TensorInfo floats(onnx::Shape shape) { return of_type(1, std::move(shape)); }
/// An integer tensor of known elements.
onnx::TensorInfo known(onnx::Shape shape, std::vector<double> values) {
  return {.type = onnx::ElementType::int64, .shape = std::move(shape), .values = std::move(values)};
}
onnx::Attribute ints(std::vector<std::int64_t> numbers) { return {.ints = std::move(numbers)}; }

onnx::Node node_of(const std::string& op, const Attributes& attributes, const Infos& in) {
  onnx::Node node{.op_type = op, .outputs = {"y", "y1", "y2"}, .attributes = attributes};
  for (const auto* info : in) node.inputs.emplace_back(info == nullptr ? "" : "x");
  return node;
}
/// The inferred outputs of the operator.
onnx::TensorInfo written(const std::string& op, const Attributes& attributes, const Infos& in,
                         std::size_t which = 0, std::int64_t opset = 17) {
  return onnx::infer(node_of(op, attributes, in), in, opset).at(which);
}
std::optional<std::int64_t> flops(const std::string& op, const Attributes& attributes,
                                  const Infos& in) {
  const auto y = written(op, attributes, in);
  const auto work = onnx::work_of(node_of(op, attributes, in), in, {&y});
  return work ? std::optional(work->flops) : std::nullopt;
}

/// Fields of a protocol buffer: a number below 128, and a text or message below 16 KiB.
std::string number(int field, int n) {
  return {static_cast<char>(field * 8), static_cast<char>(n)};
}
std::string text(int field, const std::string& value) {
  return static_cast<char>(field * 8 + 2) +
         std::string{static_cast<char>(value.size() % 128 + 128),
                     static_cast<char>(value.size() / 128)} +
         value;
}

Bytes output_of(const OpGraph& g, std::string_view op) {
  return g.tensor(*g.outputs(*g.find(op)).begin()).size;
}

}  // namespace

TEST_SUITE("onnx") {
  // x [batch, 3, 16, 16] - conv 8 x 3 x 3 x 3 - relu - pool - reshape to [batch, -1] - fc 10 x 8
  TEST_CASE("shapes are inferred through computed shapes, and give the work") {
    const Trace trace = imported(seed("onnx/small.onnx"), "");
    CHECK(trace.format == "onnx");
    const OpGraph& g = trace.graph;
    CHECK(g.num_ops() == 11);  // ten nodes and the input
    CHECK(output_of(g, "conv") == Bytes{8 * 16 * 16 * 4});
    CHECK(g.work(*g.find("conv")).flops == 2 * 8 * 16 * 16 * 3 * 3 * 3);
    CHECK(g.op(*g.find("conv")).persistent == Bytes{8 * 27 * 4 + 8 * 4});
    CHECK(output_of(g, "flat") == Bytes{8 * 4});
    CHECK(output_of(g, "fc") == Bytes{10 * 4});
    CHECK(g.work(*g.find("fc")).flops == 2 * 8 * 10);
    CHECK(g.kernels(*g.find("flat")).empty());
    CHECK(has_note(trace, "shapes of 10 of 10 values: 1 stated, 9 inferred"));
    CHECK(has_note(trace, "1 dimensions of inputs are dynamic"));
    const OpGraph four = imported(seed("onnx/small.onnx"), "onnx", {{"batch", "4"}}).graph;
    CHECK(output_of(four, "fc") == Bytes{4 * 10 * 4});
    CHECK(four.work(*four.find("conv")).flops == 4 * g.work(*g.find("conv")).flops);
    // Traffic of filters and bias does not depend on the batch; that of inputs and outputs does.
    const OpWork one_conv = g.work(*g.find("conv")), four_conv = four.work(*four.find("conv"));
    CHECK(one_conv.weights == Bytes{8 * 27 * 4 + 8 * 4});
    CHECK(four_conv.weights == one_conv.weights);
    CHECK(four_conv.traffic - four_conv.weights == 4 * (one_conv.traffic - one_conv.weights));
  }

  TEST_CASE("recorded models: all nodes, and the shapes that the package onnx infers") {
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
      // Shapes inferred from the inputs alone, against those in the file.
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

  TEST_CASE("elements of 4 and 2 bits are packed") {
    // uint4, int4, float4e2m1; uint2, int2; float8e5m2; int8
    for (const auto& [type, bytes] :
         {std::pair{21, 3}, {22, 3}, {23, 3}, {25, 2}, {26, 2}, {19, 5}, {3, 5}})
      CHECK(of_type(type, {5}).bytes() == bytes);
    CHECK(of_type(15, {5}).bytes() == 5 * 16);  // complex128
    CHECK_FALSE(of_type(0, {5}).bytes());       // no type
    CHECK_FALSE(onnx::TensorInfo{.type = floats({}).type}.bytes());
  }

  TEST_CASE("types: integer matmuls give 32 bits, quantisation gives 8") {
    const auto a = of_type(2, {4, 6}), b = of_type(2, {6, 8}), scale = floats({});
    CHECK(written("MatMulInteger", {}, {&a, &b}).bytes() == 4 * 8 * 4);
    const auto x = floats({4, 6});
    CHECK(written("QuantizeLinear", {}, {&x, &scale}).bytes() == 4 * 6);
    CHECK(written("DynamicQuantizeLinear", {}, {&x}).bytes() == 4 * 6);
    CHECK(written("DequantizeLinear", {}, {&a, &scale}).bytes() == 4 * 6 * 4);
  }

  // A pool of 2, stride 2, padding 1 on length 3: windows begin at -1, 1 and 3; the last one, from
  // rounding up, is all padding.
  TEST_CASE("shapes: windows rounded up, transposed convolutions, statistics, layouts") {
    using onnx::Shape;
    const auto image = floats({1, 6, 3, 3});
    CHECK(written("MaxPool",
                  {{"kernel_shape", ints({2, 2})},
                   {"strides", ints({2, 2})},
                   {"pads", ints({1, 1, 1, 1})},
                   {"ceil_mode", {.i = 1}}},
                  {&image})
              .shape == Shape{1, 6, 2, 2});
    const auto filter = floats({6, 4, 3, 3});
    CHECK(written("ConvTranspose", {{"strides", ints({2, 2})}, {"auto_pad", {.s = "SAME_UPPER"}}},
                  {&image, &filter})
              .shape == Shape{1, 4, 6, 6});
    CHECK(written("ConvTranspose", {{"strides", ints({2, 2})}, {"output_shape", ints({8, 8})}},
                  {&image, &filter})
              .shape == Shape{1, 4, 8, 8});
    // (3 - 1) x 2 + 1 + (3 - 1) x 2 + 1 - 1 - 0, and with dilation 1 two less, and 0 + 2 off.
    CHECK(written("ConvTranspose",
                  {{"strides", ints({2, 2})},
                   {"dilations", ints({2, 1})},
                   {"output_padding", ints({1, 1})},
                   {"pads", ints({1, 0, 0, 2})}},
                  {&image, &filter})
              .shape == Shape{1, 4, 9, 6});
    const auto x = floats({2, 5, 16}), gamma = floats({16}), r = floats({1, 32, 8});
    CHECK(written("LayerNormalization", {}, {&x, &gamma}, 1).shape == Shape{2, 5, 1});
    const auto w = floats({1, 32, 16});
    CHECK(written("LSTM", {{"layout", {.i = 1}}}, {&x, &w, &r}, 1).shape == Shape{2, 1, 8});
    // -Shape(x) is not Shape(x)
    auto sides = of_type(7, {2});
    sides.values = {{2, 3}};
    CHECK(written("Neg", {}, {&sides}).values == std::vector<double>{-2, -3});
    CHECK_FALSE(written("Sign", {}, {&sides}).values);
  }

  // PyTorch's export of x.expand(2, -1, -1) and of the windows of shifted-window attention.
  TEST_CASE("elements of small tensors are folded for any rank: Where, views, Concat") {
    using onnx::Shape;
    using Elements = std::vector<double>;
    const auto asked = known({3}, {2, -1, -1}), minus = known({1}, {-1}), ones = known({1}, {1});
    const auto unset = written("Equal", {}, {&asked, &minus});
    CHECK(unset.type == onnx::ElementType::boolean);
    CHECK(unset.values == Elements{0, 1, 1});
    const auto sides = written("Where", {}, {&unset, &ones, &asked});
    CHECK(sides.values == Elements{2, 1, 1});
    const auto token = floats({1, 1, 64});
    CHECK(written("Expand", {}, {&token, &sides}).shape == Shape{2, 1, 64});
    // [[1 2] [3 4] [5 6]], its rows from the last to the first, then its columns as rows.
    const auto rows = known({3, 2}, {1, 2, 3, 4, 5, 6});
    const auto first = known({1}, {-1}), end = known({1}, {-4}), zero = known({1}, {0});
    const auto turned = written("Slice", {}, {&rows, &first, &end, &zero, &minus});
    CHECK(turned.shape == Shape{3, 2});
    CHECK(turned.values == Elements{5, 6, 3, 4, 1, 2});
    CHECK(written("Transpose", {{"perm", ints({1, 0})}}, {&turned}).values ==
          Elements{5, 3, 1, 6, 4, 2});
    CHECK(written("Concat", {{"axis", {.i = 1}}}, {&rows, &rows}).values ==
          Elements{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6});
    CHECK(written("Gather", {{"axis", {.i = 1}}}, {&rows, &minus}).values == Elements{2, 4, 6});
    const auto seven = known({}, {7}), minus_three = known({}, {-3});
    CHECK(written("Mod", {}, {&minus_three, &seven}).values == Elements{4});  // the sign of 7
    CHECK(written("Div", {}, {&seven, &minus_three}).values == Elements{-2});
    const auto twice = known({2}, {1, 2});
    CHECK(written("Tile", {}, {&rows, &twice}).values ==
          Elements{1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6});
  }

  // x [2, 4] times a Constant [4, 8], as some exporters write weights.
  TEST_CASE("a Constant node of floats is a weight of the node that reads it") {
    const std::string matrix =
        number(1, 4) + number(1, 8) + number(2, 1) + text(9, std::string(128, '\0'));
    const std::string constant =
        text(2, "w") + text(4, "Constant") + text(5, text(1, "value") + text(5, matrix));
    const std::string product = text(1, "x") + text(1, "w") + text(2, "y") + text(4, "MatMul");
    const std::string sides = text(1, number(1, 2)) + text(1, number(1, 4));
    const std::string x = text(1, "x") + text(2, text(1, number(1, 1) + text(2, sides)));
    TextFile file("c.onnx",
                  number(1, 8) + text(8, number(2, 17)) +
                      text(7, text(1, constant) + text(1, product) + text(11, x)),
                  Content::any);
    const OpGraph g = read_trace(file, "onnx").graph;
    REQUIRE(g.num_ops() == 2);  // x and the matmul
    CHECK(g.op(OpId{1}).persistent == Bytes{4 * 8 * 4});
    CHECK(g.work(OpId{1}).flops == 2 * 2 * 8 * 4);
  }

  TEST_CASE("reductions without axes are over all axes, or none with noop_with_empty_axes") {
    const auto x = floats({2, 3});
    auto none = known({0}, {});
    CHECK(written("ReduceSum", {}, {&x, &none}).shape == onnx::Shape{1, 1});
    CHECK(written("ReduceSum", {{"noop_with_empty_axes", {.i = 1}}}, {&x, &none}).shape ==
          onnx::Shape{2, 3});
    CHECK(written("ReduceSum", {{"noop_with_empty_axes", {.i = 1}}}, {&x}).shape ==
          onnx::Shape{2, 3});
  }

  // A class token before 16 patches of 64 numbers, for 2 images; 64 windows of 7 x 7 pixels.
  TEST_CASE("PyTorch's exports of expand and of windows have known work") {
    const auto data = shared_data();
    if (!data) return;
    for (const auto& [name, work] :
         {std::pair<std::string, std::int64_t>{"p_expand", 2 * 2 * 17 * 64 * 64},
          {"p_windows", 2 * 64 * 49 * 64 * 64}}) {
      CAPTURE(name);
      const Trace trace = imported((*data / "checks/inputs" / (name + ".onnx")).string(), "");
      CHECK(trace.untimed.ops == 0);
      std::int64_t flops = 0;
      for (const OpId v : trace.graph.ops())
        if (trace.graph.kind(v) == "MatMul") flops += trace.graph.work(v).flops;
      CHECK(flops == work);
    }
  }

  // Reshape to a shape given by an input: unknown, and so is its reader's work.
  TEST_CASE("a model with ops of unknown work is rejected unless the user accepts it") {
    Trace trace = imported(seed("onnx/small.onnx"), "");
    trace.untimed.refuse("small.onnx", 11);  // all ops have known work: no message
    trace.untimed.add("MatMul", "fc", "a shape is not known");
    trace.untimed.add("Relu", "relu", "a shape is not known");
    trace.untimed.instead = "shapes";
    CHECK_THROWS_WITH_AS(
        trace.untimed.refuse("small.onnx", 11),
        "small.onnx: 2 of 11 ops have neither a time nor known work, so the step time would be too "
        "short; the first is MatMul 'fc': a shape is not known; give shapes, or count these ops as "
        "zero: "
        "option untimed=zero of the importer",
        InputError);
    CHECK(imported(seed("onnx/small.onnx"), "onnx", {{"untimed", "zero"}}).untimed.accepted);
    const auto x = floats({2, 3}), empty = floats({0, 3});
    const onnx::TensorInfo unknown;
    CHECK_FALSE(onnx::work_of({.op_type = "Relu"}, {&unknown}, {&unknown}));
    CHECK(onnx::work_of({.op_type = "Relu"}, {&empty}, {&empty}));  // an op without work is known
    CHECK(onnx::work_of({.op_type = "Relu"}, {&x}, {&x})->flops == 6);
    const auto eight = of_type(17, {4, 4}), sixteen = of_type(16, {4, 4});
    CHECK(onnx::work_of({.op_type = "GemmFloat8"}, {&eight, &eight}, {&sixteen})->precision ==
          Precision::fp8);
    CHECK(onnx::work_of({.op_type = "Relu"}, {&sixteen}, {&sixteen})->precision == Precision::bf16);
  }

  TEST_CASE("shapes: Resize by scales in each opset, of all or of some dimensions") {
    using onnx::Shape;
    const auto x = floats({1, 3, 5, 7});
    auto scales = floats({4});
    scales.values = {{1, 1, 2, 1.5}};
    const Shape resized{1, 3, 10, 10};
    CHECK(written("Resize", {}, {&x, nullptr, &scales}, 0, 13).shape == resized);
    CHECK(written("Resize", {}, {&x, &scales}, 0, 10).shape == resized);
    CHECK(written("Upsample", {}, {&x, &scales}, 0, 9).shape == resized);
    auto lengths = of_type(7, {2});
    lengths.values = {{8, 9}};
    CHECK(written("Resize", {{"axes", ints({3, 2})}}, {&x, nullptr, nullptr, &lengths}, 0, 18)
              .shape == Shape{1, 3, 9, 8});
    // Sizes computed by another node are unknown, and so is the shape.
    const auto hidden = of_type(7, {2});
    CHECK_FALSE(written("Split", {}, {&x, &hidden}).shape);
    CHECK_FALSE(written("Squeeze", {}, {&x, &hidden}).shape);
  }

  TEST_CASE("work: Einsum, transposed operands, weights of 4 bits") {
    using onnx::Shape;
    const auto q = floats({2, 5, 8, 16}), k = floats({2, 7, 8, 16});
    const Attributes scores{{"equation", {.s = "bqhd, bkhd -> bhqk"}}};
    CHECK(written("Einsum", scores, {&q, &k}).shape == Shape{2, 8, 5, 7});
    CHECK(flops("Einsum", scores, {&q, &k}) == 2 * 2 * 8 * 5 * 7 * 16);
    CHECK_FALSE(flops("Einsum", {{"equation", {.s = "...ij,...jk->...ik"}}}, {&q, &k}));
    const auto a = floats({6, 4}), b = floats({6, 8});
    const Attributes turned{{"transA", {.i = 1}}};
    CHECK(written("FusedMatMul", turned, {&a, &b}).shape == Shape{4, 8});
    CHECK(flops("FusedMatMul", turned, {&a, &b}) == 2 * 4 * 8 * 6);
    const auto x = floats({3, 32});
    CHECK(flops("MatMulNBits", {{"K", {.i = 32}}, {"N", {.i = 10}}}, {&x}) == 2 * 3 * 32 * 10);
    CHECK(onnx::multiplies_unknown({.op_type = "GroupQueryAttention"}));
    CHECK_FALSE(onnx::multiplies_unknown({.op_type = "QLinearMatMul"}));
  }
}
