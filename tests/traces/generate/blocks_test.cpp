#include "tests/prelude.h"
#include "tests/traces/generate/generated_graphs.h"

TEST_SUITE_BEGIN("blocks of models");
// Nemotron-4 340B: 96 blocks of h = 18432 features, 96 heads of 192, 8 of keys and values, 4 h
// inside, no biases. A block: 2 h^2 (queries, outputs), 2 h 8 192 (keys, values), 8 h^2 inside,
// two normalisations of 2 h. Its report, table 1: 331.6 billion parameters, and 9.4 of
// embeddings.
TEST_CASE("a GPT like Nemotron-4: published parameters, and squared ReLU instead of GELU") {
  constexpr std::int64_t h = 18'432, block = 2 * h * h + 2 * h * 8 * 192 + 8 * h * h + 4 * h;
  const OpGraph nemotron = gpt({{"num_hidden_layers", "96"},
                                {"hidden_size", "18432"},
                                {"num_attention_heads", "96"},
                                {"num_key_value_heads", "8"},
                                {"length", "4096"},
                                {"training", "false"},
                                {"vocab_size", "256000"},
                                {"tie_word_embeddings", "false"},
                                {"bias", "false"},
                                {"config.position_embedding_type", "rotary"},
                                {"config.hidden_act", "squared_relu"},
                                {"fused_attention", "true"}});
  CHECK(forward_parameters(nemotron) == 96 * block + 2 * 256'000 * h + 2 * h);
  CHECK(doctest::Approx(331.6e9).epsilon(0.0005) == static_cast<double>(96 * block + 2 * h));
  // Two operations an element where GELU has ten, of 2 x 32 tokens of 4 x 64 features in 3
  // blocks; the same with experts, each of which takes 16 of the 64 tokens.
  for (const char* experts : {"0", "4"}) {
    const Settings plain = with(tiny_gpt, {{"num_local_experts", experts}});
    const OpGraph before = gpt(plain),
                  after = gpt(with(plain, {{"config.hidden_act", "squared_relu"}}));
    CHECK(flops(before, Phase::forward) - flops(after, Phase::forward) == 3 * 8 * 64 * 256);
    CHECK(kept(before, "") == kept(after, ""));
  }
  // Ranks share the embeddings' tokens, which a normalisation and a residual read: both gradients
  // are one value before the ranks gather it, as behind both parts of 3 blocks. What these parts
  // and the logits gathered is gathered once more.
  const OpGraph shared = gpt(with(tiny_gpt, {{"tensor", "2"},
                                             {"sequence_parallel", "true"},
                                             {"dropout", "false"},
                                             {"config.position_embedding_type", "none"}}));
  CHECK(count(shared, CollectiveKind::all_gather, Phase::backward, Bytes{64 * 64 * 4}) ==
        1 + 6 + 7);
}

// Two blocks, 8 heads, 32 tokens: 8 x 32 x 32 scores. Queries and keys of a head have 8 + 4
// features, values 8. Forward one product of each, and 5 operations a score. Backward the first
// once more, three of the keys' width in all, two of the values', and 8 operations. With a window
// of 4 the first block has an eighth of the scores.
TEST_CASE("latent attention has keys wider than values; every second block sees a window") {
  const Settings latent = with(tiny_llama, {{"num_key_value_heads", "8"},
                                            {"kv_lora_rank", "32"},
                                            {"q_lora_rank", "16"},
                                            {"config.qk_rope_head_dim", "4"}});
  const auto cores = [](const OpGraph& graph, Phase phase) {
    std::vector<OpWork> found;
    for (const OpId v : graph.ops())
      for (const OpWork& kernel : graph.kernels(v))
        if (graph.op(v).phase == phase && (kernel.matrix.kind == MatrixKind::causal_attention ||
                                           kernel.matrix.kind == MatrixKind::attention))
          found.push_back(kernel);
    return found;
  };
  constexpr std::int64_t scores = 8 * 32 * 32;
  const OpGraph all = generated("llama", latent);
  REQUIRE(cores(all, Phase::forward).size() == 2);
  for (const OpWork& core : cores(all, Phase::forward)) {
    CHECK(core.flops == 2 * scores * (12 + 8) + 5 * scores);
    CHECK(core.matrix.columns == 10);
  }
  for (const OpWork& core : cores(all, Phase::backward))
    CHECK(core.flops == 2 * scores * (3 * 12 + 2 * 8) + 8 * scores);
  const OpGraph windowed = generated("llama", with(latent, {{"sliding_window", "4"}}));
  const std::vector<OpWork> seen = cores(windowed, Phase::forward);
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].flops == (2 * scores * (12 + 8) + 5 * scores) / 8);
  CHECK(seen[0].matrix.inner == 4);
  CHECK(seen[1].flops == 2 * scores * (12 + 8) + 5 * scores);
  // Weights of a block: queries 64 x 16 + 16 x 8 x 12, keys and values 64 (32 + 4) + 32 x 8 x 16,
  // normalisations 16 + 32, in place of three products of 64 x 64.
  const OpGraph plain = generated("llama", with(tiny_llama, {{"num_key_value_heads", "8"}}));
  CHECK(forward_parameters(all) - forward_parameters(plain) ==
        2 * (64 * 16 + 16 * 96 + 64 * 36 + 32 * 128 + 48 - 3 * 64 * 64));
  // Each of two ranks has the weights that make latent features, and those of its four heads.
  const Settings two{{"tensor", "2"}};
  CHECK(forward_parameters(generated("llama", with(latent, two))) -
            forward_parameters(
                generated("llama", with(with(tiny_llama, {{"num_key_value_heads", "8"}}), two))) ==
        2 * (64 * 16 + 16 * 48 + 64 * 36 + 32 * 64 + 48 - 3 * 64 * 32));
}

