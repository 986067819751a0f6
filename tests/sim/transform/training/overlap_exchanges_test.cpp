#include "tests/prelude.h"
#include "tests/sim/transform/transforms.h"
#include "tests/traces/generate/generated_graphs.h"

namespace {

struct Exchanges {
  Duration product{};
  bool multiplies = true;
  std::uint32_t sharing = 1;
  CollectiveKind before = CollectiveKind::all_gather;
  const char* name = "p";
};

/// x (10 ns) -> gather (400 B of 4 ranks) -> p -> scatter (400 B of 4 ranks) -> y (10 ns).
OpGraph between_exchanges(const Exchanges& given) {
  OpGraphBuilder b;
  const OpId x = b.add_op({.name = "x", .compute = 10ns}), g = b.add_op({.name = "gather"}),
             p = b.add_op({.name = given.name, .compute = given.product}),
             s = b.add_op({.name = "scatter"}), y = b.add_op({.name = "y", .compute = 10ns});
  if (given.multiplies)
    b.add_kernel(p, {.flops = 1000, .matrix = {.kind = MatrixKind::product, .count = 1}});
  const std::vector<OpId> ops{x, g, p, s, y};
  for (std::size_t i = 0; i + 1 < ops.size(); ++i)
    b.add_edge(b.add_tensor(ops[i], 100_B), ops[i + 1]);
  b.add_collective({.kind = given.before, .bytes = 400_B, .ranks = 4, .sharing = given.sharing},
                   {{g}});
  b.add_collective({.kind = CollectiveKind::reduce_scatter,
                    .bytes = 400_B,
                    .ranks = 4,
                    .sharing = given.sharing},
                   {{s}});
  return std::move(b).build();
}

/// 1 B takes 1 ns, so that a ring gathers 400 B of 4 ranks in 300 ns.
Duration makespan(const OpGraph& graph) { return step_on_gpu0(graph).makespan; }

Duration overlapped(const OpGraph& graph, const Values& values = {}) {
  return makespan(apply("overlap_exchanges", graph, values).graph);
}

}  // namespace

TEST_SUITE_BEGIN("overlap_exchanges");
TEST_CASE("a long GEMM hides all but 1 / ranks of either collective") {
  const OpGraph graph = between_exchanges({.product = 1000ns});
  CHECK(makespan(graph) == 1620ns);  // 10 + 300 + 1000 + 300 + 10
  // x 10, first quarter of the gather 85, p 1085, last quarter of the scatter 1160, y 1170.
  CHECK(overlapped(graph) == 1170ns);
  // In two parts: x 10, half of the gather 160, p 1160, half of the scatter 1310, y 1320.
  CHECK(overlapped(graph, {{"parts", "2"}}) == 1320ns);
  CHECK(overlapped(graph, {{"parts", "1"}}) == 1620ns);
}

TEST_CASE("with a short GEMM the collectives are exposed, one after the other") {
  // x 10, then the lane of exchanges is busy for 75 + 225 + 225 + 75 ns, y 620.
  CHECK(overlapped(between_exchanges({.product = 200ns})) == 620ns);
}

// x until 10, experts until 1010, y until 1020; the second exchange begins at 1010.
TEST_CASE("all_to_all of experts overlaps with other micro-batches") {
  const OpGraph graph = graph_of(
      "x10 -100> to0,x:all_to_all/400/4/a -100> expert_0=1000 -100> "
      "from0,x:all_to_all/400/4/b -100> y10");
  const Duration exchange = (makespan(graph) - 1020ns) / 2;
  CHECK(exchange > 10ns);
  CHECK(overlapped(graph) == makespan(graph));
  CHECK(overlapped(graph, {{"experts", "true"}}) == 1010ns + exchange);
  // The exchanges of tensor parallelism are left whole by "tokens: false".
  const OpGraph tokens = between_exchanges({.product = 1000ns});
  CHECK(overlapped(tokens, {{"tokens", "false"}, {"experts", "true"}}) == makespan(tokens));
}

TEST_CASE("collectives without a GEMM next to them are unchanged") {
  for (const Exchanges& c : {Exchanges{.product = 1000ns, .multiplies = false},
                             Exchanges{.product = 1000ns, .name = "moe/expert_0/fc"},
                             Exchanges{.product = 1000ns, .sharing = 2}}) {
    const OpGraph graph = between_exchanges(c);
    CHECK(overlapped(graph) == makespan(graph));
  }
  // An all_reduce (600 ns) stays whole: 10 + 600 + 1000 + 75 + 10.
  const OpGraph sum = between_exchanges({.product = 1000ns, .before = CollectiveKind::all_reduce});
  CHECK(overlapped(sum) == 1695ns);
}

TEST_CASE("no byte is lost, and a collective in the backward pass stays there") {
  OpGraphBuilder b;
  const OpId f = b.add_op({.name = "f"}), g = b.add_op({.name = "g", .phase = Phase::backward}),
             p = b.add_op({.name = "p", .phase = Phase::backward}),
             d = b.add_op({.name = "d", .phase = Phase::backward}),
             u = b.add_op({.name = "u", .phase = Phase::update});
  b.set_forward(g, f);
  b.set_forward(p, f);
  b.add_kernel(p, {.flops = 1000, .matrix = {.kind = MatrixKind::product, .count = 1}});
  b.add_edge(b.add_tensor(f, 10_B), g);
  b.add_edge(b.add_tensor(g, 10_B), p);
  b.add_edge(b.add_tensor(p, 10_B), d);
  b.add_control(p, u);
  b.add_collective({.kind = CollectiveKind::all_gather, .bytes = 101_B, .ranks = 4}, {{g}});
  const OpGraph made = apply("overlap_exchanges", std::move(b).build()).graph;
  Bytes sum{};
  for (const Collective& c : made.collectives()) sum += c.bytes;
  CHECK(sum == 101_B);
  const Op& beside = made.op(*made.find("g/beside"));
  CHECK(beside.phase == Phase::backward);
  CHECK(beside.forward == *made.find("f"));
}

