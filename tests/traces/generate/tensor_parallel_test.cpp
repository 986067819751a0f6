#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "sim/error.h"
#include "sim/transform/transform.h"
#include "tests/message.h"
#include "traces/generator.h"

using namespace baechi;
using namespace baechi::testing;
using namespace baechi::literals;

namespace {

using Settings = std::map<std::string, std::string>;

OpGraph generated(const char* generator, const Settings& settings) {
  std::map<std::string, Options::Value> values;
  for (const auto& [key, text] : settings) values[key] = {text, {}, {}};
  return generate_trace(generator, Options(generator, std::move(values))).graph;
}
OpGraph gpt(const Settings& settings) {
  return generated("gpt", settings);
}
Settings with(Settings settings, const Settings& more) {
  for (const auto& [key, value] : more) settings[key] = value;
  return settings;
}

const Settings tiny_gpt{{"layers", "3"},  {"hidden", "64"}, {"heads", "4"},
                        {"length", "32"}, {"batch", "2"},   {"vocabulary", "128"}};
const Settings tiny_llama{{"layers", "2"},          {"hidden", "64"}, {"heads", "8"},
                          {"key_value_heads", "2"}, {"inner", "96"},  {"length", "32"},
                          {"vocabulary", "128"}};

/// Bytes that the kernels of an op move.
std::int64_t traffic(const OpGraph& graph, const char* op) {
  std::int64_t sum = 0;
  for (const OpWork& kernel : graph.kernels(*graph.find(op))) sum += kernel.traffic.count;
  return sum;
}

/// How many collectives of a kind a phase has; all move so many bytes.
std::size_t count(const OpGraph& graph, CollectiveKind kind, Phase phase, Bytes bytes) {
  std::size_t found = 0;
  for (const Collective& c : graph.collectives()) {
    if (c.kind != kind || graph.op(c.first).phase != phase) continue;
    CHECK(c.bytes == bytes);
    ++found;
  }
  return found;
}

/// Bytes that kernels of a phase move.
std::int64_t moved(const OpGraph& graph, Phase phase) {
  std::int64_t bytes = 0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == phase) bytes += graph.work(v).traffic.count;
  return bytes;
}

/// Bytes that forward ops of layers leave for backward ops.
std::int64_t kept(const OpGraph& graph, std::string_view layers) {
  std::int64_t bytes = 0;
  for (const TensorId t : graph.tensors()) {
    const OpId v = graph.tensor(t).producer;
    if (graph.op(v).phase != Phase::forward || !graph.name(v).starts_with(layers)) continue;
    for (const EdgeId e : graph.readers(t))
      if (graph.op(graph.edge(e).dst).phase == Phase::backward) {
        bytes += graph.tensor(t).held().count;
        break;
      }
  }
  return bytes;
}

std::int64_t flops(const OpGraph& graph, Phase phase) {
  std::int64_t sum = 0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == phase)
      for (const OpWork& kernel : graph.kernels(v)) sum += kernel.flops;
  return sum;
}

/// Weights of the forward ops, in numbers of 4 bytes.
std::int64_t parameters(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == Phase::forward) bytes += graph.op(v).persistent.count;
  return bytes / 4;
}

}  // namespace