// BERT-base has 768 features, here 2,048 words; two ranks have 1,024 words each.
TEST_CASE("untied logits of BERT have separate weights") {
  const auto extra = [](const char* ranks) {
    const Settings tied{{"vocab_size", "2048"}, {"tensor", ranks}};
    return forward_parameters(generated("bert", with(tied, {{"tie_word_embeddings", "false"}}))) -
           forward_parameters(generated("bert", tied));
  };
  CHECK(extra("1") == 2048 * 768);
  CHECK(extra("2") == 1024 * 768);
}

// 3 layers, 64 tokens of 64 features in 4 heads. Each norm has a weight and a shift for the 16
// features of a head. It keeps its input, 4 bytes a number, and a mean and a deviation of each
// head: 64 (64 + 2 x 4) numbers for queries, as many for keys. Two ranks have half of the heads
// each.
TEST_CASE("queries and keys are normalised per head, with weights shared by heads") {
  for (const char* ranks : {"1", "2"}) {
    CAPTURE(ranks);
    const Settings plain = with(tiny_gpt, {{"tensor", ranks}});
    const OpGraph before = gpt(plain), after = gpt(with(plain, {{"config.use_qk_norm", "true"}}));
    CHECK(forward_parameters(after) - forward_parameters(before) == 3 * 2 * (16 + 16));
    CHECK(kept(after, "h_") - kept(before, "h_") == 3 * 2 * 4 * 64 * (64 + 2 * 4) / (*ranks - '0'));
  }
}

// Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys
// 2023, equation 2: a layer keeps s b h (10 + 24/t + 5 a s / (h t)) bytes with 16-bit numbers.
// Left out there: a mean and a deviation in 32 bits of each token, in two normalisations.
TEST_CASE("a layer's activation memory is that of Korthikanti et al.") {
  constexpr std::int64_t s = 64, b = 2, h = 256, a = 8;
  const auto kept = [&](const char* layers, const char* tensor) {
    const OpGraph rank =
        make_transform("precision", Options("precision", {{"to", {"bf16", {}, {}}}}))
            ->apply(gpt({{"num_hidden_layers", layers},
                         {"hidden_size", "256"},
                         {"num_attention_heads", "8"},
                         {"length", "64"},
                         {"batch", "2"},
                         {"tensor", tensor},
                         {"vocab_size", "512"}}))
            .graph;
    std::int64_t bytes = 0;
    for (const TensorId t : rank.tensors()) {
      const auto waits = [&](EdgeId e) {
        return rank.op(rank.edge(e).dst).phase == Phase::backward;
      };
      if (rank.op(rank.tensor(t).producer).phase == Phase::forward &&
          std::ranges::any_of(rank.readers(t), waits))
        bytes += rank.tensor(t).held().count;
    }
    return bytes;
  };
  for (const auto& [tensor, t] : {std::pair{"1", 1}, {"4", 4}})
    CHECK(kept("3", tensor) - kept("2", tensor) ==
          s * b * (10 * h + 24 * h / t + 5 * a * s / t) + 2 * s * b * 8);
}

TEST_CASE("each block adds up two values forward and two gradients backward") {
  const OpGraph graph = gpt({{"num_hidden_layers", "3"},
                             {"hidden_size", "64"},
                             {"num_attention_heads", "4"},
                             {"length", "32"},
                             {"tensor", "4"},
                             {"batch", "2"},
                             {"vocab_size", "128"}});
  std::size_t forward = 0, backward = 0;
  for (const Collective& c : graph.collectives()) {
    CHECK(c.kind == CollectiveKind::all_reduce);
    CHECK(c.bytes == Bytes{4 * 2 * 32 * 64});  // batch, tokens, features
    CHECK(c.ranks == 4);
    CHECK(c.members == 1);
    (graph.op(c.first).phase == Phase::forward ? forward : backward) += 1;
  }
  CHECK(forward == 2 * 3 + 1);   // and the embeddings
  CHECK(backward == 2 * 3 + 1);  // and the logits' input
  CHECK(gpt({{"num_hidden_layers", "3"}}).collectives().empty());
}

// 64 tokens of 64 features, 2 heads of 8 features in 2 groups, states of 4, so 16 features of
// heads: the mixer reads 16 + 16 + 2 x 2 x 4 + 2 = 50 features. Two ranks have a head each.
TEST_CASE("layers by letters: a mixer, an attention, a network, and ranks that divide them") {
  const Settings tiny{{"num_hidden_layers", "M*-"},
                      {"hidden_size", "64"},
                      {"num_attention_heads", "4"},
                      {"head_dim", "16"},
                      {"num_key_value_heads", "4"},
                      {"intermediate_size", "256"},
                      {"mamba_num_heads", "2"},
                      {"config.mamba_head_dim", "8"},
                      {"config.n_groups", "2"},
                      {"ssm_state_size", "4"},
                      {"length", "64"},
                      {"vocab_size", "128"}};
  const OpGraph one = generated("hybrid", tiny),
                rank = generated("hybrid", with(tiny, {{"tensor", "2"}}));
  CHECK(one.find("layer_0/mamba"));
  CHECK(one.find("layer_1/attention"));
  CHECK(one.find("layer_2/mlp"));
  // Products 64 x 50 and 16 x 64, 5 taps of 32, 3 numbers of a head, a norm of 16 and of 64.
  constexpr std::int64_t mixer = 64 * 50 + 16 * 64 + 5 * 32 + 3 * 2 + 16 + 64;
  constexpr std::int64_t others = 4 * 64 * 64 + 64 + 2 * 64 * 256 + 64 + 2 * 128 * 64 + 64;
  CHECK(forward_parameters(one) == mixer + others);
  // All is halved but four norms of 64.
  CHECK(forward_parameters(rank) == (mixer + others - 4 * 64) / 2 + 4 * 64);
  // A mixer writes 64 x 16 numbers, and keeps as many before its gate and before its norm, and a
  // number for each token and group.
  const OpGraph apart = generated("hybrid", with(tiny, {{"kernels.fuse_modules", "false"}}));
  std::int64_t written = 0;
  for (const TensorId t : apart.outputs(*apart.find("layer_0/mamba/mixer")))
    written += apart.tensor(t).size.count;
  CHECK(written == 4 * (3 * 64 * 16 + 64 * 2));
  CHECK_REFUSED(generated("hybrid", with(tiny, {{"num_hidden_layers", "MX"}})),
                doctest::Contains("of the letters M, *, - and E"));
  CHECK_REFUSED(generated("hybrid", with(tiny, {{"context", "2"}})),
                doctest::Contains("pass over all tokens"));
}

