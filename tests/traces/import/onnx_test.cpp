// The importer `onnx` on a small model with a computed shape and on recorded models.

#include <deque>
#include <nlohmann/json.hpp>

#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
#include "traces/import/onnx/model.h"

namespace {

using Infos = std::vector<const onnx::TensorInfo*>;

onnx::TensorInfo of_type(int type, onnx::Shape shape) {
  return {.type = static_cast<onnx::ElementType>(type), .shape = std::move(shape)};
}

/// The numbers in the brackets: "[1,2]".
template <class T>
std::vector<T> numbers(std::string_view text, std::string_view brackets) {
  const std::size_t open = text.find(brackets[0]);
  std::vector<T> found;
  for (const auto word : parts(text.substr(open + 1, text.find(brackets[1]) - open - 1), ','))
    found.push_back(parse_number<T>(word).value());
  return found;
}
/// "f32[2,3]"; with its elements "i64[2]{4,-1}"; "f32?", of unknown shape.
onnx::TensorInfo info_of(std::string_view text) {
  constexpr std::pair<std::string_view, int> types[] = {{"f32", 1},  {"u8", 2},   {"i8", 3},
                                                        {"i32", 6},  {"i64", 7},  {"b", 9},
                                                        {"f16", 10}, {"f64", 11}, {"bf16", 16}};
  const std::string_view word = text.substr(0, text.find_first_of("[?"));
  const auto* const type = std::ranges::find(types, word, &std::pair<std::string_view, int>::first);
  REQUIRE_MESSAGE(type != std::end(types), text);
  onnx::TensorInfo info = of_type(type->second, {});
  info.shape.reset();
  if (text.ends_with('?')) return info;
  info.shape = numbers<std::int64_t>(text, "[]");
  if (text.ends_with('}')) info.values = numbers<double>(text, "{}");
  return info;
}
/// "Split axis=1 split=[2,4] name=text", where '~' is a space.
onnx::Node node_of(std::string_view text) {
  onnx::Node node{.outputs = {"y", "y1", "y2", "y3"}};
  for (const auto word : parts(text, ' ')) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      node.op_type = word;
      continue;
    }
    const std::string_view value = word.substr(equals + 1);
    onnx::Attribute a;
    if (value.starts_with('[')) {
      a.floats = numbers<double>(value, "[]");
      a.ints.assign(a.floats.begin(), a.floats.end());
    } else if (const auto number = parse_number<std::int64_t>(value)) {
      a.i = *number;
    } else {
      a.s = value;
      std::ranges::replace(a.s, '~', ' ');
    }
    node.attributes.emplace(word.substr(0, equals), std::move(a));
  }
  return node;
}

Bytes output_of(const OpGraph& g, std::string_view op) {
  return g.tensor(*g.outputs(*g.find(op)).begin()).size;
}

}  // namespace

TEST_SUITE_BEGIN("onnx");
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
    for (const onnx::Node& node : m.nodes) written.insert(node.outputs.begin(), node.outputs.end());
    std::size_t edges = 0;
    for (const onnx::Node& node : m.nodes)
      for (const std::string& input : node.inputs) edges += written.count(input);
    CHECK(edges == facts[name]["edges"]);
    // Shapes inferred from the inputs alone, against those in the file.
    onnx::Tensors tensors;
    for (const onnx::Initializer& i : m.initializers) tensors[i.name] = i.info;
    for (const onnx::ValueInfo& i : m.inputs) tensors[i.name] = {.type = i.type, .shape = i.shape};
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
  CHECK_FALSE(onnx::TensorInfo{.type = of_type(1, {}).type}.bytes());
}

