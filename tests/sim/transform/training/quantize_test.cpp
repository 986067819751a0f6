#include "sim/error.h"
#include "tests/message.h"
#include "tests/traces/generate/generated_graphs.h"

using namespace baechi;
using namespace baechi::testing;

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

TEST_SUITE("quantize") {
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
    CHECK(message<InputError>([&] {
            quantized(plain, {{"weights", "q4_k_m"}});
          }).find("has several weights") != std::string::npos);
    const Settings apart = with(decode, {{"kernels.fuse_modules", "false"}});
    const OpGraph mixed = quantized(generated("llama", apart), {{"weights", "q4_k_m"}});
    const auto of = [&](const char* op) { return mixed.op(*mixed.find(op)).persistent; };
    CHECK(of("layer_0/self_attn/v_proj") == Bytes{256 * 210});
    CHECK(of("layer_1/self_attn/v_proj") == Bytes{256 * 144});
    CHECK(of("layer_0/self_attn/q_proj") == Bytes{256 * 144});
    const Settings training =
        with(with(model, {{"length", "16"}}), {{"kernels.fuse_modules", "false"}});
    CHECK(message<InputError>([&] {
            quantized(generated("llama", training), {{"weights", "nf4"}});
          }).find("trains all weights") != std::string::npos);
    const OpGraph adapters =
        quantized(generated("llama", with(training, {{"config.lora_rank", "4"}})),
                  {{"weights", "nf4"}, {"keep", "32"}});
    CHECK(adapters.op(*adapters.find("layer_0/mlp/up_proj")).persistent ==
          Bytes{256 * 512 * 36 / 64});
    CHECK(adapters.op(*adapters.find("layer_0/mlp/up_proj/adapter_in")).persistent ==
          Bytes{256 * 4 * 4});
  }
}
