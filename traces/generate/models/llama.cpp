#include "traces/generate/layers/attention.h"
#include "traces/generate/layers/expert_layers.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

struct Decoder {
  std::int64_t batch = 0, length = 0;
  std::int64_t layers = 0, hidden = 0, heads = 0, key_value_heads = 0, inner = 0, words = 0;
  Attention core{.fused = true};
  Experts experts{};
  std::int64_t head_size = 0;
  /// Keys and values of all heads come from so many features of a token, queries from others; 0:
  /// from the token itself. Each head's queries and keys have `turned` features more, which carry
  /// positions; all heads have the same keys there.
  std::int64_t key_value_rank = 0, query_rank = 0, turned = 64;
  std::int64_t window = 0;                  ///< tokens that some blocks see; 0: all
  std::vector<bool> windowed{true, false};  ///< whether a block is one of these, again and again
  std::int64_t dense_layers = 0, dense_inner = 0;  ///< first blocks without experts
  std::int64_t sparse_step = 1;                    ///< each so-manieth of the others has them
  std::int64_t further = 0;  ///< tokens that are predicted besides the next, by a block each
  Ranks ranks{};
  std::int64_t adapters = 0;       ///< inner width of what is trained beside products; 0: all is
  bool few_adapters = false;       ///< beside those of queries, keys and values alone
  bool adapters_drop = false;      ///< they read through a dropout
  bool query_key_norm = false;     ///< in each head, with weights that all heads share
  bool rotary_apart = false;       ///< as rotate() has it
  bool bias = false;               ///< of products in attention and feed-forward networks
  std::set<std::string> biased{};  ///< some of these products
  LayerKind norm = LayerKind::rms_norm;
  bool post_norms = false;     ///< what attention and networks add is normalised, too
  bool plain = false;          ///< networks have no gate
  bool parallel = false;       ///< attention and network read the same token
  bool shared_norm = false;    ///< and then the same norm of it
  std::int64_t positions = 0;  ///< rows of a table of them, in place of rotary ones
  bool rotary = true;
  std::int64_t embedded = 0;                  ///< width of the table of words; 0: of a token
  bool embedding_norm = false;                ///< behind it
  bool internlm = false, norm_again = false;  ///< see normalised()
  LossKernels loss = LossKernels::fused;
  bool eager = false, forgets = false;
  std::set<Recomputed> again{};  ///< in the backward pass
  bool tied = false;             ///< the head has the embedding's weights
  Inference inference{};

  std::int64_t own_heads() const { return heads / ranks.tensor; }
  /// Heads of keys and values on a rank: ranks repeat them where they are fewer.
  std::int64_t own_key_value_heads() const {
    return std::max<std::int64_t>(1, key_value_heads / ranks.tensor);
  }
};

enum class Beside : std::uint8_t { attention_input, other };

ValueId decoder_norm(Model& model, const Decoder& s, std::string_view name, ValueId x,
                     std::int64_t heads = 1) {
  return s.norm == LayerKind::rms_norm ? rms_norm(model, name, x, heads)
                                       : layer_norm(model, name, x, heads);
}

/// x and what a part of a block adds to it.
ValueId decoder_residual(Model& model, const Decoder& s, ValueId y, ValueId x) {
  return add(model, "residual", s.post_norms ? decoder_norm(model, s, "post_norm", y) : y, x);
}

ValueId positioned(Model& model, const Decoder& s, std::string_view name, ValueId x) {
  return s.rotary ? rotate(model, name, x, s.rotary_apart) : x;
}

/// x times weights; where adapters alone are trained, plus two products that are. Source: Hu et
/// al., "LoRA", ICLR 2022, section 4.1; PEFT 0.10, tuners/lora/layer.py (scaling).
ValueId adapted(Model& model, const Decoder& s, std::string_view name, ValueId x,
                std::int64_t units, Beside beside = Beside::other) {
  const bool bias = s.bias || s.biased.contains("all") || s.biased.contains(std::string(name));
  const ValueId y = dense(model, name, x, units, bias);
  if (s.adapters == 0 || (s.few_adapters && beside == Beside::other)) return y;
  const std::string own(name);
  model.freeze(false);
  const ValueId in = s.adapters_drop ? dropout(model, own + "/adapter_dropout", x) : x;
  const ValueId low = dense(model, own + "/adapter_in", in, s.adapters, false);
  const ValueId high = dense(model, own + "/adapter_out", low, units, false);
  model.freeze(true);
  return add(model, own + "/adapted", y, high, true);
}