namespace {

OpGraph quantized(const OpGraph& graph, const Settings& settings) {
  Options options("quantize");
  for (const auto& [key, text] : settings) options.set(key, {text, ""});
  return make_transform("quantize", options)->apply(graph).graph;
}
/// One product of `rows` x 4096 by 4096 x 4096 in 16 bits.
OpGraph frozen_product(std::int64_t rows) {
  OpGraphBuilder builder;
  constexpr Bytes weights{2 * 4096 * 4096};
  const OpId op =
      builder.add_op({.name = "layers.0.up", .kind = "Linear", .persistent = weights + Bytes{100}});
  builder.add_kernel(op, {.flops = 2 * rows * 4096 * 4096,
                          .traffic = weights + Bytes{rows * 4096 * 4},
                          .precision = Precision::fp16,
                          .weights = weights,
                          .matrix = {MatrixKind::product, 1, 0, 4096, 4096}});
  return std::move(builder).build();
}

}  // namespace

TEST_SUITE_BEGIN("quantize");
// 4096 x 4096: blocks of 256 in 144 B; of 16 384 in 8 192 + 256 + 4; groups of 128 in 66.5.
TEST_CASE("a weight has the bytes of its format, its other bytes stay") {
  for (const auto& [format, bytes] : {std::pair("q4_k", 9'437'184),
                                      {"nf4_double", 8'654'848},
                                      {"gptq", 8'716'288},
                                      {"int8", 4096 * 4096 + 4 * 4096}}) {
    CAPTURE(format);
    const OpGraph graph = quantized(frozen_product(1), {{"weights", format}});
    CHECK(graph.op(OpId{}).persistent == Bytes{bytes + 100});
    CHECK(graph.kernels(OpId{})[0].weights == Bytes{bytes});
    CHECK(graph.kernels(OpId{})[0].traffic == Bytes{bytes + 4096 * 4});
  }
}

TEST_CASE("separate kernels write a copy of 16 bits for many rows") {
  const Settings separate{{"weights", "q4_k"}, {"kernels", "separate"}};
  const OpGraph graph = quantized(frozen_product(512), separate);
  REQUIRE(graph.kernels(OpId{}).size() == 2);
  CHECK(graph.kernels(OpId{})[0].traffic == Bytes{9'437'184 + 2 * 4096 * 4096});
  CHECK(graph.kernels(OpId{})[1].weights == Bytes{2 * 4096 * 4096});
  CHECK(graph.op(OpId{}).temporary == Bytes{2 * 4096 * 4096});
  CHECK(quantized(frozen_product(8), separate).kernels(OpId{}).size() == 1);
}

// As the generator's option, but for head and embedding, which stay.
TEST_CASE("a model's weights and cache; what is trained stays") {
  const Settings model{{"num_key_value_heads", "2"}, {"hidden_size", "256"},
                       {"num_attention_heads", "2"}, {"intermediate_size", "512"},
                       {"num_hidden_layers", "8"},   {"vocab_size", "32"}};
  const Settings decode = with(model, {{"pass", "decode"}, {"context", "31"}});
  const auto layers = [](const OpGraph& graph) {
    Bytes sum;
    for (const OpId v : graph.ops())
      if (graph.name(v).starts_with("layer_")) sum += graph.op(v).persistent;
    return sum;
  };
  const OpGraph plain = generated("llama", decode);
  CHECK(layers(quantized(plain, {{"weights", "nf4"}, {"cache", "q8_0"}})) ==
        layers(generated("llama", with(decode, {{"weights", "nf4"}, {"cache_dtype", "q8_0"}}))));
  CHECK_REFUSED(quantized(graph_of("a10"), {{"cache", "q8_0"}}),
                "quantize: no op has weights or a cache to quantize");
  CHECK_REFUSED(quantized(plain, {{"weights", "q4_k_m"}}),
                doctest::Contains("has several weights"));
  const Settings apart = with(decode, {{"kernels.fuse_modules", "false"}});
  const OpGraph mixed = quantized(generated("llama", apart), {{"weights", "q4_k_m"}});
  const auto of = [&](const char* op) { return mixed.op(*mixed.find(op)).persistent; };
  CHECK(of("layer_0/self_attn/v_proj") == Bytes{256 * 210});
  CHECK(of("layer_1/self_attn/v_proj") == Bytes{256 * 144});
  CHECK(of("layer_0/self_attn/q_proj") == Bytes{256 * 144});
  const Settings training =
      with(with(model, {{"length", "16"}}), {{"kernels.fuse_modules", "false"}});
  CHECK_REFUSED(quantized(generated("llama", training), {{"weights", "nf4"}}),
                doctest::Contains("trains all weights"));
  const OpGraph adapters =
      quantized(generated("llama", with(training, {{"config.lora_rank", "4"}})),
                {{"weights", "nf4"}, {"keep", "32"}});
  CHECK(adapters.op(*adapters.find("layer_0/mlp/up_proj")).persistent ==
        Bytes{256 * 512 * 36 / 64});
  CHECK(adapters.op(*adapters.find("layer_0/mlp/up_proj/adapter_in")).persistent ==
        Bytes{256 * 4 * 4});
}