TEST_SUITE("eager kernels") {
  // 64 tokens, 3 layers. The outputs of products with a bias have 3 x 64 + 64 + 256 + 64 = 576
  // features, whose gradients are summed over the tokens; those of q, k and v are joined.
  TEST_CASE("PyTorch sums gradients of biases, joins those of q, k and v, and updates in parts") {
    const Settings plain = with(tiny_gpt, {{"fused_attention", "true"}, {"dropout", "false"}});
    const OpGraph one = gpt(plain), eager = gpt(with(plain, {{"eager", "true"}}));
    CHECK(moved(eager, Phase::forward) == moved(one, Phase::forward));
    CHECK(moved(eager, Phase::backward) - moved(one, Phase::backward) ==
          3 * 64 * 576 * 4 + 3 * 2 * 3 * 64 * 64 * 4);
    // 7 words of each parameter in one kernel, or 23 in ten: the norm and the scaled gradients 3.
    CHECK(7 * moved(eager, Phase::update) == 23 * moved(one, Phase::update));
  }

  // 12 layers of 768 features, 8 tokens. Eager: gradients of biases are summed over 5 x 768 + 3072
  // features in a layer, and over the answers' 2; masks, half of a number's 4 bytes, of a dropout
  // in the embeddings and two in a layer; a sum of biases that reads and writes 3072 features.
  TEST_CASE("BERT in PyTorch adds biases before its GELU, and drops by a mask") {
    const Settings plain{{"batch", "1"}, {"length", "8"}, {"answers", "true"}};
    const OpGraph one = generated("bert", plain),
                  eager = generated("bert", with(plain, {{"eager", "true"}}));
    constexpr std::int64_t layers = 12, tokens = 8, mask = tokens * 768 * 2;
    CHECK(moved(eager, Phase::forward) - moved(one, Phase::forward) ==
          layers * (2 * tokens * 3072 * 4 + 2 * mask) + mask);
    CHECK(moved(eager, Phase::backward) - moved(one, Phase::backward) ==
          layers * (tokens * (5 * 768 + 3072) * 4 + 2 * mask) + mask + tokens * 2 * 4);
  }

  TEST_CASE("an optimizer is one kernel with eager layers, too, if it is fused") {
    const OpGraph one = gpt(tiny_gpt),
                  fused = gpt(with(tiny_gpt, {{"eager", "true"}, {"fused_update", "true"}}));
    CHECK(moved(fused, Phase::update) == moved(one, Phase::update));
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
  //   once for dx: -3 S / 2.
  TEST_CASE("attention that is not fused has the kernels of PyTorch or of Megatron-LM") {
    constexpr double scores = 32'768.0;
    const OpGraph one = gpt(tiny_gpt);
    const auto more = [&](const char* kernels, Phase phase) {
      const OpGraph other = gpt(with(tiny_gpt, {{"kernels", kernels}}));
      return static_cast<double>(moved(other, phase) - moved(one, phase)) / (3.0 * scores);
    };
    CHECK(more("torch", Phase::forward) == doctest::Approx(16.5 - 10.0));
    CHECK(more("torch", Phase::backward) == doctest::Approx(19.5 - 12.0));
    CHECK(more("megatron", Phase::forward) == doctest::Approx(9.5 - 10.0 - 2.5));
    CHECK(more("megatron", Phase::backward) == doctest::Approx(17.5 - 12.0 - 1.5));
    // Two products of each head forward, four backward: the number of heads grows with the batch.
    const OpGraph torch = gpt(with(tiny_gpt, {{"kernels", "torch"}}));
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
    const OpGraph one = gpt(tiny_gpt), two = gpt(with(tiny_gpt, {{"metrics", "2"}}));
    CHECK(moved(two, Phase::forward) - moved(one, Phase::forward) == 7 * 64 * 128 * 4);
    CHECK(moved(two, Phase::backward) == moved(one, Phase::backward));
  }

  // q, k, v: read and written; the output: zeros, read and written. Backward the other way round.
  TEST_CASE("packed tokens are copied for a fused kernel, and its output back") {
    const Settings plain = with(tiny_gpt, {{"fused_attention", "true"}});
    const OpGraph one = gpt(plain), packed = gpt(with(plain, {{"packed_tokens", "true"}}));
    constexpr std::int64_t tokens = 3 * 64 * 64 * 4;  // of three layers
    CHECK(moved(packed, Phase::forward) - moved(one, Phase::forward) == 9 * tokens);
    CHECK(moved(packed, Phase::backward) - moved(one, Phase::backward) == 11 * tokens);
  }

  // 16 tokens of a rank, after 16 of another: in the mean one sees 16 and half of its own.
  TEST_CASE("without balance the last of the ranks that share tokens has the most to do") {
    const auto seen = [](const Settings& more) {
      const OpGraph graph = generated("llama", with(tiny_llama, more));
      for (const OpId v : graph.ops())
        for (const OpWork& kernel : graph.kernels(v))
          if (kernel.matrix.kind >= MatrixKind::attention) return kernel.matrix;
      return MatrixShape{};
    };
    CHECK(seen({{"context", "2"}}) == MatrixShape{MatrixKind::causal_attention, 0, 16, 8, 32});
    CHECK(seen({{"context", "2"}, {"balanced", "false"}}) ==
          MatrixShape{MatrixKind::attention, 0, 16, 8, 24});
    CHECK(seen({{"balanced", "false"}}) == seen({}));
  }

  // 32 tokens, 2 layers; in bytes of 32 bits: five norms 18 instead of 3, queries (64) and keys
  // (16) turned 10 instead of 2, the gated network (96) 5 instead of 3, the loss (128) 3.5 instead
  // of 2. Keys and values (16 each) are written for all heads, and read.
  TEST_CASE("a Llama without fused modules moves its tokens more often") {
    const OpGraph one = generated("llama", tiny_llama),
                  eager = generated("llama", with(tiny_llama, {{"eager", "true"}}));
    constexpr std::int64_t token = 32 * 4;
    CHECK(moved(eager, Phase::forward) - moved(one, Phase::forward) ==
          5 * 15 * 64 * token + 2 * (8 * (64 + 16) + 2 * 96 + 2 * 64 + 2 * 16) * token +
              token * 128 * 3 / 2);
  }
}

TEST_SUITE("recomputed operations") {
  // A layer's second, fourth and sixth product: keys (16 features), the output of attention (64)
  // and the gate's other half (96), each with x, its weights and y. Besides: two norms of 3 times
  // the tokens, queries and keys turned 2, the gated network 3, two residuals 3. 32 tokens.
  TEST_CASE("every second product is computed again, and all else but attention's core") {
    const OpGraph one = generated("llama", tiny_llama),
                  again = generated("llama", with(tiny_llama, {{"recompute_operations", "true"}}));
    constexpr std::int64_t products =
        32 * (64 + 16) + 64 * 16 + 32 * (64 + 64) + 64 * 64 + 32 * (64 + 96) + 64 * 96;
    constexpr std::int64_t passes = 32 * (2 * 3 * 64 + 2 * (64 + 16) + 3 * 96 + 2 * 3 * 64);
    CHECK(moved(again, Phase::backward) - moved(one, Phase::backward) ==
          2 * 4 * (products + passes));
    CHECK(moved(again, Phase::forward) == moved(one, Phase::forward));
    // Not kept in a layer: the inputs of q, k and v and of the gated network's products (a norm's
    // output each), the turned queries and keys, the other half, and what the gate makes of both.
    CHECK(kept(one, "layer_") - kept(again, "layer_") ==
          2 * 4 * 32 * (2 * 64 + 64 + 16 + 2 * 96) + 2 * 2 * 4 * 32);
  }
}

TEST_SUITE("tensor parallel") {
  TEST_CASE("GPT-3 has 175 billion parameters, and a rank of eight an eighth of the products") {
    const Settings gpt3{{"layers", "96"},   {"hidden", "12288"},   {"heads", "96"},
                        {"length", "2048"}, {"training", "false"}, {"vocabulary", "51200"}};
    Settings rank = gpt3;
    rank["tensor"] = "8";
    // Per block 12 h^2 + 13 h; words and positions; the last normalisation.
    constexpr std::int64_t h = 12288, blocks = 96;
    CHECK(parameters(gpt(gpt3)) == blocks * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h);
    // Whole on each rank: two normalisations (4 h) and two biases (2 h) per block, positions, the
    // last normalisation. An eighth of the rest: 12 h^2 + 7 h per block, and the words.
    CHECK(parameters(gpt(rank)) ==
          blocks * ((12 * h * h + 7 * h) / 8 + 6 * h) + (51200 / 8 + 2048) * h + 2 * h);
  }

  // Nemotron-4 340B: 96 blocks of h = 18432 features, 96 heads of 192, 8 of keys and values, 4 h
  // inside, no biases. A block: 2 h^2 (queries, outputs), 2 h 8 192 (keys, values), 8 h^2 inside,
  // two normalisations of 2 h. Its report, table 1: 331.6 billion parameters, and 9.4 of
  // embeddings.
  TEST_CASE("a GPT as Nemotron-4: its published parameters, and max(x, 0)^2 in place of GELU") {
    constexpr std::int64_t h = 18'432, block = 2 * h * h + 2 * h * 8 * 192 + 8 * h * h + 4 * h;
    const OpGraph nemotron = gpt({{"layers", "96"},
                                  {"hidden", "18432"},
                                  {"heads", "96"},
                                  {"key_value_heads", "8"},
                                  {"length", "4096"},
                                  {"training", "false"},
                                  {"vocabulary", "256000"},
                                  {"tied", "false"},
                                  {"bias", "false"},
                                  {"positions", "rotary"},
                                  {"activation", "squared_relu"},
                                  {"fused_attention", "true"}});
    CHECK(parameters(nemotron) == 96 * block + 2 * 256'000 * h + 2 * h);
    CHECK(doctest::Approx(331.6e9).epsilon(0.0005) == static_cast<double>(96 * block + 2 * h));
    // Two operations an element where GELU has ten, of 2 x 32 tokens of 4 x 64 features in 3
    // blocks; the same with experts, each of which takes 16 of the 64 tokens.
    for (const char* experts : {"0", "4"}) {
      const Settings plain = with(tiny_gpt, {{"experts", experts}});
      const OpGraph before = gpt(plain), after = gpt(with(plain, {{"activation", "squared_relu"}}));
      CHECK(flops(before, Phase::forward) - flops(after, Phase::forward) == 3 * 8 * 64 * 256);
      CHECK(kept(before, "") == kept(after, ""));
    }
    // Ranks share the embeddings' tokens, which a normalisation and a residual read: both gradients
    // are one value before the ranks gather it, as behind both parts of 3 blocks. What these parts
    // and the logits gathered is gathered once more.
    const OpGraph shared = gpt(with(tiny_gpt, {{"tensor", "2"},
                                               {"sequence_parallel", "true"},
                                               {"dropout", "false"},
                                               {"positions", "none"}}));
    CHECK(count(shared, CollectiveKind::all_gather, Phase::backward, Bytes{64 * 64 * 4}) ==
          1 + 6 + 7);
  }

  // Three blocks of four experts on four ranks, two of which share the 64 tokens of 64 features. A
  // rank has one expert, or halves of two: as many weights and operations. It has 8 tokens for each
  // of four experts; two ranks gather 2 x 32 tokens, and add up what their halves make of them: a
  // gather and a scatter more in each pass of a block. Tokens go to two groups instead of four.
  TEST_CASE("ranks divide experts: the same weights and work, and a gather and a sum more") {
    const Settings whole = with(tiny_gpt, {{"experts", "4"},
                                           {"expert", "4"},
                                           {"tensor", "2"},
                                           {"sequence_parallel", "true"},
                                           {"bias", "false"}});
    const OpGraph before = gpt(whole), after = gpt(with(whole, {{"expert_tensor", "2"}}));
    CHECK(parameters(before) == parameters(after));
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
    CHECK(message<InputError>([&] {
            gpt(with(whole, {{"expert_tensor", "3"}}));
          }).find("does not divide the 4 of 'expert'") != std::string::npos);
  }

  // Two blocks, 8 heads, 32 tokens: 8 x 32 x 32 scores. Queries and keys of a head have 8 + 4
  // features, values 8. Forward one product of each, and 5 operations a score. Backward the first
  // once more, three of the keys' width in all, two of the values', and 8 operations. With a window
  // of 4 the first block has an eighth of the scores.
  TEST_CASE("latent attention has keys wider than values; every second block sees a window") {
    const Settings latent = with(tiny_llama, {{"key_value_heads", "8"},
                                              {"key_value_rank", "32"},
                                              {"query_rank", "16"},
                                              {"rotary_size", "4"}});
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
    const OpGraph windowed = generated("llama", with(latent, {{"window", "4"}}));
    const std::vector<OpWork> seen = cores(windowed, Phase::forward);
    REQUIRE(seen.size() == 2);
    CHECK(seen[0].flops == (2 * scores * (12 + 8) + 5 * scores) / 8);
    CHECK(seen[0].matrix.inner == 4);
    CHECK(seen[1].flops == 2 * scores * (12 + 8) + 5 * scores);
    // Weights of a block: queries 64 x 16 + 16 x 8 x 12, keys and values 64 (32 + 4) + 32 x 8 x 16,
    // normalisations 16 + 32, in place of three products of 64 x 64.
    const OpGraph plain = generated("llama", with(tiny_llama, {{"key_value_heads", "8"}}));
    CHECK(parameters(all) - parameters(plain) ==
          2 * (64 * 16 + 16 * 96 + 64 * 36 + 32 * 128 + 48 - 3 * 64 * 64));
    CHECK(message<InputError>([&] {
            generated("llama", with(latent, {{"tensor", "2"}}));
          }).find("ranks cannot share it") != std::string::npos);
  }

  // Two layers on each side: 2 x 32 tokens read and 2 x 16 written, of 64 features, 256 inside.
  TEST_CASE(
      "a transformer as T5: biases, a table of positions, GELU, a shorter side that is written") {
    const Settings plain{{"layers", "2"},  {"hidden", "64"},        {"heads", "4"},
                         {"inner", "256"}, {"vocabulary", "128"},   {"batch", "2"},
                         {"length", "32"}, {"target_length", "16"}, {"shared_embeddings", "true"}};
    const OpGraph before = generated("transformer", plain);
    const auto more = [&](const Settings& settings) {
      return generated("transformer", with(plain, settings));
    };
    // Four products in each of 2 + 2 x 2 attentions, and a bias of each word.
    CHECK(parameters(more({{"bias", "true"}})) - parameters(before) == 6 * 4 * 64 + 128);
    CHECK(parameters(more({{"learned_positions", "true"}})) - parameters(before) == 32 * 64);
    // GELU keeps its input besides its output, ReLU does not: 4 bytes a number.
    CHECK(kept(more({{"activation", "gelu"}}), "") - kept(before, "") ==
          4 * 256 * 2 * (2 * 32 + 2 * 16));
  }

  // 3 blocks, 64 tokens of 64 features, 256 inside, 4 experts of 16 tokens each. A network has
  // 2 x 64 x 256 weights and 256 + 64 biases; the router 64 x 4. Beside one network's bytes a block
  // keeps what it sends to experts (64 numbers a token), GELU before its weight (256), four
  // probabilities, the choice and its weight. Four ranks have one expert each.
  TEST_CASE(
      "a GPT whose tokens go to experts: weights, and what is kept for the weight of a route") {
    constexpr std::int64_t network = 2 * 64 * 256 + 256 + 64;
    const Settings experts = with(tiny_gpt, {{"experts", "4"}, {"dropout", "false"}});
    const OpGraph one = gpt(with(tiny_gpt, {{"dropout", "false"}})), four = gpt(experts);
    CHECK(parameters(four) - parameters(one) == 3 * (3 * network + 64 * 4));
    CHECK(kept(four, "h_") - kept(one, "h_") == 3 * 4 * 64 * (64 + 256 + 4 + 1 + 1));
    const OpGraph rank = gpt(with(experts, {{"expert", "4"}}));
    CHECK(parameters(four) - parameters(rank) == 3 * 3 * network);
    CHECK(message<InputError>([] { gpt(with(tiny_gpt, {{"expert", "2"}})); }) ==
          "gpt.expert: ranks share experts, and there are none");
  }

  // Two ranks gather before each of 2 x 2 + 2 x 3 parts, for 2 attentions over the other side, and
  // for the words; they add up and divide behind each part and both embeddings.
  TEST_CASE("ranks of a transformer share its words, too") {
    const Settings shared{{"layers", "2"}, {"tensor", "2"}, {"sequence_parallel", "true"}};
    const OpGraph graph = generated("transformer", shared);
    const auto forward = [&](CollectiveKind kind) {
      return std::ranges::count_if(graph.collectives(), [&](const Collective& c) {
        return c.kind == kind && graph.op(c.first).phase == Phase::forward;
      });
    };
    CHECK(forward(CollectiveKind::all_gather) == 10 + 2 + 1);
    CHECK(forward(CollectiveKind::reduce_scatter) == 10 + 2);
    CHECK(forward(CollectiveKind::all_reduce) == 0);
    CHECK(message<InputError>([&] { generated("transformer", {{"context", "2"}}); }) ==
          "transformer.context: one rank has all words of a sentence; or sequence_parallel");
  }

  // BERT-base has 768 features, here 2,048 words; two ranks have 1,024 words each.
  TEST_CASE("logits of BERT that are not tied have weights of their own") {
    const auto extra = [](const char* ranks) {
      const Settings tied{{"vocabulary", "2048"}, {"tensor", ranks}};
      return parameters(generated("bert", with(tied, {{"tied", "false"}}))) -
             parameters(generated("bert", tied));
    };
    CHECK(extra("1") == 2048 * 768);
    CHECK(extra("2") == 1024 * 768);
  }

  // 3 layers, 64 tokens of 64 features in 4 heads. Each norm has a weight and a shift for the 16
  // features of a head. It keeps its input, 4 bytes a number, and a mean and a deviation of each
  // head: 64 (64 + 2 x 4) numbers for queries, as many for keys. Two ranks have half of the heads
  // each.
  TEST_CASE("queries and keys are normalised in each head, with weights that heads share") {
    for (const char* ranks : {"1", "2"}) {
      CAPTURE(ranks);
      const Settings plain = with(tiny_gpt, {{"tensor", ranks}});
      const OpGraph before = gpt(plain), after = gpt(with(plain, {{"query_key_norm", "true"}}));
      CHECK(parameters(after) - parameters(before) == 3 * 2 * (16 + 16));
      CHECK(kept(after, "h_") - kept(before, "h_") ==
            3 * 2 * 4 * 64 * (64 + 2 * 4) / (*ranks - '0'));
    }
  }

  // Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys
  // 2023, equation 2: a layer keeps s b h (10 + 24/t + 5 a s / (h t)) bytes with 16-bit numbers.
  // Left out there: a mean and a deviation in 32 bits of each token, in two normalisations.
  TEST_CASE("a layer keeps what Korthikanti et al. count") {
    constexpr std::int64_t s = 64, b = 2, h = 256, a = 8;
    const auto kept = [&](const char* layers, const char* tensor) {
      const OpGraph rank =
          make_transform("precision", Options("precision", {{"to", {"bf16", {}, {}}}}))
              ->apply(gpt({{"layers", layers},
                           {"hidden", "256"},
                           {"heads", "8"},
                           {"length", "64"},
                           {"batch", "2"},
                           {"tensor", tensor},
                           {"vocabulary", "512"}}))
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
    const OpGraph graph = gpt({{"layers", "3"},
                               {"hidden", "64"},
                               {"heads", "4"},
                               {"length", "32"},
                               {"tensor", "4"},
                               {"batch", "2"},
                               {"vocabulary", "128"}});
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
    CHECK(gpt({{"layers", "3"}}).collectives().empty());
  }

  TEST_CASE(
      "a loss of separate kernels moves the logits 9.5 times forward and 3.5 times backward") {
    const OpGraph graph = gpt({{"layers", "1"},
                               {"hidden", "64"},
                               {"heads", "4"},
                               {"length", "32"},
                               {"batch", "2"},
                               {"vocabulary", "128"},
                               {"loss", "separate"}});
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
    const OpGraph llama = generated("llama", with(tiny_llama, {{"loss", "separate"}}));
    CHECK(2 * traffic(llama, "loss") == 19 * 4 * 32 * 128);
  }

  TEST_CASE("ranks share heads, features and words evenly, or the number is refused") {
    CHECK(message<InputError>([] { gpt({{"tensor", "3"}, {"hidden", "96"}, {"heads", "16"}}); }) ==
          "gpt.tensor: 16 heads cannot be divided by 3\n"
          "gpt.tensor: 50257 tokens of the vocabulary cannot be divided by 3");
  }

  TEST_CASE("ranks that share tokens gather and scatter them, and keep their part alone") {
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

  TEST_CASE("an op of its own for the gradients of the weights does a third of the products") {
    // For a product of f operations, the gradients of its input and of its weights are f each. The
    // work stays; the first module has no gradient of an input to split off.
    const Settings apart_head = with(tiny_gpt, {{"tied", "false"}});
    const OpGraph whole = gpt(apart_head),
                  split = gpt(with(apart_head, {{"split_backward", "true"}}));
    CHECK(flops(whole, Phase::backward) == flops(split, Phase::backward));
    CHECK(parameters(whole) == parameters(split));
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

  TEST_CASE("ranks of context parallelism share the tokens, and gather keys and values") {
    const OpGraph whole = gpt(tiny_gpt), rank = gpt(with(tiny_gpt, {{"context", "4"}}));
    const Bytes gathered{4 * 2 * 32 * 64};  // batch, all tokens, features
    using enum CollectiveKind;
    // Keys and values of 3 layers, gathered once more for the backward pass.
    CHECK(count(rank, all_gather, Phase::forward, gathered) == 2 * 3);
    CHECK(count(rank, all_gather, Phase::backward, gathered) == 2 * 3);
    CHECK(count(rank, reduce_scatter, Phase::backward, gathered) == 2 * 3);
    for (const Collective& c : rank.collectives()) CHECK(c.ranks == 4);
    CHECK(parameters(rank) == parameters(whole));
    CHECK(4 * flops(rank, Phase::forward) == flops(whole, Phase::forward));
    CHECK(4 * kept(rank, "h_") == kept(whole, "h_"));
  }

  TEST_CASE("ranks share llama's heads, and repeat keys and values where these are fewer") {
    // h = 64 in 8 heads of 8, 2 of keys and values, 96 inside. A layer has q and o of h^2, k and v
    // of 16 h, 3 x 96 h, and two norms of h; 128 words twice; the last norm.
    const std::int64_t h = 64;
    const auto weights = [&](std::int64_t ranks, std::int64_t key_value) {
      const std::int64_t layer = (2 * h * h + 3 * 96 * h) / ranks + 2 * key_value * 8 * h + 2 * h;
      return 2 * layer + 2 * 128 * h / ranks + h;
    };
    CHECK(parameters(generated("llama", tiny_llama)) == weights(1, 2));
    CHECK(parameters(generated("llama", with(tiny_llama, {{"tensor", "2"}}))) == weights(2, 1));
    const Settings eight = with(tiny_llama, {{"tensor", "8"}});
    CHECK(parameters(generated("llama", eight)) == weights(8, 1));  // and not a fourth of a head
    const OpGraph sequence = generated("llama", with(eight, {{"sequence_parallel", "true"}}));
    CHECK(count(sequence, CollectiveKind::reduce_scatter, Phase::forward, Bytes{4 * 32 * 64}) ==
          2 * 2 + 1);
    CHECK(message<InputError>([&] {
            generated("llama", with(tiny_llama, {{"tensor", "3"}}));
          }).find("cannot be divided by 3") != std::string::npos);
  }

  TEST_CASE("ranks that share experts exchange the tokens of all") {
    const Settings moe = with(tiny_llama, {{"experts", "8"}, {"top_k", "2"}});
    const OpGraph one = generated("moe", moe),
                  rank = generated("moe", with(moe, {{"expert", "4"}}));
    // 32 tokens to 2 of 8 experts: 8 tokens of each rank for each expert, of 64 features. Two
    // exchanges in each of 2 layers; the backward pass does the reverse.
    const Bytes exchanged{4 * 8 * 8 * 64};
    using enum CollectiveKind;
    CHECK(count(rank, all_to_all, Phase::forward, exchanged) == 2 * 2);
    CHECK(count(rank, all_to_all, Phase::backward, exchanged) == 2 * 2);
    // A rank has 2 of 8 experts, each with four times the tokens: as many products.
    CHECK(parameters(one) - parameters(rank) == 2 * 6 * 3 * 96 * 64);
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
    const Settings moe = with(tiny_llama, {{"experts", "8"}, {"top_k", "2"}, {"expert", "4"}});
    const OpGraph apart = generated("moe", moe),
                  grouped = generated("moe", with(moe, {{"grouped_experts", "true"}})),
                  once = generated("moe",
                                   with(moe, {{"grouped_experts", "true"}, {"send_once", "4"}}));
    CHECK(parameters(grouped) == parameters(apart));
    const auto products = [](const OpGraph& graph, std::int64_t count) {
      std::int64_t sum = 0;
      for (const OpId v : graph.ops())
        for (const OpWork& kernel : graph.kernels(v))
          if (graph.name(v).find("/expert_") != std::string_view::npos &&
              kernel.matrix.kind == MatrixKind::product && kernel.matrix.count == count)
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
    CHECK_FALSE(once.find("layer_0/sort"));  // whoever receives a token sorts its copies
    CHECK(message<InputError>([&] {
            generated("moe", with(moe, {{"send_once", "4"}}));
          }).find("needs grouped_experts") != std::string::npos);
  }

  // 8 experts of 2 layers with biases of 96, 96 and 64, a router's of 8, and of attention 64, 16,
  // 16 and 64. A rank has a quarter of the experts: 64 tokens each. Their last bias moves 28 bytes
  // a number forward and 40 backward, here of words twice as long.
  TEST_CASE("biases of experts, in the product or operation by operation") {
    const Settings moe =
        with(tiny_llama,
             {{"experts", "8"}, {"top_k", "2"}, {"expert", "4"}, {"grouped_experts", "true"}});
    const OpGraph none = generated("moe", moe),
                  inside = generated("moe", with(moe, {{"bias", "true"}})),
                  apart = generated("moe", with(moe, {{"bias", "true"}, {"bias_apart", "true"}}));
    CHECK(parameters(inside) - parameters(none) ==
          2 * (2 * (96 + 96 + 64) + 8 + 64 + 16 + 16 + 64));
    CHECK(parameters(apart) == parameters(inside));
    constexpr std::int64_t numbers = 2 * 32 * 64;
    CHECK(traffic(apart, "layer_0/expert_all") - traffic(inside, "layer_0/expert_all") ==
          2 * 28 * numbers);
    CHECK(traffic(apart, "layer_0/expert_all_grad") - traffic(inside, "layer_0/expert_all_grad") ==
          2 * 40 * numbers);
    CHECK(message<InputError>([&] {
            generated("moe", with(moe, {{"bias_apart", "true"}}));
          }).find("needs grouped_experts with biases") != std::string::npos);
  }

  // 64 tokens of 64 features, 2 heads of 8 features in 2 groups, states of 4, so 16 features of
  // heads: the mixer reads 16 + 16 + 2 x 2 x 4 + 2 = 50 features. Two ranks have a head each.
  TEST_CASE("layers by letters: a mixer, an attention, a network, and ranks that divide them") {
    const Settings tiny{{"layers", "M*-"},    {"hidden", "64"},         {"heads", "4"},
                        {"head_size", "16"},  {"key_value_heads", "4"}, {"inner", "256"},
                        {"mixer_heads", "2"}, {"mixer_head_size", "8"}, {"mixer_groups", "2"},
                        {"state", "4"},       {"length", "64"},         {"vocabulary", "128"}};
    const OpGraph one = generated("hybrid", tiny),
                  rank = generated("hybrid", with(tiny, {{"tensor", "2"}}));
    CHECK(one.find("layer_0/mamba"));
    CHECK(one.find("layer_1/attention"));
    CHECK(one.find("layer_2/mlp"));
    // Products 64 x 50 and 16 x 64, 5 taps of 32, 3 numbers of a head, a norm of 16 and of 64.
    constexpr std::int64_t mixer = 64 * 50 + 16 * 64 + 5 * 32 + 3 * 2 + 16 + 64;
    constexpr std::int64_t others = 4 * 64 * 64 + 64 + 2 * 64 * 256 + 64 + 2 * 128 * 64 + 64;
    CHECK(parameters(one) == mixer + others);
    // All is halved but four norms of 64.
    CHECK(parameters(rank) == (mixer + others - 4 * 64) / 2 + 4 * 64);
    // A mixer writes 64 x 16 numbers, and keeps as many before its gate and before its norm, and a
    // number for each token and group.
    const OpGraph apart = generated("hybrid", with(tiny, {{"fuse_modules", "false"}}));
    std::int64_t written = 0;
    for (const TensorId t : apart.outputs(*apart.find("layer_0/mamba/mixer")))
      written += apart.tensor(t).size.count;
    CHECK(written == 4 * (3 * 64 * 16 + 64 * 2));
    CHECK(message<InputError>([&] {
            generated("hybrid", with(tiny, {{"layers", "MX"}}));
          }).find("of the letters M, *, - and E") != std::string::npos);
    CHECK(message<InputError>([&] {
            generated("hybrid", with(tiny, {{"context", "2"}}));
          }).find("pass over all tokens") != std::string::npos);
  }

  // A block has 4 products of attention, 64 x 64, and 3 of 64 x 96 inside: adapters of 8 have 8 for
  // each feature on either side. The others have no gradients.
  TEST_CASE("adapters alone are trained: no gradients of other weights") {
    const Settings all = with(tiny_llama, {{"key_value_heads", "4"}, {"heads", "4"}});
    const OpGraph whole = generated("llama", all),
                  adapted = generated("llama", with(all, {{"adapters", "8"}}));
    std::int64_t updated = 0, gradients = 0;
    for (const OpId v : adapted.ops()) {
      if (adapted.op(v).phase == Phase::update) updated += adapted.op(v).persistent.count;
      for (const OpWork& kernel : adapted.kernels(v))  // inner 0: the gradient of weights
        if (kernel.matrix.kind == MatrixKind::product && kernel.matrix.inner == 0) ++gradients;
    }
    const std::int64_t layers = 2, trained = layers * 8 * (4 * 128 + 3 * (64 + 96));
    CHECK(updated == 2 * 4 * trained);  // two moments of 4 bytes
    CHECK(gradients == layers * 7 * 2);
    CHECK(parameters(adapted) - parameters(whole) == trained);
    // Beside queries, keys and values alone.
    const OpGraph few =
        generated("llama", with(all, {{"adapters", "8"}, {"adapters_beside", "attention_qkv"}}));
    CHECK(parameters(few) - parameters(whole) == layers * 8 * 3 * 128);
  }

  // A sample of 32 tokens has two documents of 16: half of the scores, 2 x 8 heads x 16 x 16, of 4
  // x 8 operations for products and 5 more.
  TEST_CASE("tokens see those of their own document") {
    const auto attention = [](const Settings& more) {
      const OpGraph graph = generated("llama", with(tiny_llama, more));
      for (const OpWork& kernel : graph.kernels(*graph.find("layer_0/self_attn")))
        if (kernel.matrix.kind >= MatrixKind::attention) return kernel;
      return OpWork{};
    };
    const OpWork one = attention({}), two = attention({{"document", "16"}});
    CHECK(one.flops == 8 * 32 * 32 * (4 * 8 + 5));
    CHECK(two.flops == 2 * 8 * 16 * 16 * (4 * 8 + 5));
    CHECK(two.traffic == one.traffic);
    CHECK(two.matrix == MatrixShape{MatrixKind::causal_attention, 0, 16, 8, 16});
    CHECK(attention({{"document", "32"}}).flops == one.flops);
    CHECK(message<InputError>([&] { attention({{"document", "15"}}); }).find("must divide") !=
          std::string::npos);
  }

  // 32 tokens of 64 features as queries and 16 as keys, 4 bytes each: apart they are moved 12 times
  // instead of twice, and 17 times instead of twice backward.
  TEST_CASE("rotary positions operation by operation") {
    const OpGraph fused = generated("llama", tiny_llama),
                  apart = generated("llama", with(tiny_llama, {{"rotary_apart", "true"}}));
    constexpr std::int64_t moved = 32 * (64 + 16) * 4;
    CHECK(traffic(apart, "layer_0/self_attn") - traffic(fused, "layer_0/self_attn") == 10 * moved);
    CHECK(traffic(apart, "layer_0/self_attn_grad") - traffic(fused, "layer_0/self_attn_grad") ==
          15 * moved);
  }

  // 32 tokens of 64 features, 4 bytes each, before two norms in each of two layers: a dropout moves
  // them twice, a cast 1.5 times; the activation of 96 features 5 times instead of 3. Once more are
  // these and the norm, 3.
  TEST_CASE("InternLM's blocks launch kernels that others have fused") {
    const OpGraph fused = generated("llama", tiny_llama),
                  apart = generated("llama", with(tiny_llama, {{"internlm_kernels", "true"}})),
                  again = generated("llama", with(tiny_llama, {{"internlm_kernels", "true"},
                                                               {"recompute_norm", "true"}}));
    constexpr std::int64_t token = 32 * 4;
    CHECK(moved(apart, Phase::forward) - moved(fused, Phase::forward) ==
          2 * (2 * 64 * 7 / 2 + 2 * 96) * token);
    CHECK(moved(again, Phase::forward) == moved(apart, Phase::forward));
    CHECK(moved(again, Phase::backward) - moved(apart, Phase::backward) ==
          2 * 2 * 64 * 13 / 2 * token);
    CHECK(message<InputError>([&] {
            generated("llama", with(tiny_llama, {{"recompute_norm", "true"}}));
          }).find("needs internlm_kernels") != std::string::npos);
  }

  // A rank's experts have 64 tokens of 96 features, 4 bytes each. What is limited apart moves 8
  // times as much forward, 10 backward; what is activated again reads two and writes one.
  TEST_CASE("what experts activate is limited apart, and activated again") {
    const Settings moe =
        with(tiny_llama,
             {{"experts", "8"}, {"top_k", "2"}, {"expert", "4"}, {"grouped_experts", "true"}});
    const OpGraph plain = generated("moe", moe),
                  clamped = generated("moe", with(moe, {{"clamp_apart", "true"}})),
                  again = generated("moe", with(moe, {{"recompute_activation", "true"}}));
    constexpr std::int64_t features = 64 * 96 * 4;
    const auto more = [&](const OpGraph& graph, const char* op) {
      return traffic(graph, op) - traffic(plain, op);
    };
    CHECK(more(clamped, "layer_0/expert_all") == 8 * features);
    CHECK(more(clamped, "layer_0/expert_all_grad") == 10 * features);
    CHECK(more(again, "layer_0/expert_all") == 0);
    CHECK(more(again, "layer_0/expert_all_grad") == 3 * features);
    CHECK(message<InputError>([&] {
            generated("moe", with(tiny_llama, {{"clamp_apart", "true"}}));
          }).find("needs grouped_experts") != std::string::npos);
  }
}