/// down(silu(gate(x)) * up(x)), or without a gate.
ValueId network(Model& model, const Decoder& s, ValueId x, std::int64_t inner) {
  if (s.plain) {
    const ValueId up = adapted(model, s, "up_proj", x, inner);
    return adapted(model, s, "down_proj", gelu(model, "act", up), s.hidden);
  }
  const ValueId gate = adapted(model, s, "gate_proj", x, inner);
  const ValueId up = adapted(model, s, "up_proj", x, inner);
  const bool of_experts = model.groups() > 1;
  const bool again = of_experts && s.experts.activation_again;
  if (again) model.forget_operations(true);
  const GateKernels kernels = of_experts && s.experts.clamp_apart ? GateKernels::clamped
                              : s.internlm                        ? GateKernels::apart
                                                                  : GateKernels::fused;
  const ValueId y = gated_silu(model, "act", gate, up, kernels);
  if (again) model.forget_operations(s.forgets);
  if (!s.experts.bias_apart || !of_experts) return adapted(model, s, "down_proj", y, s.hidden);
  return weighted_bias(model, "down_bias", dense(model, "down_proj", y, s.hidden, false));
}

/// What the ranks of a part read: where they share tokens, they normalise theirs and gather all.
ValueId gathered_input(Model& model, const Decoder& s, const std::string& part, ValueId x) {
  if (s.ranks.sequence) {
    const auto module = model.module(part + "_in", "LlamaInput");
    x = decoder_norm(model, s, "norm", x);
  }
  return split_to_ranks(model, part + "/split", x, s.ranks);
}
/// Source: InternEvo v0.2.0, model/modeling_internlm.py (_dropout_and_norm_attn and _ffn, which are
/// computed again where the block is not: dropout_selective_checkpoint).
ValueId normalised(Model& model, const Decoder& s, ValueId inside) {
  if (s.ranks.sequence) return inside;
  if (!s.internlm) return decoder_norm(model, s, "norm", inside);
  model.forget_operations(s.norm_again);
  const ValueId y = rms_norm(model, "norm", dropout(model, "dropout", inside), 1, true);
  model.forget_operations(s.forgets);
  return y;
}

struct Projected {
  ValueId q{}, k{}, v{};
};
/// The weights that make keys, or values, of a rank's heads from latent features.
Shape latent_matrix(const Decoder& s) { return {s.key_value_rank, s.own_heads() * s.head_size}; }
/// Source: DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1: multi-head latent attention. Ranks make
/// the same latent features, and queries, keys and values of their own heads. Source: Megatron-LM,
/// core/transformer/multi_latent_attention.py (linear_kv_down_proj: parallel_mode='duplicated').
Projected latent(Model& model, const Decoder& s, ValueId x) {
  const bool again = s.again.contains(Recomputed::mla_up_proj);
  const ValueId query = s.query_rank > 0 ? dense(model, "q_down", x, s.query_rank, false) : x;
  const ValueId low = dense(model, "kv_down", x, s.key_value_rank, false);
  const ValueId common = dense(model, "k_common", x, s.turned, false);
  model.forget_layers(again);
  const ValueId from = s.query_rank > 0 ? rms_norm(model, "q_norm", query) : query;
  const ValueId q = dense(model, "q_proj", from, s.own_heads() * (s.head_size + s.turned), false);
  const ValueId normal = rms_norm(model, "kv_norm", low);
  const ValueId turned = rotate(model, "rotate_k", common);
  if (s.inference.decode())
    return {.q = product_by_head(model, "k_proj", rotate(model, "rotate_q", q), latent_matrix(s),
                                 s.own_heads(), s.head_size, s.key_value_rank),
            .k = normal,
            .v = turned};
  const ValueId own = dense(model, "k_proj", normal, s.own_heads() * s.head_size, false);
  const Projected projected{
      .q = rotate(model, "rotate_q", q),
      .k = join_heads(model, "k_join", own, turned, s.own_heads()),
      .v = dense(model, "v_proj", normal, s.own_heads() * s.head_size, false)};
  model.forget_layers(false);
  return projected;
}

