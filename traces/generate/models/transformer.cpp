#include "traces/generate/layers/attention.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

struct Transformer {
  std::int64_t batch = 0, length = 0, layers = 0, hidden = 0, heads = 0, inner = 0, words = 0;
  std::int64_t target_length = 0;  ///< of the decoder's sentences
  bool shared = false;
  bool bias = false;  ///< in the attention and the last projection, too
  bool gelu = false, learned_positions = false;
  /// Raffel et al., 2020: RMS norms before the parts and behind the last, no biases nor positions
  /// of tokens, one table for both sides; `gated` networks as of version 1.1.
  bool t5 = false, gated = false;
  bool tied = false;  ///< the projection's weights are the embeddings
  std::int64_t decoder_layers = 0, head_size = 0;
  Ranks ranks{};
  Attention core{.dropout = true};
};

ValueId residual_norm(Model& model, const Transformer& s, ValueId y, ValueId x) {
  if (s.t5) return add(model, "residual", dropout(model, "dropout", y), x);
  return layer_norm(model, "layer_norm", add(model, "residual", dropout(model, "dropout", y), x));
}

/// Attention of `x` over `memory`, its projection added to `x`, and the sum normalised. Ranks share
/// the heads; the sum over them is an op between two modules.
ValueId cross_attention_module(Model& model, const Transformer& s, const std::string& name,
                               ValueId x, ValueId memory, bool causal) {
  const std::int64_t width = s.head_size * s.heads / s.ranks.tensor;
  ValueId from = split_to_ranks(model, name + "/split", x, s.ranks);
  ValueId over =
      memory == x ? from : split_to_ranks(model, name + "/split_memory", memory, s.ranks);
  ValueId y{};
  {
    const auto module = model.module(name, "MultiHeadAttention");
    if (s.t5) from = rms_norm(model, "norm", from);
    if (s.t5 && memory == x) over = from;
    const ValueId q = dense(model, "w_qs", from, width, s.bias);
    const ValueId k = dense(model, "w_ks", over, width, s.bias);
    const ValueId v = dense(model, "w_vs", over, width, s.bias);
    Attention core = s.core;
    core.heads = s.heads / s.ranks.tensor;
    core.causal = causal;
    y = dense(model, "fc", attention(model, "attention", q, k, v, core), s.hidden, s.bias);
    if (s.ranks.tensor == 1) return residual_norm(model, s, y, x);
  }
  y = sum_of_ranks(model, name + "/sum", y, s.ranks);
  const auto module = model.module(name + "_out", "ResidualNorm");
  return residual_norm(model, s, y, x);
}

ValueId feed_forward_sublayer(Model& model, const Transformer& s, ValueId x) {
  ValueId from = split_to_ranks(model, "pos_ffn/split", x, s.ranks);
  ValueId y{};
  {
    const auto module = model.module("pos_ffn", "PositionwiseFeedForward");
    if (s.t5) from = rms_norm(model, "norm", from);
    const std::int64_t inner = s.inner / s.ranks.tensor;
    const ValueId wide = dense(model, "w_1", from, inner, !s.t5);
    const ValueId active =
        s.gated  ? gated_silu(model, "act", wide, dense(model, "w_gate", from, inner, false))
        : s.gelu ? gelu(model, "gelu", wide)
                 : relu(model, "relu", wide);
    y = dense(model, "w_2", active, s.hidden, !s.t5);
    if (s.ranks.tensor == 1) return residual_norm(model, s, y, x);
  }
  y = sum_of_ranks(model, "pos_ffn/sum", y, s.ranks);
  const auto module = model.module("pos_ffn_out", "ResidualNorm");
  return residual_norm(model, s, y, x);
}

ValueId embedded_tokens(Model& model, const Transformer& s, const std::string& name, ValueId ids,
                        VariableId table, std::optional<VariableId> positions) {
  ValueId x{};
  {
    const auto module = model.module(name, "Embedding");
    x = embedding(model, "lookup", ids, table);
  }
  x = sum_of_ranks(model, name + "/sum", x, s.ranks);
  if (s.t5) return x;
  const auto module = model.module("position_enc", "PositionalEncoding");
  x = positions ? add_positions(model, "add", x, *positions) : add_positions(model, "add", x);
  return dropout(model, "dropout", x);
}

