#include "tests/prelude.h"
#include "tests/traces/generate/generated_graphs.h"

namespace {

// A rank has two of the experts.
const Settings grouped_moe = with(tiny_llama, {{"num_local_experts", "8"},
                                               {"num_experts_per_tok", "2"},
                                               {"expert", "4"},
                                               {"kernels.grouped_gemm", "true"}});

}  // namespace

TEST_SUITE_BEGIN("eager kernels");
// 64 tokens, 3 layers. The outputs of products with a bias have 3 x 64 + 64 + 256 + 64 = 576
// features, whose gradients are summed over the tokens; those of q, k and v are joined.
TEST_CASE("PyTorch reduces bias gradients, concatenates those of q, k and v, updates in parts") {
  const Settings plain = with(tiny_gpt, {{"fused_attention", "true"}, {"dropout", "false"}});
  const OpGraph one = gpt(plain), eager = gpt(with(plain, {{"kernels.eager", "true"}}));
  CHECK(moved(eager, Phase::forward) == moved(one, Phase::forward));
  CHECK(moved(eager, Phase::backward) - moved(one, Phase::backward) ==
        3 * 64 * 576 * 4 + 3 * 2 * 3 * 64 * 64 * 4);
  // 7 words of each parameter in one kernel, or 23 in ten: the norm and the scaled gradients 3.
  CHECK(7 * moved(eager, Phase::update) == 23 * moved(one, Phase::update));
}

// 12 layers of 768 features, 8 tokens. Eager: gradients of biases are summed over 5 x 768 + 3072
// features in a layer, and over the answers' 2; masks, half of a number's 4 bytes, of a dropout
// in the embeddings and two in a layer; a sum of biases that reads and writes 3072 features.
TEST_CASE("BERT in PyTorch adds biases before GELU, and applies dropout masks") {
  const Settings plain{{"batch", "1"}, {"length", "8"}, {"answers", "true"}};
  const OpGraph one = generated("bert", plain),
                eager = generated("bert", with(plain, {{"kernels.eager", "true"}}));
  constexpr std::int64_t layers = 12, tokens = 8, mask = tokens * 768 * 2;
  CHECK(moved(eager, Phase::forward) - moved(one, Phase::forward) ==
        layers * (2 * tokens * 3072 * 4 + 2 * mask) + mask);
  CHECK(moved(eager, Phase::backward) - moved(one, Phase::backward) ==
        layers * (tokens * (5 * 768 + 3072) * 4 + 2 * mask) + mask + tokens * 2 * 4);
}

TEST_CASE("a fused optimizer is one kernel also with eager layers") {
  const OpGraph one = gpt(tiny_gpt),
                fused = gpt(with(tiny_gpt,
                                 {{"kernels.eager", "true"}, {"kernels.fused_optimizer", "true"}}));
  CHECK(moved(fused, Phase::update) == moved(one, Phase::update));
}

// Adam moves 7 words of a parameter. Before it Megatron-LM's optimizer for 16 bits sets the
// buffer of gradients to zero (1), divides it by the replicas (2), takes the scale out of it (2),
// and clips it by its norm (1 and 2).
TEST_CASE("Megatron-LM's optimizer passes 32 bytes of each parameter more than Adam") {
  const OpGraph one = gpt(tiny_gpt), megatron = gpt(with(tiny_gpt, {{"kernels.megatron", "true"}}));
  CHECK(7 * moved(megatron, Phase::update) == (7 + 8) * moved(one, Phase::update));
  std::size_t kernels = 0, updates = 0;
  for (const OpId v : megatron.ops())
    if (megatron.op(v).phase == Phase::update) {
      kernels += megatron.kernels(v).size();
      ++updates;
    }
  CHECK(kernels == 6 * updates);
}

// 64 tokens, 3 layers, two ranks: half of 3 x 64 and of 256 features, and 64 twice, whose bias is
// of a rank's own tokens where these are shared.
TEST_CASE("Megatron-LM's layers reduce the gradients of their biases") {
  const auto sums = [](Settings more) {
    more = with(more, {{"kernels.megatron", "true"}, {"tensor", "2"}});
    return moved(gpt(with(tiny_gpt, more)), Phase::backward) -
           moved(gpt(with(tiny_gpt, with(more, {{"bias", "false"}}))), Phase::backward);
  };
  CHECK(sums({}) == 3 * 64 * 4 * (96 + 128 + 64 + 64));
  CHECK(sums({{"sequence_parallel", "true"}}) == 3 * 64 * 4 * (96 + 128));
}

