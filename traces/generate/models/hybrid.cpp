#include "traces/generate/layers/attention.h"
#include "traces/generate/layers/expert_layers.h"
#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/state_space_layers.h"

namespace baechi::generate {
namespace {

struct Hybrid {
  std::int64_t batch = 0, length = 0, hidden = 0, inner = 0, words = 0;
  std::int64_t heads = 0, key_value_heads = 0, head_size = 0;
  std::string layers{};     ///< a letter each
  std::string further{};    ///< those that predict a token more
  std::int64_t depths = 0;  ///< how many tokens more are predicted
  bool tied = false;
  bool bias = false, dropout = false;  ///< of attention and feed-forward networks; of all layers
  LayerKind norm = LayerKind::rms_norm, activation = LayerKind::squared_relu;
  LossKernels loss = LossKernels::fused;
  StateSpace mixer{};  ///< of all ranks
  Experts experts{};
  Attention core{.fused = true};
  Ranks ranks{};
  std::set<Recomputed> again{};  ///< in the backward pass

  std::int64_t own_key_value_heads() const {
    return std::max<std::int64_t>(1, key_value_heads / ranks.tensor);
  }
};

/// down(max(up(x), 0)^2), or with GELU.
ValueId activated(Model& model, const Hybrid& s, ValueId x, std::int64_t inner) {
  const std::int64_t width = model.value(x).shape.back();
  const ValueId up = dense(model, "up_proj", x, inner, s.bias);
  const bool again = model.groups() > 1 && s.again.contains(Recomputed::moe_act);
  if (again) model.forget_layers(true);
  const ValueId y =
      s.activation == LayerKind::gelu ? gelu(model, "act", up) : squared_relu(model, "act", up);
  if (again) model.forget_layers(false);
  return dense(model, "down_proj", y, width, s.bias);
}

ValueId norm_of(Model& model, const Hybrid& s, ValueId x) {
  return s.norm == LayerKind::rms_norm ? rms_norm(model, "norm", x) : layer_norm(model, "norm", x);
}

ValueId residual(Model& model, const Hybrid& s, ValueId y, ValueId x) {
  return add(model, "residual", s.dropout ? dropout(model, "dropout", y) : y, x);
}

/// x + part(norm(x)), where ranks of tensor parallelism divide the part: those that share tokens
/// normalise theirs and gather all.
ValueId with_part(Model& model, const Hybrid& s, const std::string& name, std::string_view kind,
                  ValueId x, const std::function<ValueId(ValueId)>& part) {
  ValueId inside = x;
  if (s.ranks.sequence) {
    const auto module = model.module(name + "_in", "HybridInput");
    inside = norm_of(model, s, x);
  }
  inside = split_to_ranks(model, name + "/split", inside, s.ranks);
  ValueId y{};
  {
    const auto module = model.module(name, kind);
    y = part(s.ranks.sequence ? inside : norm_of(model, s, inside));
    if (s.ranks.tensor == 1) return residual(model, s, y, x);
  }
  y = sum_of_ranks(model, name + "/sum", y, s.ranks);
  const auto module = model.module(name + "_out", "HybridResidual");
  return residual(model, s, y, x);
}

ValueId mixed(Model& model, const Hybrid& s, ValueId x) {
  StateSpace own = s.mixer;
  own.heads /= s.ranks.tensor;
  own.groups = std::max<std::int64_t>(1, own.groups / s.ranks.tensor);
  return dense(model, "out_proj",
               state_space(model, "mixer", dense(model, "in_proj", x, own.width(), false), own),
               s.hidden, false);
}

ValueId attended(Model& model, const Hybrid& s, ValueId x) {
  Attention core = s.core;
  core.heads = s.heads / s.ranks.tensor;
  core.key_value_heads = s.own_key_value_heads();
  const std::int64_t shared = s.head_size * core.key_value_heads;
  core.dropout = s.dropout;
  const ValueId q = dense(model, "q_proj", x, s.head_size * core.heads, s.bias);
  const ValueId k = dense(model, "k_proj", x, shared, s.bias);
  const ValueId v = dense(model, "v_proj", x, shared, s.bias);
  return dense(model, "o_proj", attention(model, "core", q, k, v, core), s.hidden, s.bias);
}

ValueId layer_of_letter(Model& model, const Hybrid& s, char letter, ValueId x) {
  switch (letter) {
    case 'M':
      return with_part(model, s, "mamba", mixer_module, x,
                       [&](ValueId y) { return mixed(model, s, y); });
    case '*':
      return with_part(model, s, "attention", "HybridAttention", x,
                       [&](ValueId y) { return attended(model, s, y); });
    case '-':
      return with_part(model, s, "mlp", "HybridMLP", x, [&](ValueId y) {
        model.forget_layers(s.again.contains(Recomputed::mlp));
        y = activated(model, s, y, s.inner / s.ranks.tensor);
        model.forget_layers(false);
        return y;
      });
    default:
      return experts_block(
          model, s.experts, s.batch * s.ranks.tokens(s.length), x,
          {.norm = [&](ValueId y) { return norm_of(model, s, y); },
           .network = [&](ValueId y,
                          std::int64_t inner) { return activated(model, s, y, inner); }});
  }
}

/// Logits by the weights `table`, and their loss.
void predicted(Model& model, const Hybrid& s, ValueId x, VariableId table, ValueId labels) {
  x = split_to_ranks(model, "head_split", norm_of(model, s, x), s.ranks);
  const ValueId logits =
      s.tied ? tied_logits(model, "lm_head", x, table) : dense_by(model, "lm_head", x, table);
  loss(model, "loss", logits, labels, s.loss);
}

/// Source: NVIDIA, "Nemotron-H: A Family of Accurate and Efficient Hybrid Mamba-Transformer
/// Models", 2025, section 2; "Nemotron 3 Super", 2026: latent experts. Multi-token prediction:
/// DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 2.2; here each depth has weights of
/// its own.
Model hybrid(const Hybrid& s, const std::string& name) {
  Model model(fmt::format("{}-l{}", name, s.length), s.batch);
  const std::int64_t words = s.words / s.ranks.tensor;
  const Shape ids{s.batch, s.length / s.ranks.context};
  const ValueId labels = model.input("labels", ids), tokens = model.input("input_ids", ids);
  VariableId table{}, head{};
  ValueId x{}, embedded{};
  {
    const auto module = model.module("embed_tokens", "Embedding");
    table = model.variable("weights", {words, s.hidden}, Initializer::truncated_normal);
    x = embedding(model, "lookup", tokens, table);
  }
  x = sum_of_ranks(model, "embed_sum", x, s.ranks);
  if (s.ranks.tensor > 1) x = handed_on(model, "embedded", x);
  embedded = x;
  std::int64_t i = 0;
  for (const char letter : s.layers) {
    const auto layer = model.scope(fmt::format("layer_{}", i++));
    x = layer_of_letter(model, s, letter, x);
  }
  head = s.tied
             ? table
             : model.variable("lm_head/weights", {s.hidden, words}, Initializer::truncated_normal);
  predicted(model, s, x, head, labels);
  // Names without numbers: these layers compute in 16 bits. Source: Megatron-Bridge,
  // nemotron_3_super.py (keep_mtp_spec_in_bf16).
  for (char depth = 'a'; depth < 'a' + s.depths; ++depth) {
    const auto scope = model.scope(fmt::format("further_{}", depth));
    x = joined_with_token(model, x, embedded, s.hidden);
    for (std::size_t at = 0; at < s.further.size(); ++at) {
      const auto layer = model.scope(std::string(1, static_cast<char>('a' + at)));
      x = layer_of_letter(model, s, s.further[at], x);
    }
    predicted(model, s, x, head, labels);
  }
  return model;
}

/// Letters of layers; `|` stands between stages, and says nothing here.
std::string checked_layers(Options& o, const std::string& key, std::string letters) {
  std::erase(letters, '|');
  constexpr std::size_t most = 1000;
  if (letters.find_first_not_of("M*-E") != std::string::npos || letters.size() > most) {
    o.mistake(key, fmt::format("is no more than {} of the letters M, *, - and E", most));
    letters = "M";
  }
  return letters;
}

void read_hybrid_kernels(Config& c, const Expansion& e, Hybrid& s) {
  s.bias = c.flag("attention_bias", false);
  s.dropout = c.flag("dropout", false);
  if (c.one_of("norm", {"rms", "layer"}) == "layer") s.norm = LayerKind::layer_norm;
  if (c.one_of("hidden_act", {"squared_relu", "gelu"}) == "gelu") s.activation = LayerKind::gelu;
  if (e.kernels.unfused_loss) s.loss = LossKernels::separate;
}

Hybrid read_hybrid(Options& o, Config& c, const Expansion& e) {
  Hybrid s{.batch = e.batch};
  const auto extent = [&](const char* key, std::int64_t fallback, std::string_view help,
                          std::int64_t most = 10'000'000) {
    return read_extent(o, key, c.whole(key, fallback), help, most);
  };
  s.length = read_extent(o, "length", 2048, "tokens of a sample");
  constexpr auto pattern = "hybrid_override_pattern", mtp = "mtp_hybrid_override_pattern";
  s.layers = checked_layers(
      o, pattern,
      o.get(pattern, c.text(pattern, "M").c_str(),
            "a letter each: M (Mamba-2), * (attention), - (feed-forward), E (experts)"));
  s.further = checked_layers(o, "config", c.text(mtp, "*E"));
  s.depths = c.whole("num_nextn_predict_layers", 0, 0, 16);
  if (s.further.size() > 16) o.mistake("config", fmt::format("{}: more than 16 layers", mtp));
  s.hidden = extent("hidden_size", 4096, "width of a token");
  s.inner = extent("intermediate_size", 4 * s.hidden,
                   "width inside a feed-forward network, or an expert");
  s.heads = extent("num_attention_heads", 32, "of an attention");
  s.key_value_heads = extent("num_key_value_heads", s.heads,
                             "heads of keys and values, each shared by several heads");
  s.head_size = extent("head_dim", 128, "features of a head", 100'000);
  s.words = extent("vocab_size", 131'072, "tokens there are");
  s.tied = o.get("tie_word_embeddings", c.flag("tie_word_embeddings", false),
                 "the logits' weights are the words' embeddings");
  s.mixer.heads = extent("mamba_num_heads", 128, "of a Mamba-2 mixer", 10'000);
  s.mixer.head_size = c.whole("mamba_head_dim", 64, 1, 100'000);
  s.mixer.groups = c.whole("n_groups", 8, 1, 10'000);
  s.mixer.state = extent("ssm_state_size", 128, "numbers of its state for a feature", 100'000);
  if (s.mixer.heads % s.mixer.groups != 0)
    o.mistake("mamba_num_heads", "n_groups does not divide it");
  read_hybrid_kernels(c, e, s);
  s.core = with_kernels(e, s.core);
  s.again = read_recompute(o, e).parts;
  s.core.again |= s.again.contains(Recomputed::core_attn);
  s.ranks.tensor = read_ranks(o, {{"heads", s.heads},
                                  {"heads of mixers", s.mixer.heads},
                                  {"features inside", s.inner},
                                  {"tokens of the vocabulary", s.words}});
  s.ranks = read_token_ranks(o, e, s.ranks.tensor, s.length);
  if (s.ranks.context > 1)
    o.mistake("context", "the states of a mixer pass over all tokens of a sample: it must be 1");
  if (s.heads % s.key_value_heads != 0)
    o.mistake("num_key_value_heads", "does not divide 'num_attention_heads'");
  s.experts = {.experts = 8, .top_k = 2, .inner = s.inner, .grouped = true};
  s.experts.latent = c.whole("moe_latent_size", 0);
  s.experts.norm_again = s.again.contains(Recomputed::layernorm);
  s.experts.shared_again = s.again.contains(Recomputed::shared_experts);
  s.experts.none = (s.depths > 0 ? s.layers + s.further : s.layers).find('E') == std::string::npos;
  read_experts(o, c, e, s.ranks, s.experts);
  limit_work(o, s.batch, s.length, s.hidden,
             std::max({s.words, s.inner, s.mixer.width(), 2 * s.length}));
  limit_work(o, s.batch, s.length * s.experts.top_k, s.hidden, s.inner);
  return s;
}

}  // namespace

Trace make_hybrid(Options& options) {
  const Expansion e = read_expansion(options, 1, Optimizer::adam, false);
  Config config(options, "hybrid", "nemotron-h-8b",
                "attention_bias, norm (rms; layer), hidden_act (squared_relu; gelu), dropout, "
                "mamba_head_dim, n_groups, shared_expert_intermediate_size, moe_latent_size, "
                "num_nextn_predict_layers, mtp_hybrid_override_pattern, capacity_factor");
  const Hybrid s = read_hybrid(options, config, e);
  config.finish();
  options.finish();
  return expand(hybrid(s, config.name()), e);
}

}  // namespace baechi::generate
