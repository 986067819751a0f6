#include <algorithm>

#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

struct Transformer {
  std::int64_t batch = 0, length = 0, layers = 0, hidden = 0, heads = 0, inner = 0, words = 0;
  bool shared = false;
  std::int64_t tensor = 1;  ///< ranks of tensor parallelism
};

ValueId residual_norm(Model& model, ValueId y, ValueId x) {
  return layer_norm(model, "layer_norm", add(model, "residual", dropout(model, "dropout", y), x));
}

/// Attention of `x` over `memory`, its projection added to `x`, and the sum normalised. Ranks share
/// the heads; the sum over them is an op between two modules.
ValueId attention_module(Model& model, const Transformer& s, const std::string& name, ValueId x,
                         ValueId memory) {
  const std::int64_t width = s.hidden / s.tensor;
  const ValueId from = split_to_ranks(model, name + "/split", x, {s.tensor});
  const ValueId over =
      memory == x ? from : split_to_ranks(model, name + "/split_memory", memory, {s.tensor});
  ValueId y{};
  {
    const auto module = model.module(name, "MultiHeadAttention");
    const ValueId q = dense(model, "w_qs", from, width, false);
    const ValueId k = dense(model, "w_ks", over, width, false);
    const ValueId v = dense(model, "w_vs", over, width, false);
    const ValueId context =
        attention(model, "attention", q, k, v, {.heads = s.heads / s.tensor, .dropout = true});
    y = dense(model, "fc", context, s.hidden, false);
    if (s.tensor == 1) return residual_norm(model, y, x);
  }
  y = sum_of_ranks(model, name + "/sum", y, {s.tensor});
  const auto module = model.module(name + "_out", "ResidualNorm");
  return residual_norm(model, y, x);
}

ValueId feed_forward_module(Model& model, const Transformer& s, ValueId x) {
  const ValueId from = split_to_ranks(model, "pos_ffn/split", x, {s.tensor});
  ValueId y{};
  {
    const auto module = model.module("pos_ffn", "PositionwiseFeedForward");
    const ValueId wide = relu(model, "relu", dense(model, "w_1", from, s.inner / s.tensor));
    y = dense(model, "w_2", wide, s.hidden);
    if (s.tensor == 1) return residual_norm(model, y, x);
  }
  y = sum_of_ranks(model, "pos_ffn/sum", y, {s.tensor});
  const auto module = model.module("pos_ffn_out", "ResidualNorm");
  return residual_norm(model, y, x);
}

ValueId embedded(Model& model, const Transformer& s, const std::string& name, ValueId ids,
                 VariableId table) {
  ValueId x{};
  {
    const auto module = model.module(name, "Embedding");
    x = embedding(model, "lookup", ids, table);
  }
  x = sum_of_ranks(model, name + "/sum", x, {s.tensor});
  const auto module = model.module("position_enc", "PositionalEncoding");
  return dropout(model, "dropout", add_positions(model, "add", x));
}

/// Source: Vaswani et al., "Attention Is All You Need", 2017, table 3, "base". Linear layers of the
/// attention and the last projection have no bias, as in the code that Baechi's PyTorch version
/// trained (attention-is-all-you-need-pytorch); the modules are its 35 modules. That code also
/// normalises after the position encodings (2 x 1024 parameters); the paper does not, nor does
/// this. `tensor`: heads, inner features and words are divided by the ranks (Shoeybi et al.,
/// Megatron-LM, 2019).
Model transformer(const Transformer& s) {
  Model model(
      fmt::format("transformer-l{}{}", s.length, s.tensor > 1 ? fmt::format("-t{}", s.tensor) : ""),
      s.batch);
  const Shape sentence{s.batch, s.length}, vocabulary{s.words / s.tensor, s.hidden};
  VariableId table{};
  ValueId x{}, y{};
  {
    const auto encoder = model.scope("encoder");
    table = model.variable("src_word_emb", vocabulary, Initializer::truncated_normal);
    x = embedded(model, s, "src_word_emb", model.input("source", sentence), table);
    for (std::int64_t i = 0; i < s.layers; ++i) {
      const auto layer = model.scope(fmt::format("layer_{}", i));
      x = attention_module(model, s, "slf_attn", x, x);
      x = feed_forward_module(model, s, x);
    }
  }
  {
    const auto decoder = model.scope("decoder");
    if (!s.shared)
      table = model.variable("trg_word_emb", vocabulary, Initializer::truncated_normal);
    y = embedded(model, s, "trg_word_emb", model.input("target", sentence), table);
    for (std::int64_t i = 0; i < s.layers; ++i) {
      const auto layer = model.scope(fmt::format("layer_{}", i));
      y = attention_module(model, s, "slf_attn", y, y);
      y = attention_module(model, s, "enc_attn", y, x);
      y = feed_forward_module(model, s, y);
    }
  }
  y = split_to_ranks(model, "trg_word_prj/split", y, {s.tensor});
  const ValueId logits = s.shared ? tied_logits(model, "trg_word_prj", y, table)
                                  : dense(model, "trg_word_prj", y, s.words / s.tensor, false);
  loss(model, "loss", logits, model.input("labels", sentence));
  return model;
}

}  // namespace

Trace make_transformer(Options& options) {
  const Expansion e = read_expansion(options, 64, Optimizer::sgd);
  Transformer s{.batch = e.batch};
  s.length = read_extent(options, "length", 50, "words of a sentence, of either side");
  s.layers = read_extent(options, "layers", 6, "of the encoder, and of the decoder", 1000);
  s.hidden = read_extent(options, "hidden", 512, "width of a word");
  s.heads = read_extent(options, "heads", 8, "of an attention");
  s.inner = read_extent(options, "inner", 2048, "width inside the feed-forward layers");
  s.words = read_extent(options, "vocabulary", 30'000, "words of either language");
  s.shared =
      options.get("shared_embeddings", false, "one table for both languages and the projection");
  s.tensor = read_ranks(options, {{"heads", s.heads},
                                  {"features", s.hidden},
                                  {"inner features", s.inner},
                                  {"words of the vocabulary", s.words}});
  if (s.hidden % s.heads != 0) options.mistake("heads", "does not divide 'hidden'");
  limit_work(options, s.batch, s.length, s.hidden,
             std::max({s.words, s.inner, s.hidden, 2 * s.length}));
  options.finish();
  return expand(transformer(s), e);
}

}  // namespace baechi::generate
