#include <tuple>

#include "traces/generate/layers/attention.h"
#include "traces/generate/layers/expert_layers.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

enum class Positions : std::uint8_t { learned, rotary, none };
constexpr auto names_of(Positions) {
  return std::to_array<Named<Positions>>({{Positions::learned, "learned", "a table"},
                                          {Positions::rotary, "rotary", "turned queries and keys"},
                                          {Positions::none, "none", "such as ALiBi's"}});
}

enum class Activation : std::uint8_t { gelu, squared_relu };
constexpr auto names_of(Activation) {
  return std::to_array<Named<Activation>>(
      {{Activation::gelu, "gelu", "GPT's"},
       {Activation::squared_relu, "squared_relu", "Nemotron-4's: max(x, 0)^2"}});
}

struct Gpt {
  std::int64_t batch = 0, length = 0, layers = 0, hidden = 0, heads = 0, words = 0;
  std::int64_t positions = 1024;
  Ranks ranks{};
  bool tied = true;  ///< the logits' weights are the embeddings
  bool bias = true, dropout = true;
  bool query_key_norm = false;  ///< in each head, with weights that all heads share
  Positions position = Positions::learned;
  Activation activation = Activation::gelu;
  std::int64_t key_value_heads = 0, inner = 0;  ///< 0: as many as heads; 4 times the features
  LossKernels loss = LossKernels::fused;
  std::int64_t metrics = 0;  ///< cross-entropies besides
  bool eager = false, forgets = false;
  Attention core{.dropout = true};
  Experts experts{};
};

ValueId dropped(Model& model, const Gpt& s, ValueId x) {
  return s.dropout ? dropout(model, "dropout", x) : x;
}

/// Queries or keys of so many heads as the scores need them.
ValueId prepared(Model& model, const Gpt& s, std::string_view norm, std::string_view name,
                 ValueId x, std::int64_t heads) {
  if (s.query_key_norm) x = layer_norm(model, norm, x, heads);
  return s.position == Positions::rotary ? rotate(model, name, x) : x;
}

/// What the ranks of a part read: where they share tokens, they normalise theirs and gather all.
ValueId gathered_norm_input(Model& model, const Gpt& s, const std::string& part,
                            std::string_view norm, ValueId x) {
  if (s.ranks.sequence) {
    const auto module = model.module(part + "_in", "GPT2Input");
    x = layer_norm(model, norm, x);
  }
  return split_to_ranks(model, part + "/split", x, s.ranks);
}

/// The product whose results the ranks add up. Where they share the tokens, the sums for its bias
/// are of a rank's own tokens, and not counted.
ValueId joined_product(Model& model, const Gpt& s, ValueId x) {
  const bool fused = model.fuses_passes();
  model.fuse_passes(fused && !s.ranks.sequence);
  x = dense(model, "c_proj", x, s.hidden, s.bias);
  model.fuse_passes(fused);
  return x;
}

/// The heads, and the inner features, are divided by the ranks; normalisation, dropout and
/// residuals run on each rank.
ValueId attention_block(Model& model, const Gpt& s, ValueId x) {
  const std::int64_t width = s.hidden / s.ranks.tensor;
  const std::int64_t heads = s.key_value_heads > 0 ? s.key_value_heads : s.heads;
  const std::int64_t shared = s.hidden / s.heads * heads / s.ranks.tensor;
  const ValueId split = gathered_norm_input(model, s, "attn", "ln_1", x);
  ValueId y{}, q{}, k{}, v{};
  const auto project = [&] {
    const ValueId normal = s.ranks.sequence ? split : layer_norm(model, "ln_1", split);
    // One product for all three, in c_attn of the original; its columns are q, k and v. Megatron-LM
    // computes it as one.
    std::optional<std::int64_t> all, none;
    if (model.fuses_passes()) {
      all = width + 2 * shared;
      none = 0;
    }
    q = prepared(model, s, "ln_q", "rotate_q", dense(model, "c_attn/q", normal, width, s.bias, all),
                 s.heads / s.ranks.tensor);
    k = prepared(model, s, "ln_k", "rotate_k",
                 dense(model, "c_attn/k", normal, shared, s.bias, none), heads / s.ranks.tensor);
    v = dense(model, "c_attn/v", normal, shared, s.bias, none);
  };
  if (s.ranks.context > 1) {
    {
      const auto module = model.module("qkv", "GPT2Attention");
      project();
    }
    k = gather_context(model, "all_k", k, s.ranks);
    v = gather_context(model, "all_v", v, s.ranks);
  }
  {
    const auto module = model.module("attn", "GPT2Attention");
    if (s.ranks.context == 1) project();
    Attention core = s.core;
    core.heads = s.heads / s.ranks.tensor;
    core.key_value_heads = heads / s.ranks.tensor;
    core.dropout = s.dropout;
    y = attention(model, "core", q, k, v, core);
    y = joined_product(model, s, y);
    if (s.ranks.tensor == 1) return add(model, "residual", dropped(model, s, y), x);
  }
  y = sum_of_ranks(model, "attn/sum", y, s.ranks);
  const auto module = model.module("attn_out", "GPT2Residual");
  return add(model, "residual", dropped(model, s, y), x);
}