/// The core over the cache of a pass. Decode multiplies queries, and what the core makes of latent
/// features, by the matrices that prefill makes keys and values with. Source: DeepSeek-AI,
/// "DeepSeek-V2", 2024, section 2.1.2.
ValueId cached_core(Model& model, const Decoder& s, const Attention& core, const Projected& p) {
  CachedAttention c{.heads = core.heads,
                    .score_size = s.head_size,
                    .value_size = s.head_size,
                    .token = 2 * s.head_size * core.key_value_heads,
                    .window = core.window,
                    .fused = core.fused};
  const bool latent = s.key_value_rank > 0, absorbed = latent && s.inference.decode();
  if (latent) c.score_size += s.turned, c.token = s.key_value_rank + s.turned;
  if (absorbed) c.score_size = c.token, c.value_size = s.key_value_rank;
  const ValueId y = cached_attention(model, "core", {p.q, p.k, p.v}, c, s.inference);
  if (!absorbed) return y;
  return product_by_head(model, "v_proj", y, latent_matrix(s), s.own_heads(), s.key_value_rank,
                         s.head_size);
}

/// `normal`: what its products have read.
ValueId attention_module(Model& model, const Decoder& s, ValueId x, std::int64_t block,
                         ValueId& normal) {
  Attention core = s.core;
  if (s.windowed[static_cast<std::size_t>(block) % s.windowed.size()]) core.window = s.window;
  if (s.key_value_rank > 0) core.value_size = s.head_size;
  core.heads = s.own_heads();
  core.key_value_heads = s.own_key_value_heads();
  const std::int64_t width = s.head_size * core.heads;
  const std::int64_t shared = s.head_size * core.key_value_heads;
  const ValueId inside = gathered_input(model, s, "self_attn", x);
  ValueId q{}, k{}, v{}, y{};
  const auto project = [&] {
    // Norms before other products are fused with them.
    model.forget_layers(s.key_value_rank > 0 && s.again.contains(Recomputed::layernorm));
    normal = normalised(model, s, inside);
    model.forget_layers(false);
    if (s.key_value_rank > 0) {
      const Projected p = latent(model, s, normal);
      q = p.q, k = p.k, v = p.v;
      return;
    }
    const auto product = [&](std::string_view name, std::int64_t units) {
      return adapted(model, s, name, normal, units, Beside::attention_input);
    };
    q = product("q_proj", width);
    if (s.query_key_norm) q = decoder_norm(model, s, "q_norm", q, core.heads);
    q = positioned(model, s, "rotate_q", q);
    k = product("k_proj", shared);
    if (s.query_key_norm) k = decoder_norm(model, s, "k_norm", k, core.key_value_heads);
    k = positioned(model, s, "rotate_k", k);
    v = product("v_proj", shared);
  };
  if (s.ranks.context > 1) {
    {
      const auto module = model.module("self_attn_qkv", "LlamaAttention");
      project();
    }
    k = gather_context(model, "all_k", k, s.ranks);
    v = gather_context(model, "all_v", v, s.ranks);
  }
  {
    const auto module = model.module("self_attn", "LlamaAttention");
    if (s.ranks.context == 1) project();
    const ValueId seen = s.inference.on() ? cached_core(model, s, core, {.q = q, .k = k, .v = v})
                                          : attention(model, "core", q, k, v, core);
    y = adapted(model, s, "o_proj", seen, s.hidden);
    if (s.ranks.tensor == 1) return decoder_residual(model, s, y, x);
  }
  y = sum_of_ranks(model, "self_attn/sum", y, s.ranks);
  const auto module = model.module("self_attn_out", "LlamaResidual");
  return decoder_residual(model, s, y, x);
}