// Scores: 2 samples x 4 heads x 32 x 32 numbers of 4 bytes, S = 32,768. q, k, v and the output
// have S / 2 each. In one kernel 4 of these and 8 S, and 8 of these and 8 S backward.
//   torch: the products q, k, S and S, v, out; q, k and v copied, scaled, masked, the softmax, 2
//   S each; dropped with a mask 2.5 S; the output copied: 12 S / 2 + 10.5 S. Backward four
//   products, dropped 2.5 S, the softmax 3 S, scaled 2 S, copies: 16 S / 2 + 11.5 S.
//   megatron: without the first copies, 2 S for all up to the softmax: 6 S / 2 + 6.5 S. Backward
//   nothing is scaled apart: 16 S / 2 + 9.5 S. And around it, with S / 2 numbers a token's
//   features: two dropouts were read and written before their sums, which now read a mask, 0.5;
//   two norms read their input once: -5 S / 2. Backward two masks, and norms that read x and dy
//   once for dx: -3 S / 2;
//   and sums for the biases of outputs of 9 S / 2. One product makes q, k and v: x is read once,
//   for three, in each pass, and dx written once.
TEST_CASE("unfused attention has the kernels of PyTorch or Megatron-LM") {
  constexpr double scores = 32'768.0;
  const OpGraph one = gpt(tiny_gpt);
  const auto more = [&](const char* kernels, Phase phase) {
    const OpGraph other = gpt(with(tiny_gpt, {{std::string("kernels.") + kernels, "true"}}));
    return static_cast<double>(moved(other, phase) - moved(one, phase)) / (3.0 * scores);
  };
  CHECK(more("torch", Phase::forward) == doctest::Approx(16.5 - 10.0));
  CHECK(more("torch", Phase::backward) == doctest::Approx(19.5 - 12.0));
  CHECK(more("megatron", Phase::forward) == doctest::Approx(9.5 - 10.0 - 2.5 - 1.0));
  CHECK(more("megatron", Phase::backward) == doctest::Approx(17.5 - 12.0 - 1.5 + 4.5 - 2.0));
  // Two products of each head forward, four backward: the number of heads grows with the batch.
  const OpGraph torch = gpt(with(tiny_gpt, {{"kernels.torch", "true"}}));
  std::map<Phase, int> products;
  for (const OpId v : torch.ops())
    for (const OpWork& kernel : torch.kernels(v))
      if (kernel.matrix.kind == MatrixKind::product && kernel.matrix.count == 0) {
        ++products[torch.op(v).phase];
        CHECK(kernel.matrix.filled(kernel.flops).count == 2 * 4);
      }
  CHECK(products == std::map<Phase, int>{{Phase::forward, 3 * 2}, {Phase::backward, 3 * 4}});
}

// Logits of 64 tokens and 128 words: cast 1.5, log-probabilities 2 times their 32 bits.
TEST_CASE("metrics read the logits once more each, in 32 bits") {
  const OpGraph one = gpt(tiny_gpt), two = gpt(with(tiny_gpt, {{"kernels.metrics", "2"}}));
  CHECK(moved(two, Phase::forward) - moved(one, Phase::forward) == 7 * 64 * 128 * 4);
  CHECK(moved(two, Phase::backward) == moved(one, Phase::backward));
}

// q, k, v: read and written; the output: zeros, read and written. Backward the other way round.
TEST_CASE("packed tokens are copied for a fused kernel, and its output is copied back") {
  const Settings plain = with(tiny_gpt, {{"fused_attention", "true"}});
  const OpGraph one = gpt(plain), packed = gpt(with(plain, {{"kernels.unpad_tokens", "true"}}));
  constexpr std::int64_t tokens = 3 * 64 * 64 * 4;  // of three layers
  CHECK(moved(packed, Phase::forward) - moved(one, Phase::forward) == 9 * tokens);
  CHECK(moved(packed, Phase::backward) - moved(one, Phase::backward) == 11 * tokens);
}

