#include "tests/prelude.h"
#include "tests/traces/generate/generated_graphs.h"

namespace {

constexpr std::int64_t num_layers = 2, tokens = 32, word = 4;

/// Activation memory that the settings save in two layers: numbers per token and layer.
std::int64_t less(const char* generator, const Settings& plain, const Settings& settings) {
  const std::int64_t bytes = kept(generated(generator, plain), "layer_") -
                             kept(generated(generator, with(plain, settings)), "layer_");
  CHECK(bytes % (num_layers * tokens) == 0);
  return bytes / (num_layers * tokens);
}

/// Four heads of 16 features, keys and values of all from 16, queries from 24, 8 features turned.
const Settings latent = with(tiny_llama, {{"num_attention_heads", "4"},
                                          {"num_key_value_heads", "4"},
                                          {"kv_lora_rank", "16"},
                                          {"q_lora_rank", "24"},
                                          {"config.qk_rope_head_dim", "8"}});

const Settings experts = with(tiny_llama, {{"num_local_experts", "8"},
                                           {"num_experts_per_tok", "2"},
                                           {"expert", "4"},
                                           {"kernels.grouped_gemm", "true"}});

}  // namespace

TEST_SUITE_BEGIN("kept inputs");
// Products of a layer read two norms' outputs (64), what attention writes (64) and what the gate
// makes (96). A number has 4 bytes, its copy in 8 bits 2, of which the precision leaves 1; a copy
// in 4 bits, and 8 bits for each 16 numbers, 9 / 8. Attention keeps what it writes, too.
TEST_CASE("products keep what they read in few bits, beside what others keep") {
  CHECK(less("llama", tiny_llama, {{"kernels.saved_inputs", "fp8"}}) ==
        (64 + 64 + 96) * (word - 2) - 64 * 2);
  CHECK(2 * less("llama", tiny_llama, {{"kernels.saved_inputs", "fp4"}}) * 4 ==
        (64 + 64 + 96) * (8 * word - 9) - 64 * 9);
}

// A rank of two has half of the tokens between products: of each norm's output a part, of which
// the whole is gathered once more. Products read half of attention's and of the gate's features.
TEST_CASE("ranks that share tokens keep copies of their part") {
  const Settings ranks =
      with(tiny_llama,
           {{"tensor", "2"}, {"sequence_parallel", "true"}, {"kernels.split_backward", "true"}});
  CHECK(less("llama", ranks, {{"kernels.saved_inputs", "fp8"}}) ==
        (2 * 64 / 2 + 96 / 2) * (word - 2) - 64 / 2 * 2);
}

// A router multiplies numbers as they are: the norm's output stays, and goes to the experts,
// each token twice. They keep a copy of 64 features of each, and of the 96 inside.
TEST_CASE("routers keep numbers, experts copies of the tokens that they receive") {
  CHECK(less("moe", experts, {{"kernels.saved_inputs", "fp8"}}) ==
        64 * (word - 2) - 64 * 2 + 2 * (64 + 96) * (word - 2));
}

// Nobody trains the products of a feed-forward network: they keep no inputs, 64 and 96 features.
TEST_CASE("GEMMs with frozen weights keep no inputs") {
  const OpGraph graph = generated(
      "llama",
      with(tiny_llama, {{"config.lora_rank", "4"}, {"config.lora_modules", "attention_qkv"}}));
  // The gate's and the other half, 96 features each, a number a token of the norm, and what it
  // writes, which the norm behind it reads.
  CHECK(kept(graph, "layer_0/mlp") == tokens * word * (2 * 96 + 1 + 64));
  CHECK(kept(generated("llama", tiny_llama), "layer_0/mlp") ==
        tokens * word * (2 * 96 + 1 + 64 + 64 + 96));
}

// Experts write 64 features for each of two routes. The sum behind them needs these for the
// gradients of the routes' weights, unless experts have applied the weights.
TEST_CASE("what experts write is not kept where they apply the weights of routes") {
  CHECK(less("moe", experts, {{"kernels.weighted_activation", "true"}}) == 2 * 64 * word);
}

TEST_SUITE_BEGIN("recomputed modules");
// Queries and keys of 4 heads with 16 + 8 features, values of 16; the norms of what they come
// from, 24 and 16 features, and a number a token of each norm. What these norms read stays.
TEST_CASE("mla_up_proj: queries, keys and values come once more from their latent tokens") {
  const Settings up{{"recompute", "mla_up_proj"}};
  CHECK(less("llama", latent, up) == (2 * 4 * (16 + 8) + 4 * 16 + 24 + 16 + 2) * word);
  // The products of queries, keys and values, forward, once more: 2 flops each.
  const OpGraph one = generated("llama", latent), again = generated("llama", with(latent, up));
  CHECK(flops(again, Phase::forward) == flops(one, Phase::forward));
  constexpr std::int64_t products = 24 * 4 * (16 + 8) + 2 * 16 * 4 * 16;
  CHECK(flops(again, Phase::backward) - flops(one, Phase::backward) >=
        num_layers * tokens * 2 * products);
  CHECK(flops(again, Phase::backward) - flops(one, Phase::backward) <=
        num_layers * tokens * 2 * products + num_layers * tokens * 10 * (2 * 96 + 64 + 24 + 16));
}

TEST_CASE("mlp: both halves and what the gate makes of them, 96 features each") {
  CHECK(less("llama", tiny_llama, {{"recompute", "mlp"}}) == 3 * 96 * word);
  CHECK(less("llama", latent, {{"recompute", "mla_up_proj+mlp"}}) ==
        less("llama", latent, {{"recompute", "mla_up_proj"}}) + 3 * 96 * word);
}

// What the gate makes is not kept, in 8 bits neither: the products read it as it is made again.
TEST_CASE("moe_act: of 96 features of two routes nothing is kept, in any format") {
  CHECK(less("moe", experts, {{"recompute", "moe_act"}}) == 2 * 96 * word);
  CHECK(less("moe", with(experts, {{"recompute", "moe_act"}}), {{"kernels.saved_inputs", "fp8"}}) ==
        64 * (word - 2) - 64 * 2 + 2 * 64 * (word - 2));
}

// The norm's output goes to the router and to each expert as a copy that is there anyway.
TEST_CASE("layernorm: what a router reads; shared_experts: all of that network") {
  CHECK(less("moe", experts, {{"recompute", "layernorm"}}) == (64 + 1) * word);
  const Settings shared = with(experts, {{"config.shared_expert_intermediate_size", "48"}});
  CHECK(less("moe", shared, {{"recompute", "layernorm"}}) == 0);
  CHECK(less("moe", shared, {{"recompute", "shared_experts"}}) == 3 * 48 * word);
}

TEST_CASE("unknown modules, and modules that need other options, are reported") {
  CHECK_REFUSED(generated("llama", with(tiny_llama, {{"recompute", "mlp+router"}})),
                doctest::Contains("'router' is no part that can be"));
  CHECK_REFUSED(generated("moe", with(tiny_llama, {{"recompute", "moe_act"}})),
                doctest::Contains("moe_act needs kernels: grouped_gemm"));
}