/// Adds to `to` what the network makes of x, or of `normal`, which is normalised.
ValueId feed_forward_module(Model& model, const Decoder& s, ValueId x, std::int64_t inner,
                            ValueId to, std::optional<ValueId> normal) {
  const ValueId inside = normal ? *normal : gathered_input(model, s, "mlp", x);
  ValueId y{};
  {
    const auto module = model.module("mlp", "LlamaMLP");
    const ValueId read = normal ? inside : normalised(model, s, inside);
    model.forget_layers(s.again.contains(Recomputed::mlp));
    y = network(model, s, read, inner / s.ranks.tensor);
    model.forget_layers(false);
    if (s.ranks.tensor == 1) return decoder_residual(model, s, y, to);
  }
  y = sum_of_ranks(model, "mlp/sum", y, s.ranks);
  const auto module = model.module("mlp_out", "LlamaResidual");
  return decoder_residual(model, s, y, to);
}

ValueId experts_module(Model& model, const Decoder& s, ValueId x) {
  return experts_block(
      model, s.experts, s.batch * s.ranks.tokens(s.length), x,
      {.norm = [&](ValueId y) { return decoder_norm(model, s, "norm", y); },
       .network = [&](ValueId y, std::int64_t inner) { return network(model, s, y, inner); }});
}

ValueId decoder_block(Model& model, const Decoder& s, ValueId x, std::int64_t i) {
  model.forget_operations(s.forgets);
  ValueId normal{};
  const ValueId y = attention_module(model, s, x, i, normal);
  const bool one = s.experts.experts == 0 || i < s.dense_layers || (i + 1) % s.sparse_step != 0;
  const std::optional<ValueId> shared = s.shared_norm ? std::optional(normal) : std::nullopt;
  x = one ? feed_forward_module(model, s, s.parallel ? x : y,
                                s.experts.experts == 0 ? s.inner : s.dense_inner, y, shared)
          : experts_module(model, s, y);
  model.forget_operations(false);
  return x;
}

/// Logits by the weights `head`, and their loss.
void predict_words(Model& model, const Decoder& s, ValueId x, VariableId head, ValueId labels) {
  x = split_to_ranks(model, "head_split", decoder_norm(model, s, "norm", x), s.ranks);
  const Inference& pass = s.inference;
  if (pass.on() && !pass.all_logits && (!pass.decode() || pass.tokens > 1))
    x = gather_steps(model, "last", x, 1);
  const std::int64_t words = model.variable(head).shape[s.tied ? 0 : 1];
  // Logits are copied to 32 bits.
  const Bytes copy = bytes_of(pass.on() ? elements(model.value(x).shape) / s.hidden * words : 0);
  if (s.embedded > 0) x = dense(model, "project_out", x, s.embedded, false);
  const ValueId logits = s.tied ? tied_logits(model, "lm_head", x, head, false, copy)
                                : dense_by(model, "lm_head", x, head, copy);
  loss(model, "loss", logits, labels, s.eager ? LossKernels::torch : s.loss);
}

