#include "tests/prelude.h"
#include "tests/traces/generate/generated_graphs.h"

TEST_SUITE_BEGIN("tensor parallel");
TEST_CASE("GPT-3 has 175 billion parameters, and a rank of eight an eighth of the products") {
  const Settings gpt3{{"num_hidden_layers", "96"},   {"hidden_size", "12288"},
                      {"num_attention_heads", "96"}, {"length", "2048"},
                      {"training", "false"},         {"vocab_size", "51200"}};
  Settings rank = gpt3;
  rank["tensor"] = "8";
  // Per block 12 h^2 + 13 h; words and positions; the last normalisation.
  constexpr std::int64_t h = 12288, blocks = 96;
  CHECK(forward_parameters(gpt(gpt3)) ==
        blocks * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h);
  // Whole on each rank: two normalisations (4 h) and two biases (2 h) per block, positions, the
  // last normalisation. An eighth of the rest: 12 h^2 + 7 h per block, and the words.
  CHECK(forward_parameters(gpt(rank)) ==
        blocks * ((12 * h * h + 7 * h) / 8 + 6 * h) + (51200 / 8 + 2048) * h + 2 * h);
}

// Three blocks of four experts on four ranks, two of which share the 64 tokens of 64 features. A
// rank has one expert, or halves of two: as many weights and operations. It has 8 tokens for each
// of four experts; two ranks gather 2 x 32 tokens, and add up what their halves make of them: a
// gather and a scatter more in each pass of a block. Tokens go to two groups instead of four.
TEST_CASE("ranks divide experts: the same weights and work, and a gather and a sum more") {
  const Settings whole = with(tiny_gpt, {{"num_local_experts", "4"},
                                         {"expert", "4"},
                                         {"tensor", "2"},
                                         {"sequence_parallel", "true"},
                                         {"bias", "false"}});
  const OpGraph before = gpt(whole), after = gpt(with(whole, {{"expert_tensor", "2"}}));
  CHECK(forward_parameters(before) == forward_parameters(after));
  CHECK(flops(before, Phase::forward) == flops(after, Phase::forward));
  constexpr Bytes tokens{64 * 64 * 4};
  for (const Phase phase : {Phase::forward, Phase::backward})
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter})
      CHECK(count(after, kind, phase, tokens) == count(before, kind, phase, tokens) + 3);
  for (const auto& [graph, ranks] : {std::pair{&before, 4U}, {&after, 2U}})
    for (const Collective& c : graph->collectives())
      if (c.kind == CollectiveKind::all_to_all) {
        CHECK(c.ranks == ranks);
        CHECK(c.sharing == 4 / ranks);
      }
  CHECK_REFUSED(gpt(with(whole, {{"expert_tensor", "3"}})),
                doctest::Contains("does not divide the 4 of 'expert'"));
}

// Two layers on each side: 2 x 32 tokens read and 2 x 16 written, of 64 features, 256 inside.
TEST_CASE("a transformer as T5: biases, a table of positions, GELU, a shorter output") {
  const Settings plain{{"num_hidden_layers", "2"},
                       {"hidden_size", "64"},
                       {"num_attention_heads", "4"},
                       {"intermediate_size", "256"},
                       {"vocab_size", "128"},
                       {"batch", "2"},
                       {"length", "32"},
                       {"target_length", "16"},
                       {"shared_embeddings", "true"}};
  const OpGraph before = generated("transformer", plain);
  const auto more = [&](const Settings& settings) {
    return generated("transformer", with(plain, settings));
  };
  // Four products in each of 2 + 2 x 2 attentions, and a bias of each word.
  CHECK(forward_parameters(more({{"bias", "true"}})) - forward_parameters(before) ==
        6 * 4 * 64 + 128);
  CHECK(forward_parameters(more({{"learned_positions", "true"}})) - forward_parameters(before) ==
        32 * 64);
  // GELU keeps its input besides its output, ReLU does not: 4 bytes a number.
  CHECK(kept(more({{"hidden_act", "gelu"}}), "") - kept(before, "") ==
        4 * 256 * 2 * (2 * 32 + 2 * 16));
}

