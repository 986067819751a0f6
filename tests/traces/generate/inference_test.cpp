#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "tests/traces/generate/generated_graphs.h"
#include "traces/format/trace_file.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;

namespace {

/// 576 numbers a layer in products: 8 x 8 queries, 2 x 8 x 4 keys and values, 8 x 8, 3 x 8 x 16.
const Settings tiny{{"hidden_size", "8"},         {"num_attention_heads", "2"},
                    {"num_key_value_heads", "1"}, {"intermediate_size", "16"},
                    {"num_hidden_layers", "2"},   {"vocab_size", "32"}};
OpGraph decode(const Settings& more, const Settings& model = tiny) {
  return generated("llama", with(with(model, {{"pass", "decode"}}), more));
}
const Settings llama_8b{{"config", "3-8b"}};

struct Sums {
  std::int64_t flops = 0;  ///< of products and cores
  std::int64_t weights = 0, cache = 0, read = 0, outside = 0;
};
/// `outside`: weights that ops outside layers hold.
Sums sums(const OpGraph& graph, std::string_view prefix = "") {
  Sums s;
  for (const OpId v : graph.ops()) {
    if (!graph.name(v).starts_with(prefix)) continue;
    s.cache += graph.cache(v).count;
    s.weights += graph.op(v).persistent.count - graph.cache(v).count;
    for (const OpWork& kernel : graph.kernels(v)) {
      s.read += kernel.weights.count;
      if (kernel.matrix.kind != MatrixKind::none) s.flops += kernel.flops;
    }
  }
  return s;
}
OpWork core(const OpGraph& graph, const char* op) {
  for (const OpWork& kernel : graph.kernels(*graph.find(op)))
    if (kernel.matrix.kind == MatrixKind::attention) return kernel;
  FAIL("no core");
  return {};
}

}  // namespace