/// Source: Touvron et al., "LLaMA", 2023, section 2.2: normalise before each part, gated SiLU,
/// rotary positions, no biases; grouped keys and values as in Llama 2. Other families:
/// traces/generate/families.json. Experts: Jiang et al.,
/// "Mixtral of Experts", 2024, section 2; capacity: Fedus et al., "Switch Transformers", 2021.
Model decoder(const Decoder& s, const std::string& name) {
  const std::string ranks = s.ranks.tensor > 1 ? fmt::format("-t{}", s.ranks.tensor) : "";
  const Inference& pass = s.inference;
  const std::string what =
      pass.on() ? fmt::format("{}-t{}-c{}", to_text(pass.pass), pass.tokens, pass.context)
                : fmt::format("l{}", s.length);
  Model model(fmt::format("{}-{}{}", name, what, ranks), s.batch);
  model.set_eager(s.eager);
  model.freeze(s.adapters > 0);
  const std::int64_t words = s.words / s.ranks.tensor;
  const Shape ids{s.batch, s.length / s.ranks.context};
  ValueId x{};
  VariableId table{};
  {
    const auto module = model.module("embed_tokens", "Embedding");
    const Shape rows{words, s.embedded > 0 ? s.embedded : s.hidden};
    table = model.variable("weights", rows, Initializer::truncated_normal);
    x = embedding(model, "lookup", model.input("input_ids", ids), table);
  }
  x = sum_of_ranks(model, "embed_sum", x, s.ranks);
  if (s.embedded > 0) x = dense(model, "project_in", x, s.hidden, false);
  if (s.positions > 0) {
    const Shape rows{std::max(s.positions, pass.context + s.length), s.hidden};
    x = add_positions(
        model, "embed_positions", x,
        model.variable("embed_positions/weights", rows, Initializer::truncated_normal));
  }
  if (s.embedding_norm) x = decoder_norm(model, s, "embed_norm", x);
  if (s.ranks.sequence) x = handed_on(model, "embedded", x);
  const ValueId embedded = x, labels = model.input("labels", ids);
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto layer = model.scope(fmt::format("layer_{}", i));
    x = decoder_block(model, s, x, i);
  }
  const Shape of_head{s.embedded > 0 ? s.embedded : s.hidden, words};
  const VariableId head =
      s.tied ? table : model.variable("lm_head/weights", of_head, Initializer::truncated_normal);
  predict_words(model, s, x, head, labels);
  for (char depth = 'a'; depth < 'a' + s.further && !pass.on(); ++depth) {
    {
      const auto layer = model.scope(fmt::format("layer_{}", s.layers + (depth - 'a')));
      x = decoder_block(model, s, joined_with_token(model, x, embedded, s.hidden), s.layers);
    }
    const auto scope = model.scope(fmt::format("further_{}", depth));
    predict_words(model, s, x, head, labels);
  }
  return model;
}