// 3 blocks, 64 tokens of 64 features, 256 inside, 4 experts of 16 tokens each. A network has
// 2 x 64 x 256 weights and 256 + 64 biases; the router 64 x 4. Beside one network's bytes a block
// keeps what it sends to experts (64 numbers a token), GELU before its weight (256), four
// probabilities, the choice and its weight. Four ranks have one expert each.
TEST_CASE("a mixture-of-experts GPT: weights, and activations kept for the routing weights") {
  constexpr std::int64_t network = 2 * 64 * 256 + 256 + 64;
  const Settings experts = with(tiny_gpt, {{"num_local_experts", "4"}, {"dropout", "false"}});
  const OpGraph one = gpt(with(tiny_gpt, {{"dropout", "false"}})), four = gpt(experts);
  CHECK(forward_parameters(four) - forward_parameters(one) == 3 * (3 * network + 64 * 4));
  CHECK(kept(four, "h_") - kept(one, "h_") == 3 * 4 * 64 * (64 + 256 + 4 + 1 + 1));
  const OpGraph rank = gpt(with(experts, {{"expert", "4"}}));
  CHECK(forward_parameters(four) - forward_parameters(rank) == 3 * 3 * network);
  CHECK_REFUSED(gpt(with(tiny_gpt, {{"expert", "2"}})),
                "gpt.expert: ranks share experts, and there are none");
}

// Two ranks gather before each of 2 x 2 + 2 x 3 parts, for 2 attentions over the other side, and
// for the words; they add up and divide behind each part and both embeddings.
TEST_CASE("ranks of a transformer share its words, too") {
  const Settings shared{{"num_hidden_layers", "2"}, {"tensor", "2"}, {"sequence_parallel", "true"}};
  const OpGraph graph = generated("transformer", shared);
  const auto forward = [&](CollectiveKind kind) {
    return std::ranges::count_if(graph.collectives(), [&](const Collective& c) {
      return c.kind == kind && graph.op(c.first).phase == Phase::forward;
    });
  };
  CHECK(forward(CollectiveKind::all_gather) == 10 + 2 + 1);
  CHECK(forward(CollectiveKind::reduce_scatter) == 10 + 2);
  CHECK(forward(CollectiveKind::all_reduce) == 0);
  CHECK_REFUSED(generated("transformer", {{"context", "2"}}),
                "transformer.context: one rank has all words of a sentence; or sequence_parallel");
}

TEST_CASE("a loss of separate kernels moves the logits 9.5 and 3.5 times") {
  const OpGraph graph = gpt({{"num_hidden_layers", "1"},
                             {"hidden_size", "64"},
                             {"num_attention_heads", "4"},
                             {"length", "32"},
                             {"batch", "2"},
                             {"vocab_size", "128"},
                             {"kernels.unfused_loss", "true"}});
  const std::int64_t logits = 4 * 2 * 32 * 128;  // batch, tokens, words
  std::int64_t forward = 0, backward = 0, kernels = 0;
  for (const OpId v : graph.ops())
    for (const OpWork& kernel : graph.kernels(v)) {
      if (graph.name(v) == "loss") forward += kernel.traffic.count;
      if (graph.name(v) == "loss_grad") backward += kernel.traffic.count;
      kernels += graph.name(v).starts_with("loss") ? 1 : 0;
    }
  CHECK(kernels == 6 + 2);
  CHECK(2 * forward == 19 * logits);
  CHECK(2 * backward == 7 * logits);
  const OpGraph llama = generated("llama", with(tiny_llama, {{"kernels.unfused_loss", "true"}}));
  CHECK(2 * traffic(llama, "loss") == 19 * 4 * 32 * 128);
}

TEST_CASE("ranks share heads, features and words evenly, or the number is refused") {
  CHECK(message<InputError>(
            [] { gpt({{"tensor", "3"}, {"hidden_size", "96"}, {"num_attention_heads", "16"}}); }) ==
        "gpt.tensor: 16 heads cannot be divided by 3\n"
        "gpt.tensor: 50257 tokens of the vocabulary cannot be divided by 3");
}