// A block has 4 products of attention, 64 x 64, and 3 of 64 x 96 inside: adapters of 8 have 8 for
// each feature on either side. The others have no gradients.
TEST_CASE("adapters alone are trained: no gradients of other weights") {
  const Settings all =
      with(tiny_llama, {{"num_key_value_heads", "4"}, {"num_attention_heads", "4"}});
  const OpGraph whole = generated("llama", all),
                adapted = generated("llama", with(all, {{"config.lora_rank", "8"}}));
  std::int64_t updated = 0, gradients = 0;
  for (const OpId v : adapted.ops()) {
    if (adapted.op(v).phase == Phase::update) updated += adapted.op(v).persistent.count;
    for (const OpWork& kernel : adapted.kernels(v))  // inner 0: the gradient of weights
      if (kernel.matrix.kind == MatrixKind::product && kernel.matrix.inner == 0) ++gradients;
  }
  const std::int64_t layers = 2, trained = layers * 8 * (4 * 128 + 3 * (64 + 96));
  CHECK(updated == 2 * 4 * trained);  // two moments of 4 bytes
  CHECK(gradients == layers * 7 * 2);
  CHECK(forward_parameters(adapted) - forward_parameters(whole) == trained);
  // Beside queries, keys and values alone.
  const OpGraph few = generated(
      "llama", with(all, {{"config.lora_rank", "8"}, {"config.lora_modules", "attention_qkv"}}));
  CHECK(forward_parameters(few) - forward_parameters(whole) == layers * 8 * 3 * 128);
  // Each reads through a dropout of its own: beside queries, keys, values and the output.
  const auto kernels = [](const OpGraph& graph) {
    return graph.kernels(*graph.find("layer_0/self_attn")).size();
  };
  CHECK(kernels(generated(
            "llama", with(all, {{"config.lora_rank", "8"}, {"config.lora_dropout", "0.1"}}))) ==
        kernels(adapted) + 4);
  // Four products of attention: adapters are two products, their sum with it, and a factor each.
  CHECK(kernels(adapted) == kernels(whole) + 4 * 4);
}

// A sample of 32 tokens has two documents of 16: half of the scores, 2 x 8 heads x 16 x 16, of 4
// x 8 operations for products and 5 more.
TEST_CASE("tokens attend to their own document only") {
  const auto attention = [](const Settings& more) {
    const OpGraph graph = generated("llama", with(tiny_llama, more));
    for (const OpWork& kernel : graph.kernels(*graph.find("layer_0/self_attn")))
      if (kernel.matrix.kind >= MatrixKind::attention) return kernel;
    return OpWork{};
  };
  const OpWork one = attention({}), two = attention({{"kernels.packed_sequence", "16"}});
  CHECK(one.flops == 8 * 32 * 32 * (4 * 8 + 5));
  CHECK(two.flops == 2 * 8 * 16 * 16 * (4 * 8 + 5));
  CHECK(two.traffic == one.traffic);
  CHECK(two.matrix == MatrixShape{MatrixKind::causal_attention, 0, 16, 8, 16});
  CHECK(attention({{"kernels.packed_sequence", "32"}}).flops == one.flops);
  CHECK_REFUSED(attention({{"kernels.packed_sequence", "15"}}), doctest::Contains("must divide"));
}