/// Source: Vaswani et al., "Attention Is All You Need", 2017, table 3, "base". Linear layers of the
/// attention and the last projection have no bias, as in the code that Baechi's PyTorch version
/// trained (attention-is-all-you-need-pytorch); the modules are its 35 modules. That code also
/// normalises after the position encodings (2 x 1024 parameters); the paper does not, nor does
/// this. `tensor`: heads, inner features and words are divided by the ranks (Shoeybi et al.,
/// Megatron-LM, 2019). T5 (Raffel et al., 2020) as Megatron-LM has it is `bias`, GELU, learned
/// positions and shared embeddings, but for norms before the blocks and two more at the ends.
Model transformer(const Transformer& s) {
  Model model(fmt::format("transformer-l{}{}", s.length,
                          s.ranks.tensor > 1 ? fmt::format("-t{}", s.ranks.tensor) : ""),
              s.batch);
  const Shape source{s.batch, s.length}, target{s.batch, s.target_length},
      vocabulary{s.words / s.ranks.tensor, s.hidden};
  VariableId table{};
  std::optional<VariableId> positions;
  ValueId x{}, y{};
  {
    const auto encoder = model.scope("encoder");
    if (s.learned_positions)
      positions = model.variable("positions", {std::max(s.length, s.target_length), s.hidden},
                                 Initializer::truncated_normal);
    table = model.variable("src_word_emb", vocabulary, Initializer::truncated_normal);
    x = embedded_tokens(model, s, "src_word_emb", model.input("source", source), table, positions);
    for (std::int64_t i = 0; i < s.layers; ++i) {
      const auto layer = model.scope(fmt::format("layer_{}", i));
      x = cross_attention_module(model, s, "slf_attn", x, x, false);
      x = feed_forward_sublayer(model, s, x);
    }
    if (s.t5) x = rms_norm(model, "final_layer_norm", x);
  }
  {
    const auto decoder = model.scope("decoder");
    if (!s.shared)
      table = model.variable("trg_word_emb", vocabulary, Initializer::truncated_normal);
    y = embedded_tokens(model, s, "trg_word_emb", model.input("target", target), table, positions);
    for (std::int64_t i = 0; i < s.decoder_layers; ++i) {
      const auto layer = model.scope(fmt::format("layer_{}", i));
      y = cross_attention_module(model, s, "slf_attn", y, y, true);
      y = cross_attention_module(model, s, "enc_attn", y, x, false);
      y = feed_forward_sublayer(model, s, y);
    }
    if (s.t5) y = rms_norm(model, "final_layer_norm", y);
  }
  y = split_to_ranks(model, "trg_word_prj/split", y, s.ranks);
  const ValueId logits = s.tied ? tied_logits(model, "trg_word_prj", y, table, s.bias)
                                : dense(model, "trg_word_prj", y, s.words / s.ranks.tensor, s.bias);
  loss(model, "loss", logits, model.input("labels", target));
  return model;
}

}  // namespace

Trace make_transformer(Options& options) {
  const Expansion e = read_expansion(options, 64, Optimizer::sgd);
  Transformer s{.batch = e.batch};
  s.length = read_extent(options, "length", 50, "words of a sentence");
  s.target_length = read_extent(options, "target_length", s.length, "words that the decoder reads");
  Config config(options, "transformer", "",
                "norm (layer, behind; rms, before, as T5 has it), mlp (plain; gated), head_dim, "
                "num_decoder_layers, tie_word_embeddings");
  const auto extent = [&](const char* key, std::int64_t fallback, std::string_view help,
                          std::int64_t most = 10'000'000) {
    return read_extent(options, key, config.whole(key, fallback), help, most);
  };
  s.layers = extent("num_hidden_layers", 6, "of the encoder, and of the decoder", 1000);
  s.hidden = extent("hidden_size", 512, "width of a word");
  s.heads = extent("num_attention_heads", 8, "of an attention");
  s.inner = extent("intermediate_size", 2048, "width inside the feed-forward layers");
  s.words = extent("vocab_size", 30'000, "words of either language");
  s.t5 = config.one_of("norm", {"layer", "rms"}) == "rms";
  s.gated = config.one_of("mlp", {"plain", "gated"}) == "gated";
  s.decoder_layers = config.whole("num_decoder_layers", s.layers, 1, 1000);
  s.head_size = config.whole("head_dim", std::max<std::int64_t>(1, s.hidden / s.heads), 1, 100'000);
  const bool own_size = s.head_size != s.hidden / s.heads;
  s.shared =
      options.get("shared_embeddings", s.t5, "one table for both languages and the projection");
  s.tied = config.flag("tie_word_embeddings", s.shared);
  s.bias = options.get("bias", false, "of the attention's products and of the last projection");
  s.gelu = options.get("hidden_act", std::vector<std::string>{"relu", "gelu"},
                       "of the feed-forward layers") == "gelu";
  s.learned_positions =
      options.get("learned_positions", false, "a table of both sides in place of waves");
  s.core = read_attention(options, e, s.core);
  s.core.again = read_recompute(options, e).contains(Recomputed::core_attn);
  s.ranks.tensor = read_ranks(options, {{"heads", s.heads},
                                        {"features", s.hidden},
                                        {"inner features", s.inner},
                                        {"words of the vocabulary", s.words}});
  s.ranks = read_token_ranks(options, e, s.ranks.tensor, s.length);
  if (s.ranks.context > 1)
    options.mistake("context", "one rank has all words of a sentence; or sequence_parallel");
  if (s.ranks.sequence && s.target_length % s.ranks.tensor != 0)
    options.mistake("target_length", fmt::format("{} words cannot be divided by {}",
                                                 s.target_length, s.ranks.tensor));
  if (s.hidden % s.heads != 0 && !own_size)
    options.mistake("num_attention_heads", "does not divide 'hidden_size'");
  const std::int64_t longer = std::max(s.length, s.target_length);
  limit_work(options, s.batch, longer, s.hidden,
             std::max({s.words, s.inner, s.hidden, 2 * longer}));
  config.finish();
  options.finish();
  return expand(transformer(s), e);
}

}  // namespace baechi::generate