TEST_CASE("sequence-parallel ranks gather and scatter tokens, and keep only their part") {
  const OpGraph graph = gpt(with(tiny_gpt, {{"tensor", "4"}, {"sequence_parallel", "true"}}));
  const Bytes whole{4 * 2 * 32 * 64};  // batch, tokens, features
  // Two parts of each of 3 layers gather their input and scatter their sum; the embeddings
  // scatter, the logits gather. The backward pass does the reverse, and gathers every input once
  // more for the gradients of the weights.
  using enum CollectiveKind;
  CHECK(count(graph, all_gather, Phase::forward, whole) == 2 * 3 + 1);
  CHECK(count(graph, reduce_scatter, Phase::forward, whole) == 2 * 3 + 1);
  CHECK(count(graph, reduce_scatter, Phase::backward, whole) == 2 * 3 + 1);
  CHECK(count(graph, all_gather, Phase::backward, whole) == 2 * (2 * 3 + 1));
  CHECK(count(graph, all_reduce, Phase::forward, whole) == 0);
  // A rank keeps of a layer exactly a fourth; without sequence_parallel its norms, dropout and
  // the inputs of products are whole.
  const OpGraph one = gpt(tiny_gpt), plain = gpt(with(tiny_gpt, {{"tensor", "4"}}));
  CHECK(4 * kept(graph, "h_") == kept(one, "h_"));
  CHECK(4 * kept(plain, "h_") > kept(one, "h_"));
  CHECK(4 * flops(graph, Phase::backward) < flops(one, Phase::backward) * 11 / 10);
}

TEST_CASE("a separate op for weight gradients has a third of the GEMM flops") {
  // For a product of f operations, the gradients of its input and of its weights are f each. The
  // work stays; the first module has no gradient of an input to split off.
  const Settings apart_head = with(tiny_gpt, {{"tie_word_embeddings", "false"}});
  const OpGraph whole = gpt(apart_head),
                split = gpt(with(apart_head, {{"kernels.split_backward", "true"}}));
  CHECK(flops(whole, Phase::backward) == flops(split, Phase::backward));
  CHECK(forward_parameters(whole) == forward_parameters(split));
  std::int64_t apart = 0;
  for (const OpId v : split.ops())
    if (split.name(v).ends_with("_weights_grad")) {
      CHECK(split.op(v).persistent > Bytes{});
      for (const OpWork& kernel : split.kernels(v))
        if (kernel.matrix.kind == MatrixKind::product) apart += kernel.flops;
    }
  // 12 h^2 weights of each layer and the logits' 128 h, 2 operations for each of 64 tokens; 9 h
  // biases of a layer, one.
  CHECK(apart == 2 * 64 * (3 * 12 * 64 * 64 + 128 * 64) + 64 * 3 * 9 * 64);
  CHECK(split.num_ops() == whole.num_ops() + 2 * 3 + 2);  // ln_f, logits
}

TEST_CASE("context-parallel ranks share the tokens, and gather keys and values") {
  const OpGraph whole = gpt(tiny_gpt), rank = gpt(with(tiny_gpt, {{"context", "4"}}));
  const Bytes gathered{4 * 2 * 32 * 64};  // batch, all tokens, features
  using enum CollectiveKind;
  // Keys and values of 3 layers, gathered once more for the backward pass.
  CHECK(count(rank, all_gather, Phase::forward, gathered) == 2 * 3);
  CHECK(count(rank, all_gather, Phase::backward, gathered) == 2 * 3);
  CHECK(count(rank, reduce_scatter, Phase::backward, gathered) == 2 * 3);
  for (const Collective& c : rank.collectives()) CHECK(c.ranks == 4);
  CHECK(forward_parameters(rank) == forward_parameters(whole));
  CHECK(4 * flops(rank, Phase::forward) == flops(whole, Phase::forward));
  CHECK(4 * kept(rank, "h_") == kept(whole, "h_"));
}