TEST_SUITE_BEGIN("inference");
// Weights, 2 B a number: embedding and head 32 x 8 each, a layer's products 576 and norms 2 x 8,
// the last norm 8. A token's cache: a key and a value of 4 numbers in 2 layers, 32 B.
// Flops of a token: 2 x 576 and, for each of 11 tokens that it sees, 4 x 2 heads x 4, in 2
// layers; the head 2 x 32 x 8. It reads all weights but the table, and a row of this.
TEST_CASE("a decoded token reads all weights, a row of the table, and the cache") {
  const OpGraph one = decode({{"context", "10"}});
  CHECK(sums(one).weights == 512 + 2 * (1152 + 32) + 512 + 16);
  CHECK(sums(one).flops == 3520);
  CHECK(sums(one).read == 2912);
  CHECK(sums(one).cache == 11 * 32);
  const OpWork of_layer = core(one, "layer_0/self_attn");
  // Half of 384 B, and queries and outputs of 8 numbers of 2 B.
  CHECK(of_layer.traffic == Bytes{384 / 2 + 2 * 8 * 2});
  CHECK(of_layer.precision == Precision::fp16);
  const OpGraph three = decode({{"context", "10"}, {"batch", "3"}, {"cache", "64"}});
  CHECK(sums(three).flops == 10'560);
  CHECK(sums(three).read == 2944);
  CHECK(core(three, "layer_0/self_attn").traffic == Bytes{1152 / 2 + 3 * 2 * 8 * 2});
  CHECK(sums(three).cache == 3 * 64 * 32);
  const OpGraph whole = decode({{"context", "10"}, {"dtype", "fp32"}, {"cache_dtype", "fp16"}});
  CHECK(sums(whole).read == 2 * 2912);
  CHECK(sums(whole).cache == 11 * 32);
}

// Four tokens see 1 + 2 + 3 + 4; logits of the last alone, of all four times 512 flops. Behind
// 6 tokens they see 24 more. With a window of 2 in the first layer: 1 + 2 + 2 + 2 there.
TEST_CASE("a prompt's tokens see those before them, or a window") {
  const Settings prompt{{"pass", "prefill"}, {"tokens", "4"}};
  constexpr std::int64_t products = 2 * 2 * 4 * 576;
  CHECK(sums(generated("llama", with(tiny, prompt))).flops == 10'368);
  CHECK(sums(generated("llama", with(tiny, with(prompt, {{"logits", "all"}})))).flops ==
        10'368 + 3 * 512);
  CHECK(sums(generated("llama", with(tiny, with(prompt, {{"context", "6"}})))).flops ==
        products + 2 * 32 * 34 + 512);
  const OpGraph window =
      generated("llama", with(tiny, with(prompt, {{"sliding_window", "2"}, {"cache", "20"}})));
  CHECK(sums(window).flops == products + 32 * (7 + 10) + 512);
  // The first layer holds 2 + 4 tokens of 16 B, the second 20.
  CHECK(sums(window).cache == 16 * (6 + 20));
  const OpGraph listed = generated(
      "llama",
      with(tiny,
           with(prompt, {{"config.sliding_window", "2"},
                         {"config.layer_types", "[\"full_attention\", \"sliding_attention\"]"}})));
  CHECK(listed.cache(*listed.find("layer_0/self_attn")) == Bytes{16 * 4});
}

TEST_CASE("an unfused cache has workspace for its scores; logits are copied to 32 bits") {
  // Scores of 2 heads, 4 tokens and room for 64, 4 + 2 B in a prompt; 2 heads, 1 token, 4 B.
  // Inside the op the core reads queries, keys and values and writes as many numbers as queries.
  const auto temporary = [](const Settings& more) {
    const OpGraph graph =
        generated("llama", with(tiny, with(more, {{"cache", "64"}, {"fused_attention", "false"}})));
    return graph.op(*graph.find("layer_1/self_attn")).temporary.count;
  };
  CHECK(temporary({{"pass", "prefill"}, {"tokens", "4"}}) ==
        2 * 4 * 64 * (4 + 2) + 4 * 2 * (8 + 4 + 4 + 8));
  CHECK(temporary({{"pass", "decode"}}) == 2 * 64 * 4 + 2 * (8 + 4 + 4 + 8));
  const OpGraph all =
      generated("llama", with(tiny, {{"pass", "prefill"}, {"tokens", "4"}, {"logits", "all"}}));
  CHECK(all.op(*all.find("lm_head")).temporary == Bytes{32 * 4 * 4});
}

// 32 layers, 8 heads of keys and values of 128 numbers: 131 072 B a token. All numbers are 8 030
// 261 248, the table 525 336 576 of them; norms are 65 x 4 096, of which F16 stores 32 bits.
TEST_CASE("Llama 3 8B: weights and cache") {
  const OpGraph graph = decode({{"context", "8191"}, {"weights", "F16"}}, llama_8b);
  CHECK(sums(graph).cache == 1LL << 30);
  CHECK(sums(graph).read - sums(graph, "embed_tokens").read == 15'010'381'824);
  CHECK(sums(decode({}, llama_8b)).weights == 2 * 8'030'261'248);
  CHECK(sums(decode({{"cache", "8192"}, {"cache_dtype", "q8_0"}}, llama_8b)).cache == 544LL << 20);
}

// The figures are those of llama.cpp's files: 4 403.49 MiB without the table.
TEST_CASE("Llama 3 8B in Q4_K_M has its types by tensor and layer") {
  const OpGraph graph = decode({{"weights", "Q4_K_M"}}, llama_8b);
  CHECK(sums(graph, "layer_4/").weights == 122'716'160);
  CHECK(sums(graph, "layer_3/").weights == 138'936'320);
  CHECK(sums(graph, "layer_6/").weights == 138'936'320);
  CHECK(sums(graph, "layer_28/").weights == 138'936'320);
  CHECK(sums(graph, "lm_head").weights + sums(graph, "norm").weights == 430'956'544);
  CHECK(sums(graph).weights - sums(graph, "embed_tokens").weights == 4'617'396'224);
  CHECK(sums(graph, "embed_tokens").weights == 128'256LL * 4096 * 144 / 256);
}

// llama.cpp gives mixtures of 8 experts Q8_0 for keys and values and Q5_K for attention's output.
// 8x22B, in numbers: q and o 6144 x 6144, k and v 6144 x 1024, the experts' three matrices 8 x
// 6144 x 16384 (down in Q6_K in 7 + 7 + 14 of 56 layers), router and norms in 32 bits. A low
// layer 21 233 664 + 13 369 344 + 25 952 256 + 3 x 452 984 832 + 196 608 + 49 152; a high one
// 207 618 048 more. Table 110 592 000, head 161 280 000, norm 24 576. Published files: 85.59 GB,
// and 28.45 of 8x7B.
TEST_CASE("Mixtral 8x22B and 8x7B in Q4_K_M are as large as published files") {
  const auto mixtral = [](const char* size) {
    return generated("moe", {{"config", size}, {"pass", "decode"}, {"weights", "q4_k_m"}});
  };
  const OpGraph large = mixtral("8x22b");
  CHECK(sums(large, "layer_7/").weights == 1'419'755'520);
  CHECK(sums(large, "layer_9/").weights == 1'419'755'520 + 207'618'048);
  CHECK(sums(large).weights == 85'591'511'040);
  CHECK(sums(mixtral("8x7b")).weights == 28'447'727'616);
}

// 24 layers of 32 experts of 3 x 2880 x 2880 numbers and biases of 3 x 2880 in 17 bytes for 32;
// the other 1.8e9 in 16 bits: 13.76 GB, as published.
TEST_CASE("gpt-oss-20b has its experts in four bits, and nothing else") {
  const Settings quantized{{"config", "gpt-oss-20b"}, {"pass", "decode"}};
  CHECK(static_cast<double>(sums(generated("moe", quantized)).weights) ==
        doctest::Approx(13.76e9).epsilon(0.005));
}

// A latent of 512 and 64 positions, in 61 layers. Decode: 128 heads' queries of 128 numbers times
// matrices to 512, and the same of 512 to 128; the core 2 x 128 x (2 x 512 + 64) a token seen.
TEST_CASE("DeepSeek-V3 keeps a latent of each token, and decode multiplies by its matrices") {
  const Settings deepseek{{"config", "deepseek-v3"}};
  const OpGraph graph = generated("moe", with(deepseek, {{"pass", "decode"}, {"context", "9"}}));
  CHECK(sums(graph).cache == 10 * 70'272);
  CHECK(core(graph, "layer_0/self_attn").flops == 2 * 128 * 10 * (2 * 512 + 64));
  const OpGraph prompt = generated("moe", with(deepseek, {{"pass", "prefill"}, {"tokens", "1"}}));
  CHECK(sums(prompt, "layer_0/self_attn").weights == sums(graph, "layer_0/self_attn").weights);
  // Both multiply once by each matrix.
  CHECK(sums(graph, "layer_0/self_attn").flops - core(graph, "layer_0/self_attn").flops ==
        sums(prompt, "layer_0/self_attn").flops - core(prompt, "layer_0/self_attn").flops);
  CHECK(sums(graph, "layer_0/self_attn").read == sums(prompt, "layer_0/self_attn").read);
}

// gpt-oss-20b: 24 layers, 8 heads of 64 numbers; every second one sees 128.
TEST_CASE("layers with a window hold that and the tokens of the pass") {
  const OpGraph graph =
      generated("moe", {{"config", "gpt-oss-20b"}, {"pass", "decode"}, {"cache", "8192"}});
  CHECK(sums(graph).cache == 2 * 8 * 64 * 2 * 12 * (8192 + 129));
}

// A token goes to 2 of 8 experts with 3 x 4096 x 14336 numbers: one token reads 2, three are
// expected at 8 (1 - 0.75^3) = 4.6 of them. Each still computes with 2.
TEST_CASE("decode reads the experts that its tokens are expected at, and holds all") {
  constexpr std::int64_t expert = 3LL * 4096 * 14336;
  const auto experts = [](const char* batch) {
    return sums(generated("moe", {{"config", "8x7b"}, {"pass", "decode"}, {"batch", batch}}),
                "layer_0/expert_all");
  };
  CHECK(experts("1").weights == 8 * 2 * expert);
  CHECK(experts("1").read == 2 * 2 * expert);
  CHECK(experts("1").flops == 2 * 2 * expert);
  CHECK(experts("3").read == 5 * 2 * expert);
  CHECK(experts("3").flops == 3 * 2 * 2 * expert);
}

TEST_CASE("a head with the embedding's weights counts them once and shares their device") {
  const OpGraph graph = decode({{"config.tie_word_embeddings", "true"}});
  CHECK(sums(graph).weights == 3408 - 512);
  CHECK(sums(graph).read == 2912);
  CHECK(graph.op(*graph.find("lm_head")).group == graph.op(*graph.find("embed_tokens")).group);
  CHECK(graph.op(*graph.find("lm_head")).group != no_group);
}

TEST_CASE("traces keep the cache; mistakes are named") {
  const OpGraph graph = decode({{"context", "10"}});
  const TemporaryFolder folder;
  write_trace({.graph = graph, .name = "t"}, folder.file("t.json"));
  const OpGraph again = read_trace(folder.file("t.json")).graph;
  CHECK(sums(again).cache == 11 * 32);
  CHECK(sums(again).weights == 3408);
  const auto refused = [](const Settings& more, std::string_view what) {
    CAPTURE(what);
    CHECK(message<InputError>([&] { decode(more); }).find(what) != std::string::npos);
  };
  refused({{"context", "10"}, {"cache", "10"}}, "has no room for 11 tokens");
  refused({{"training", "true"}}, "pass decode trains nothing");
  refused({{"length", "5"}}, "tokens");
  refused({{"weights", "q7"}}, "'q7' is none of f32, f16");
  CHECK_THROWS_AS(generated("llama", with(tiny, {{"tokens", "4"}})), InputError);
}