/// Latent attention, of the keys that options have or, where `o` has none, the configuration.
void read_latent(Options& o, Config& c, bool options, Decoder& s) {
  const auto read = [&](const char* key, std::string_view help, bool an_option = false) {
    const std::int64_t said = c.whole(key, 0);
    const std::int64_t value = options || an_option ? o.get(key, said, help, 0) : said;
    if (value > 10'000'000) o.mistake(key, "more than 10000000");
    return std::min<std::int64_t>(value, 10'000'000);
  };
  s.window = read("sliding_window",
                  "tokens that blocks see whose layer_types is sliding_attention, by default every "
                  "second one, with fused attention; 0: all",
                  true);
  s.key_value_rank =
      read("kv_lora_rank",
           "features that keys and values of all heads are made from, as in DeepSeek-V2, with an "
           "option q_lora_rank of those that queries are from; 0: from the token");
  if (s.key_value_rank > 0) s.query_rank = read("q_lora_rank", "features that queries are from");
  s.turned = c.whole("qk_rope_head_dim", 64, 1, 100'000);
  if (s.key_value_rank > 0 && s.key_value_heads != s.heads)
    o.mistake("kv_lora_rank",
              "every head has its own keys: num_key_value_heads must be num_attention_heads");
}

/// What is trained, and which kernels run.
void read_kernels(Options& o, Config& c, const Expansion& e, Decoder& s) {
  s.adapters = c.whole("lora_rank", 0, 0, 100'000);
  if (s.adapters > 0 && e.level == Level::tf1)
    o.mistake("level", "TensorFlow 1 trains all weights here");
  s.few_adapters = c.one_of("lora_modules", {"all", "attention_qkv"}) == "attention_qkv";
  s.adapters_drop = c.number("lora_dropout", 0.0, 0.0, 1.0) > 0.0;
  s.query_key_norm = c.flag("use_qk_norm", false);
  s.bias = c.flag("attention_bias", false);
  s.internlm = e.kernels.internlm;
  s.norm_again = e.kernels.recompute_norm;
  s.rotary_apart = e.kernels.unfused_rope;
  if (e.kernels.unfused_loss) s.loss = LossKernels::separate;
}

/// What families of models have that Llama has not.
void read_family(Config& c, Decoder& s) {
  std::istringstream words(c.text("biases", ""));
  for (std::string word; words >> word;) s.biased.insert(word);
  if (c.one_of("norm", {"rms", "layer"}) == "layer") s.norm = LayerKind::layer_norm;
  s.plain = c.one_of("mlp", {"gated", "plain"}) == "plain";
  const std::string parallel = c.one_of("parallel_attention", {"off", "own_norms", "shared_norm"});
  s.parallel = parallel != "off";
  s.shared_norm = parallel == "shared_norm";
  s.post_norms = c.flag("post_norms", false);
  const std::string position = c.one_of("position_embedding_type", {"rotary", "learned", "none"});
  s.rotary = position == "rotary";
  const std::int64_t rows = c.whole("max_position_embeddings", 1, 1, std::int64_t{1} << 30U);
  if (position == "learned") s.positions = rows;
  const std::int64_t width = c.whole("embedding_size", s.hidden, 1);
  if (width != s.hidden) s.embedded = width;
  s.embedding_norm = c.flag("embedding_norm", false);
}

constexpr std::string_view config_keys =
    "attention_bias (of all products), biases (of some: words such as q_proj), norm (rms; layer), "
    "mlp (gated; plain), parallel_attention (off; own_norms; shared_norm), post_norms, "
    "position_embedding_type (rotary; learned; none), embedding_size, embedding_norm, use_qk_norm, "
    "layer_types, lora_rank (two products of this width beside others, which alone are trained), "
    "lora_modules (all, or attention_qkv: beside those of queries, keys and values), lora_dropout "
    "(of what they read)";

/// `moe`: the networks are experts, and the model has options for latent attention.
Decoder read_shape(Options& o, Config& c, bool moe, const Expansion& e) {
  Decoder s{.batch = e.batch, .eager = e.kernels.eager};
  const auto extent = [&](const char* key, std::int64_t fallback, std::string_view help,
                          std::int64_t most = 10'000'000) {
    return read_extent(o, key, c.whole(key, fallback), help, most);
  };
  s.length = read_extent(o, "length", 2048, "tokens of a sample");
  if (e.inference.on()) {
    if (o.raw("length", "") != nullptr) o.mistake("length", "pass train alone has it: tokens");
    s.length = e.inference.tokens;
  }
  s.layers = extent("num_hidden_layers", 32, "blocks", 1000);
  s.hidden = extent("hidden_size", 4096, "width of a token");
  s.heads = extent("num_attention_heads", 32, "of an attention");
  s.key_value_heads = extent("num_key_value_heads", s.heads,
                             "heads of keys and values, each shared by several heads");
  s.inner = moe ? extent("moe_intermediate_size", 4 * s.hidden, "width inside an expert")
                : extent("intermediate_size", 4 * s.hidden, "width inside a feed-forward network");
  s.words = extent("vocab_size", 32'000, "tokens there are");
  read_kernels(o, c, e, s);
  read_family(c, s);
  s.core.fused = true;
  s.core = moe ? with_kernels(e, s.core) : read_attention(o, e, s.core);
  const Recompute recompute = read_recompute(o, e);
  s.forgets = recompute.operators;
  s.again = recompute.parts;
  s.core.again |= s.again.contains(Recomputed::core_attn);
  s.ranks.tensor = read_ranks(
      o, {{"heads", s.heads}, {"features inside", s.inner}, {"tokens of the vocabulary", s.words}});
  s.ranks = read_token_ranks(o, e, s.ranks.tensor, s.length);
  s.core.document = e.kernels.packed_sequence;
  if (s.core.document > 0 && (s.ranks.context > 1 || s.length % s.core.document != 0))
    o.mistake("kernels", "packed_sequence must divide 'length', and context must be 1");
  if (s.key_value_heads % s.ranks.tensor != 0 && s.ranks.tensor % s.key_value_heads != 0)
    o.mistake("tensor", fmt::format("{} heads of keys and values cannot be divided by {}",
                                    s.key_value_heads, s.ranks.tensor));
  const std::int64_t said = c.whole("head_dim", 0, 0, 100'000);
  s.head_size = said > 0 ? said : s.hidden / s.heads;
  if (!moe)
    s.head_size =
        read_extent(o, "head_dim", std::max<std::int64_t>(1, s.head_size),
                    "features of a head; by default those of a token over the heads", 100'000);
  if (s.head_size == 0) o.mistake("num_attention_heads", "more than features");
  if (said == 0 && s.hidden % s.heads != 0)
    o.mistake("num_attention_heads", "does not divide 'hidden_size'");
  if (s.heads % s.key_value_heads != 0)
    o.mistake("num_key_value_heads", "does not divide 'num_attention_heads'");
  read_latent(o, c, moe, s);
  s.tied = o.get("tie_word_embeddings", c.flag("tie_word_embeddings", false),
                 "the logits' weights are the words' embeddings");
  if (const std::string types = c.text("layer_types", ""); !types.empty()) {
    s.windowed.clear();
    for (std::size_t i = types.find("_attention"); i != std::string::npos;
         i = types.find("_attention", i + 1))
      s.windowed.push_back(i >= 7 && types.substr(i - 7, 7) == "sliding");
    if (s.windowed.empty())
      o.mistake("config", "layer_types: a list of full_attention and sliding_attention");
    if (s.windowed.empty()) s.windowed.push_back(false);
  }
  s.inference = e.inference;
  s.inference.layers = s.layers;
  s.inference.shared_keys = s.key_value_heads < s.heads;
  s.inference.tied = s.tied;
  if (e.inference.on())
    limit_work(o, s.batch, e.inference.allocated, s.heads * s.head_size, e.inference.tokens);
  limit_work(o, s.batch, s.length, s.hidden,
             std::max({s.words, s.inner, s.hidden, 2 * s.length, s.key_value_rank, s.query_rank,
                       s.key_value_rank > 0 ? s.heads * (s.head_size + s.turned) : 0}));
  return s;
}

}  // namespace

Trace make_llama(Options& options) {
  Expansion e = read_expansion(options, 1, Optimizer::adam, true, read_pass(options));
  Config config(options, "llama", "7b", config_keys);
  read_inference(options, config, e.inference);
  const Decoder s = read_shape(options, config, false, e);
  e.inference = s.inference;
  config.finish();
  options.finish();
  return expand(decoder(s, "llama-" + config.name()), e);
}

Trace make_moe(Options& options) {
  Expansion e = read_expansion(options, 1, Optimizer::adam, true, read_pass(options));
  Config config(
      options, "moe", "8x7b",
      fmt::format("{}, head_dim, qk_rope_head_dim, intermediate_size (of blocks without experts), "
                  "sparse_step (every how-manieth block has experts), "
                  "shared_expert_intermediate_size, num_nextn_predict_layers, capacity_factor "
                  "(tokens an expert takes, over its share if all took the same)",
                  config_keys));
  read_inference(options, config, e.inference);
  Decoder s = read_shape(options, config, true, e);
  e.inference = s.inference;
  s.experts = {.inner = s.inner, .bias = s.bias};
  s.dense_layers = options.get("first_k_dense_replace", config.whole("first_k_dense_replace", 0),
                               "first blocks with one network in place of experts", 0);
  s.dense_inner = config.whole("intermediate_size", 4 * s.hidden, 1);
  s.sparse_step = config.whole("sparse_step", 1, 1);
  s.further = config.whole("num_nextn_predict_layers", 0, 0, 16);
  read_experts(options, config, e, s.ranks, s.experts);
  e.inference.experts = s.inference.experts = s.experts.experts;
  s.experts.clamp_apart = e.kernels.unfused_clamp;
  s.experts.activation_again = s.again.contains(Recomputed::moe_act);
  s.experts.norm_again = s.again.contains(Recomputed::layernorm);
  s.experts.shared_again = s.again.contains(Recomputed::shared_experts);
  if (s.experts.clamp_apart && !s.experts.grouped)
    options.mistake("kernels", "unfused_clamp needs grouped_gemm");
  if (s.experts.activation_again && !s.experts.grouped)
    options.mistake("recompute", "moe_act needs kernels: grouped_gemm");
  const auto routed = static_cast<std::int64_t>(static_cast<double>(s.length * s.experts.top_k) *
                                                std::min(s.experts.capacity_factor, 1024.0));
  limit_work(options, s.batch, routed, s.hidden, s.inner);
  config.finish();
  options.finish();
  return expand(decoder(s, "moe-" + config.name()), e);
}

}  // namespace baechi::generate