ValueId feed_forward_block(Model& model, const Gpt& s, ValueId x) {
  const ValueId split = gathered_norm_input(model, s, "mlp", "ln_2", x);
  ValueId y{};
  {
    const auto module = model.module("mlp", "GPT2MLP");
    const ValueId normal = s.ranks.sequence ? split : layer_norm(model, "ln_2", split);
    const std::int64_t inner = s.inner > 0 ? s.inner : 4 * s.hidden;
    y = dense(model, "c_fc", normal, inner / s.ranks.tensor, s.bias);
    y = s.activation == Activation::gelu ? gelu(model, "gelu", y)
                                         : squared_relu(model, "squared_relu", y);
    y = joined_product(model, s, y);
    if (s.ranks.tensor == 1) return add(model, "residual", dropped(model, s, y), x);
  }
  y = sum_of_ranks(model, "mlp/sum", y, s.ranks);
  const auto module = model.module("mlp_out", "GPT2Residual");
  return add(model, "residual", dropped(model, s, y), x);
}

/// The weights of the routes go into the network, as in Megatron-LM.
/// Source: Megatron-LM, core/transformer/mlp.py, per_token_scale.
ValueId experts_of_block(Model& model, const Gpt& s, ValueId x) {
  const auto network = [&](ValueId y, std::int64_t inner) {
    y = dense(model, "c_fc", y, inner, s.bias);
    y = s.activation == Activation::gelu
            ? weighted_activation(model, LayerKind::gelu, "gelu", y)
            : weighted_activation(model, LayerKind::squared_relu, "squared_relu", y);
    return dense(model, "c_proj", y, s.hidden, s.bias);
  };
  return experts_block(model, s.experts, s.batch * s.ranks.tokens(s.length), x,
                       {.norm = [&](ValueId y) { return layer_norm(model, "ln_2", y); },
                        .network = network,
                        .dropped = [&](ValueId y) { return dropped(model, s, y); },
                        .weighted = true});
}

/// The words' embeddings, and each token's with its position.
std::pair<VariableId, ValueId> embedded_with_positions(Model& model, const Gpt& s,
                                                       std::int64_t words, const Shape& tokens) {
  const VariableId table = model.variable("wte", {words, s.hidden}, Initializer::truncated_normal);
  std::optional<VariableId> positions;
  if (s.position == Positions::learned)
    positions = model.variable("wpe", {s.positions, s.hidden}, Initializer::truncated_normal);
  ValueId x = embedding(model, "words", model.input("input_ids", tokens), table);
  x = sum_of_ranks(model, "sum", x, s.ranks);
  if (positions) x = add_positions(model, "positions", x, *positions);
  if (s.ranks.sequence && !positions && !s.dropout) x = handed_on(model, "embedded", x);
  return {table, dropped(model, s, x)};
}

/// What one rank of tensor parallelism computes: the words are divided by the ranks, too. The loss
/// leaves out that the ranks add up a few numbers per token.
Model gpt(const Gpt& s, const std::string& name) {
  Model model(name, s.batch);
  model.set_eager(s.eager);
  const std::int64_t words = s.words / s.ranks.tensor;
  const Shape tokens{s.batch, s.length / s.ranks.context};
  VariableId table{};
  ValueId x{};
  if (s.ranks.tensor == 1) {
    const auto module = model.module("embeddings", "GPT2Embeddings");
    std::tie(table, x) = embedded_with_positions(model, s, words, tokens);
  } else {
    const auto scope = model.scope("embeddings");
    std::tie(table, x) = embedded_with_positions(model, s, words, tokens);
  }
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto layer = model.scope(fmt::format("h_{}", i));
    model.forget_operations(s.forgets);
    model.fuse_passes(s.core.kernels == AttentionKernels::megatron);
    x = attention_block(model, s, x);
    x = s.experts.experts > 0 ? experts_of_block(model, s, x) : feed_forward_block(model, s, x);
  }
  model.forget_operations(false);
  model.fuse_passes(false);
  x = split_to_ranks(model, "head_split", layer_norm(model, "ln_f", x), s.ranks);
  const ValueId logits =
      s.tied ? tied_logits(model, "lm_head", x, table) : dense(model, "lm_head", x, words, false);
  loss(model, "loss", logits, model.input("labels", tokens), s.loss, s.metrics);
  return model;
}