// 16 tokens of a rank, after 16 of another: in the mean one sees 16 and half of its own.
TEST_CASE("without balancing, the last context-parallel rank has the most work") {
  const auto seen = [](const Settings& more) {
    const OpGraph graph = generated("llama", with(tiny_llama, more));
    for (const OpId v : graph.ops())
      for (const OpWork& kernel : graph.kernels(v))
        if (kernel.matrix.kind >= MatrixKind::attention) return kernel.matrix;
    return MatrixShape{};
  };
  CHECK(seen({{"context", "2"}}) == MatrixShape{MatrixKind::causal_attention, 0, 16, 8, 32});
  CHECK(seen({{"context", "2"}, {"kernels.unbalanced_context", "true"}}) ==
        MatrixShape{MatrixKind::attention, 0, 16, 8, 24});
  CHECK(seen({{"kernels.unbalanced_context", "true"}}) == seen({}));
}

// 32 tokens, 2 layers; in bytes of 32 bits: five norms 18 instead of 3, queries (64) and keys
// (16) turned 10 instead of 2, the gated network (96) 5 instead of 3, the loss (128) 3.5 instead
// of 2. Keys and values (16 each) are written for all heads, and read.
TEST_CASE("a Llama without fused modules has more memory traffic") {
  const OpGraph one = generated("llama", tiny_llama),
                eager = generated("llama", with(tiny_llama, {{"kernels.eager", "true"}}));
  constexpr std::int64_t token = 32 * 4;
  CHECK(moved(eager, Phase::forward) - moved(one, Phase::forward) ==
        5 * 15 * 64 * token + 2 * (8 * (64 + 16) + 2 * 96 + 2 * 64 + 2 * 16) * token +
            token * 128 * 3 / 2);
}

// Measured with PyTorch 1.13: at the peak of cross_entropy(logits.float(), ...), while the
// model's output is held, 14 B for each 16-bit logit: it, its log-probabilities and two gradients
// in 32.
TEST_CASE("the loss of a language model in PyTorch holds 14 B for each 16-bit logit") {
  constexpr std::int64_t logits = 32 * 128;
  const OpGraph graph = generated(
      "llama", with(tiny_llama, {{"kernels.eager", "true"}, {"dtype", "bf16"}, {"batch", "1"}}));
  const OpId loss = graph.find("loss").value(), back = graph.find("loss_grad").value();
  Bytes kept, gradient;
  for (const TensorId t : graph.outputs(loss)) kept += graph.tensor(t).size;
  for (const TensorId t : graph.outputs(back)) gradient += graph.tensor(t).size;
  CHECK(kept == Bytes{4 * logits + 4});
  CHECK(kept + gradient + graph.op(back).temporary == Bytes{14 * logits + 4});
}

// 8 experts of 2 layers with biases of 96, 96 and 64, a router's of 8, and of attention 64, 16,
// 16 and 64. A rank has a quarter of the experts: 64 tokens each. Their last bias moves 28 bytes
// a number forward and 40 backward, here of words twice as long.
TEST_CASE("biases of experts, in the product or operation by operation") {
  const OpGraph none = generated("moe", grouped_moe),
                inside = generated("moe", with(grouped_moe, {{"bias", "true"}})),
                apart = generated(
                    "moe",
                    with(grouped_moe, {{"bias", "true"}, {"kernels.unfused_expert_bias", "true"}}));
  CHECK(forward_parameters(inside) - forward_parameters(none) ==
        2 * (2 * (96 + 96 + 64) + 8 + 64 + 16 + 16 + 64));
  CHECK(forward_parameters(apart) == forward_parameters(inside));
  constexpr std::int64_t numbers = 2 * 32 * 64;
  CHECK(traffic(apart, "layer_0/expert_all") - traffic(inside, "layer_0/expert_all") ==
        2 * 28 * numbers);
  CHECK(traffic(apart, "layer_0/expert_all_grad") - traffic(inside, "layer_0/expert_all_grad") ==
        2 * 40 * numbers);
  CHECK_REFUSED(generated("moe", with(grouped_moe, {{"kernels.unfused_expert_bias", "true"}})),
                doctest::Contains("needs grouped_gemm with biases"));
}