TEST_CASE("ranks share llama's heads, and replicate keys and values if these are fewer") {
  // h = 64 in 8 heads of 8, 2 of keys and values, 96 inside. A layer has q and o of h^2, k and v
  // of 16 h, 3 x 96 h, and two norms of h; 128 words twice; the last norm.
  const std::int64_t h = 64;
  const auto weights = [&](std::int64_t ranks, std::int64_t key_value) {
    const std::int64_t layer = (2 * h * h + 3 * 96 * h) / ranks + 2 * key_value * 8 * h + 2 * h;
    return 2 * layer + 2 * 128 * h / ranks + h;
  };
  CHECK(forward_parameters(generated("llama", tiny_llama)) == weights(1, 2));
  CHECK(forward_parameters(generated("llama", with(tiny_llama, {{"tensor", "2"}}))) ==
        weights(2, 1));
  const Settings eight = with(tiny_llama, {{"tensor", "8"}});
  CHECK(forward_parameters(generated("llama", eight)) ==
        weights(8, 1));  // and not a fourth of a head
  const OpGraph sequence = generated("llama", with(eight, {{"sequence_parallel", "true"}}));
  CHECK(count(sequence, CollectiveKind::reduce_scatter, Phase::forward, Bytes{4 * 32 * 64}) ==
        2 * 2 + 1);
  CHECK_REFUSED(generated("llama", with(tiny_llama, {{"tensor", "3"}})),
                doctest::Contains("cannot be divided by 3"));
}

TEST_CASE("ranks that share experts exchange the tokens of all") {
  const Settings moe = with(tiny_llama, {{"num_local_experts", "8"}, {"num_experts_per_tok", "2"}});
  const OpGraph one = generated("moe", moe), rank = generated("moe", with(moe, {{"expert", "4"}}));
  // 32 tokens to 2 of 8 experts: 8 tokens of each rank for each expert, of 64 features. Two
  // exchanges in each of 2 layers; the backward pass does the reverse.
  const Bytes exchanged{4 * 8 * 8 * 64};
  using enum CollectiveKind;
  CHECK(count(rank, all_to_all, Phase::forward, exchanged) == 2 * 2);
  CHECK(count(rank, all_to_all, Phase::backward, exchanged) == 2 * 2);
  // A rank has 2 of 8 experts, each with four times the tokens: as many products.
  CHECK(forward_parameters(one) - forward_parameters(rank) == 2 * 6 * 3 * 96 * 64);
  const auto products = [](const OpGraph& graph) {
    std::int64_t sum = 0;
    for (const OpId v : graph.ops())
      for (const OpWork& kernel : graph.kernels(v))
        if (kernel.matrix.kind == MatrixKind::product) sum += kernel.flops;
    return sum;
  };
  CHECK(products(one) == products(rank));
}

// As above. A rank's two experts are one op, whose products are two in one kernel. A token's
// two experts are each on one of four ranks: it goes to 4 (1 - (3/4)^2) = 1.75 of them, not to 2.
TEST_CASE("experts in one kernel, and tokens that are sent to a rank once") {
  const Settings moe =
      with(tiny_llama, {{"num_local_experts", "8"}, {"num_experts_per_tok", "2"}, {"expert", "4"}});
  const OpGraph apart = generated("moe", moe),
                grouped = generated("moe", with(moe, {{"kernels.grouped_gemm", "true"}})),
                once = generated("moe", with(moe, {{"kernels.grouped_gemm", "true"},
                                                   {"kernels.dispatch_once", "4"}}));
  CHECK(forward_parameters(grouped) == forward_parameters(apart));
  const auto products = [](const OpGraph& graph, std::int64_t count) {
    std::int64_t sum = 0;
    for (const OpId v : graph.ops())
      for (const OpWork& kernel : graph.kernels(v))
        if (holds(graph.name(v), "/expert_") && kernel.matrix.kind == MatrixKind::product &&
            kernel.matrix.count == count)
          sum += kernel.flops;
    return sum;
  };
  CHECK(products(grouped, 2) == products(apart, 1));
  CHECK(products(grouped, 1) == 0);
  CHECK(grouped.find("layer_0/expert_all"));
  CHECK(grouped.find("layer_0/sort"));
  using enum CollectiveKind;
  const Bytes whole{4 * 8 * 8 * 64};
  CHECK(count(grouped, all_to_all, Phase::forward, whole) == 2 * 2);
  CHECK(count(once, all_to_all, Phase::forward, Bytes{whole.count * 7 / 8}) == 2 * 2);
  CHECK_FALSE(once.find("layer_0/sort"));  // the receiver sorts its copies
  CHECK_REFUSED(generated("moe", with(moe, {{"kernels.dispatch_once", "4"}})),
                doctest::Contains("needs grouped_gemm"));
}