void read_sizes(Options& options, const Expansion& e, Gpt& s) {
  s.core = read_attention(options, e, s.core);
  const Recompute recompute = read_recompute(options, e);
  s.forgets = recompute.operators;
  s.core.again |= recompute.contains(Recomputed::core_attn);
  s.words = read_extent(options, "vocab_size", 50'257, "tokens there are");
  s.tied =
      options.get("tie_word_embeddings", true, "the logits' weights are the words' embeddings");
  s.ranks.tensor = read_ranks(
      options,
      {{"heads", s.heads},
       {"features", s.hidden},
       {"tokens of the vocabulary", s.words},
       {"features inside a feed-forward network", s.inner == 4 * s.hidden ? 0 : s.inner},
       {"heads of keys and values", s.key_value_heads == s.heads ? 0 : s.key_value_heads}});
  s.ranks = read_token_ranks(options, e, s.ranks.tensor, s.length);
  if (e.kernels.unfused_loss) s.loss = LossKernels::separate;
  s.metrics = e.kernels.metrics;
  s.eager = e.kernels.eager;
  limit_work(options, s.batch, s.length, s.hidden, s.words);
}

}  // namespace

/// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, table 2,
/// and the released code: 1024 positions, heads of 64, logits by the words' embeddings. Table 2
/// gives 117 M parameters for the small model; its own shapes make it 124 M.
Trace make_gpt2(Options& options) {
  Expansion e = read_expansion(options, 8, Optimizer::adam);
  const std::string size =
      options.get("size", std::vector<std::string>{"small", "medium", "large", "xl"},
                  "12, 24, 36 or 48 blocks of 768 to 1600 features");
  Gpt s{.batch = e.batch, .layers = 12, .hidden = 768};
  if (size == "medium") s = {.batch = e.batch, .layers = 24, .hidden = 1024};
  if (size == "large") s = {.batch = e.batch, .layers = 36, .hidden = 1280};
  if (size == "xl") s = {.batch = e.batch, .layers = 48, .hidden = 1600};
  s.heads = s.hidden / 64;
  s.length = read_extent(options, "length", 1024, "tokens of a sample", 1024);
  read_sizes(options, e, s);
  options.finish();
  e.megatron = s.core.kernels == AttentionKernels::megatron;
  return expand(gpt(s, fmt::format("gpt2-{}-l{}", size, s.length)), e);
}

Trace make_gpt(Options& options) {
  Expansion e = read_expansion(options, 1, Optimizer::adam);
  Gpt s{.batch = e.batch};
  Config config(
      options, "gpt", "",
      "bias (of products), use_qk_norm, position_embedding_type (learned; rotary; none, such as "
      "ALiBi's), hidden_act (gelu; squared_relu, Nemotron-4's), shared_expert_intermediate_size, "
      "capacity_factor (tokens an expert takes, over its share if all took the same)");
  const auto extent = [&](const char* key, std::int64_t fallback, std::string_view help,
                          std::int64_t most = 10'000'000) {
    return read_extent(options, key, config.whole(key, fallback), help, most);
  };
  s.layers = extent("num_hidden_layers", 24, "blocks", 1000);
  s.hidden = extent("hidden_size", 2048, "features of a token", 1'000'000);
  s.heads = extent("num_attention_heads", 16, "of attention", 10'000);
  s.length = read_extent(options, "length", 1024, "tokens of a sample", 1'000'000);
  s.positions = s.length;
  s.bias = config.flag("bias", true);
  s.dropout = options.get("dropout", true, "on probabilities, outputs of blocks and embeddings");
  s.query_key_norm = config.flag("use_qk_norm", false);
  s.position =
      *parse<Positions>(config.one_of("position_embedding_type", {"learned", "rotary", "none"}));
  s.key_value_heads = extent("num_key_value_heads", s.heads,
                             "heads of keys and values, each shared by several heads");
  s.inner = extent("intermediate_size", 4 * s.hidden, "width inside a feed-forward network");
  s.activation = *parse<Activation>(config.one_of("hidden_act", {"gelu", "squared_relu"}));
  read_sizes(options, e, s);
  s.experts = {.inner = s.inner};
  read_experts(options, config, e, s.ranks, s.experts);
  config.finish();
  if (s.heads % s.key_value_heads != 0)
    options.mistake("num_key_value_heads", "does not divide 'num_attention_heads'");
  if (s.hidden % s.heads != 0)
    options.mistake("num_attention_heads",
                    fmt::format("{} features cannot be divided by {}", s.hidden, s.heads));
  options.finish();
  e.megatron = s.core.kernels == AttentionKernels::megatron;
  return expand(
      gpt(s, fmt::format("gpt-{}x{}-l{}-t{}", s.layers, s.hidden, s.length, s.ranks.tensor)), e);
}

}  // namespace baechi::generate