TEST_CASE("each operator's shapes, elements of small tensors and flops") {
  const std::string rows = read_file(source_dir() + "/tests/traces/import/onnx_operators.txt");
  for (const auto line : parts(rows, '\n')) {
    CAPTURE(line);
    if (line.starts_with('#')) continue;
    const auto columns = parts(line, '|');
    onnx::Node node = node_of(columns[0]);
    std::deque<onnx::TensorInfo> given;
    Infos in;
    for (const auto word : parts(columns[1], ' ')) {
      in.push_back(word == "-" ? nullptr : &given.emplace_back(info_of(word)));
      node.inputs.emplace_back(word == "-" ? "" : "x");
    }
    const auto out = onnx::infer(node, in, node.integer("opset", 18));
    const auto expected = parts(columns[2], ' ');
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      if (expected[i] == "?") {
        CHECK_FALSE(out.at(i).shape);
        continue;
      }
      const onnx::TensorInfo y = info_of(expected[i]);
      CHECK(out.at(i).type == y.type);
      CHECK(out.at(i).shape == y.shape);
      CHECK(out.at(i).values == y.values);
    }
    CHECK(onnx::is_known(node));
    // With any input of another rank, unknown or absent there is an answer without a negative
    // side.
    const auto scalar = info_of("i64[]{-1}"), row = info_of("i64[2]{0,-1}"),
               unknown = info_of("f32?");
    for (const onnx::TensorInfo*& input : in)
      for (const onnx::TensorInfo* other :
           {&scalar, &row, &unknown, static_cast<const onnx::TensorInfo*>(nullptr)}) {
        const auto* const right = std::exchange(input, other);
        for (const onnx::TensorInfo& t : onnx::infer(node, in, node.integer("opset", 18)))
          CHECK((!t.shape ||
                 std::ranges::all_of(*t.shape, [](std::int64_t side) { return side >= 0; })));
        input = right;
      }
    if (columns.size() < 4) continue;
    const bool absent = node.integer("absent", 0) == 1;  // output 0
    const auto work = onnx::work_of(node, in, {absent ? nullptr : &out[0], &out[1]});
    if (columns[3] == " ?")
      CHECK_FALSE(work);
    else
      CHECK(work.value().flops == parse_number<std::int64_t>(columns[3].substr(1)).value());
  }
  // The elements of 256 numbers are known, those of 257 are not.
  for (const std::int64_t count : {256, 257}) {
    const auto whole = [](std::int64_t n) { return info_of(fmt::format("i64[]{{{}}}", n)); };
    const auto first = whole(0), end = whole(count), step = whole(1);
    const auto range = onnx::infer(node_of("Range"), {&first, &end, &step}, 18)[0];
    CHECK(range.values.has_value() == (count == 256));
    const auto dims = info_of(fmt::format("i64[1]{{{}}}", count)),
               left = info_of(fmt::format("i64[1]{{{}}}", count - 1));
    CHECK(onnx::infer(node_of("ConstantOfShape"), {&dims}, 18)[0].values.has_value() ==
          (count == 256));
    const auto most = onnx::infer(node_of("ConstantOfShape"), {&left}, 18)[0];
    if (most.values)
      CHECK(onnx::infer(node_of("Concat axis=0"), {&most, &dims}, 18)[0].values.has_value() ==
            (count == 256));
  }
  CHECK(onnx::multiplies_unknown({.op_type = "GroupQueryAttention"}));
  CHECK_FALSE(onnx::multiplies_unknown({.op_type = "QLinearMatMul"}));
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
      "zero: option untimed=zero of the importer",
      InputError);
  CHECK(imported(seed("onnx/small.onnx"), "onnx", {{"untimed", "zero"}}).untimed.accepted);
  const auto x = info_of("f32[2,3]"), empty = info_of("f32[0,3]");
  const onnx::TensorInfo unknown;
  CHECK_FALSE(onnx::work_of({.op_type = "Relu"}, {&unknown}, {&unknown}));
  CHECK_FALSE(onnx::work_of({.op_type = "MatMul"}, {&unknown, &x}, {&x}));
  CHECK_FALSE(onnx::work_of({.op_type = "MatMul"}, {&x, &unknown}, {&x}));
  CHECK(onnx::work_of({.op_type = "Relu"}, {&empty}, {&empty}));  // an op without work is known
  CHECK(onnx::work_of({.op_type = "Relu"}, {&x}, {&x})->flops == 6);
  const auto eight = of_type(17, {4, 4}), sixteen = of_type(16, {4, 4});
  CHECK(onnx::work_of({.op_type = "GemmFloat8"}, {&eight, &eight}, {&sixteen})->precision ==
        Precision::fp8);
  CHECK(onnx::work_of({.op_type = "Relu"}, {&sixteen}, {&sixteen})->precision == Precision::bf16);
}