// 32 tokens of 64 features as queries and 16 as keys, 4 bytes each: apart they are moved 12 times
// instead of twice, and 17 times instead of twice backward.
TEST_CASE("RoPE as separate kernels") {
  const OpGraph fused = generated("llama", tiny_llama),
                apart = generated("llama", with(tiny_llama, {{"kernels.unfused_rope", "true"}}));
  constexpr std::int64_t moved = 32 * (64 + 16) * 4;
  CHECK(traffic(apart, "layer_0/self_attn") - traffic(fused, "layer_0/self_attn") == 10 * moved);
  CHECK(traffic(apart, "layer_0/self_attn_grad") - traffic(fused, "layer_0/self_attn_grad") ==
        15 * moved);
}

// 32 tokens of 64 features, 4 bytes each, before two norms in each of two layers: a dropout moves
// them twice, a cast 1.5 times; the activation of 96 features 5 times instead of 3. Once more are
// these and the norm, 3.
TEST_CASE("InternLM's blocks launch kernels that are fused elsewhere") {
  const OpGraph fused = generated("llama", tiny_llama),
                apart = generated("llama", with(tiny_llama, {{"kernels.internlm", "true"}})),
                again = generated("llama", with(tiny_llama, {{"kernels.internlm", "true"},
                                                             {"kernels.recompute_norm", "true"}}));
  constexpr std::int64_t token = 32 * 4;
  CHECK(moved(apart, Phase::forward) - moved(fused, Phase::forward) ==
        2 * (2 * 64 * 7 / 2 + 2 * 96) * token);
  CHECK(moved(again, Phase::forward) == moved(apart, Phase::forward));
  CHECK(moved(again, Phase::backward) - moved(apart, Phase::backward) ==
        2 * 2 * 64 * 13 / 2 * token);
  CHECK_REFUSED(generated("llama", with(tiny_llama, {{"kernels.recompute_norm", "true"}})),
                doctest::Contains("needs internlm"));
}

// A rank's experts have 64 tokens of 96 features, 4 bytes each. What is limited apart moves 8
// times as much forward, 10 backward; what is activated again reads two and writes one.
TEST_CASE("what experts activate is limited apart, and activated again") {
  const OpGraph plain = generated("moe", grouped_moe),
                clamped = generated("moe", with(grouped_moe, {{"kernels.unfused_clamp", "true"}})),
                again = generated("moe", with(grouped_moe, {{"recompute", "moe_act"}}));
  constexpr std::int64_t features = 64 * 96 * 4;
  const auto more = [&](const OpGraph& graph, const char* op) {
    return traffic(graph, op) - traffic(plain, op);
  };
  CHECK(more(clamped, "layer_0/expert_all") == 8 * features);
  CHECK(more(clamped, "layer_0/expert_all_grad") == 10 * features);
  CHECK(more(again, "layer_0/expert_all") == 0);
  CHECK(more(again, "layer_0/expert_all_grad") == 3 * features);
  CHECK_REFUSED(generated("moe", with(tiny_llama, {{"kernels.unfused_clamp", "true"}})),
                doctest::Contains("needs grouped_gemm"));
}

TEST_SUITE_BEGIN("recomputed operations");
// A layer's second, fourth and sixth product: keys (16 features), the output of attention (64)
// and the gate's other half (96), each with x, its weights and y. Besides: two norms of 3 times
// the tokens, queries and keys turned 2, the gated network 3, two residuals 3. 32 tokens.
TEST_CASE("every second GEMM is recomputed, and everything else except attention's core") {
  const OpGraph one = generated("llama", tiny_llama),
                again = generated("llama", with(tiny_llama, {{"recompute", "operators"}}));
  constexpr std::int64_t products =
      32 * (64 + 16) + 64 * 16 + 32 * (64 + 64) + 64 * 64 + 32 * (64 + 96) + 64 * 96;
  constexpr std::int64_t passes = 32 * (2 * 3 * 64 + 2 * (64 + 16) + 3 * 96 + 2 * 3 * 64);
  CHECK(moved(again, Phase::backward) - moved(one, Phase::backward) == 2 * 4 * (products + passes));
  CHECK(moved(again, Phase::forward) == moved(one, Phase::forward));
  // Not kept in a layer: the inputs of q, k and v and of the gated network's products (a norm's
  // output each), the turned queries and keys, the other half, and what the gate makes of both.
  CHECK(kept(one, "layer_") - kept(again, "layer_") ==
        2 * 4 * 32 * (2 * 64 + 64 + 16 + 2 * 96) + 2 * 2 * 4 * 32);
}
