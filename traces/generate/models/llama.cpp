#include <algorithm>
#include <array>

#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

struct Decoder {
  std::int64_t batch = 0, length = 0;
  std::int64_t layers = 0, hidden = 0, heads = 0, key_value_heads = 0, inner = 0, words = 0;
  bool fused = true;
  std::int64_t experts = 0, top_k = 0;  ///< 0: one feed-forward network for all tokens
  double capacity_factor = 1.0;
};

struct Size {
  std::string_view name;
  std::int64_t layers, hidden, heads, key_value_heads, inner, words;
};
/// Shapes as in the models' published config.json: Llama 2, Llama 3, Mixtral 8x7B and 8x22B.
constexpr std::array<Size, 4> llama_sizes{{{"7b", 32, 4096, 32, 32, 11'008, 32'000},
                                           {"13b", 40, 5120, 40, 40, 13'824, 32'000},
                                           {"70b", 80, 8192, 64, 8, 28'672, 32'000},
                                           {"3-8b", 32, 4096, 32, 8, 14'336, 128'256}}};
constexpr std::array<Size, 2> moe_sizes{
    {{"8x7b", 32, 4096, 32, 8, 14'336, 32'000}, {"8x22b", 56, 6144, 48, 8, 16'384, 32'000}}};

/// down(silu(gate(x)) * up(x)).
ValueId gated(Model& model, const Decoder& s, ValueId x) {
  const ValueId gate = dense(model, "gate_proj", x, s.inner, false);
  const ValueId up = dense(model, "up_proj", x, s.inner, false);
  return dense(model, "down_proj", gated_silu(model, "act", gate, up), s.hidden, false);
}

ValueId attention_module(Model& model, const Decoder& s, ValueId x) {
  const auto module = model.module("self_attn", "LlamaAttention");
  const std::int64_t shared = s.hidden / s.heads * s.key_value_heads;
  const ValueId normal = rms_norm(model, "norm", x);
  const ValueId q = rotate(model, "rotate_q", dense(model, "q_proj", normal, s.hidden, false));
  const ValueId k = rotate(model, "rotate_k", dense(model, "k_proj", normal, shared, false));
  const ValueId v = dense(model, "v_proj", normal, shared, false);
  const ValueId y =
      attention(model, "core", q, k, v,
                {.heads = s.heads, .key_value_heads = s.key_value_heads, .fused = s.fused});
  return add(model, "residual", dense(model, "o_proj", y, s.hidden, false), x);
}

ValueId feed_forward_module(Model& model, const Decoder& s, ValueId x) {
  const auto module = model.module("mlp", "LlamaMLP");
  return add(model, "residual", gated(model, s, rms_norm(model, "norm", x)), x);
}

/// Every expert takes ceil(capacity factor * tokens * top k / experts) tokens: the shape of an op
/// does not depend on data.
ValueId experts_module(Model& model, const Decoder& s, ValueId x) {
  const double share = s.capacity_factor * static_cast<double>(s.batch * s.length * s.top_k) /
                       static_cast<double>(s.experts);
  auto capacity = static_cast<std::int64_t>(share);
  if (static_cast<double>(capacity) < share) ++capacity;
  ValueId routes{};
  std::vector<ValueId> tokens;
  {
    const auto module = model.module("router", "TopKRouter");
    const ValueId normal = rms_norm(model, "norm", x);
    routes = route(model, "top_k", dense(model, "gate", normal, s.experts, false), s.top_k);
    tokens = dispatch(model, "dispatch", normal, routes, s.experts, capacity);
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto module = model.module(fmt::format("expert_{}", i), "MixtralExpert");
    tokens[i] = gated(model, s, tokens[i]);
  }
  const auto module = model.module("combine", "MixtralCombine");
  return add(model, "residual", combine(model, "sum", x, routes, tokens), x);
}

/// Source: Touvron et al., "LLaMA", 2023, section 2.2: normalise before each part, gated SiLU,
/// rotary positions, no biases; grouped keys and values as in Llama 2. Experts: Jiang et al.,
/// "Mixtral of Experts", 2024, section 2; capacity: Fedus et al., "Switch Transformers", 2021.
Model decoder(const Decoder& s, const std::string& name) {
  Model model(fmt::format("{}-l{}", name, s.length), s.batch);
  ValueId x{};
  {
    const auto module = model.module("embed_tokens", "Embedding");
    const VariableId table =
        model.variable("weights", {s.words, s.hidden}, Initializer::truncated_normal);
    x = embedding(model, "lookup", model.input("input_ids", {s.batch, s.length}), table);
  }
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto layer = model.scope(fmt::format("layer_{}", i));
    x = attention_module(model, s, x);
    x = s.experts > 0 ? experts_module(model, s, x) : feed_forward_module(model, s, x);
  }
  const ValueId logits = dense(model, "lm_head", rms_norm(model, "norm", x), s.words, false);
  loss(model, "loss", logits, model.input("labels", {s.batch, s.length}));
  return model;
}

/// Reads `size`; the other options may change its shapes.
Decoder read_shape(Options& o, std::span<const Size> sizes, std::int64_t batch,
                   std::string& chosen) {
  std::vector<std::string> names;
  for (const Size& size : sizes) names.emplace_back(size.name);
  chosen = o.get("size", names, "the shape that the options below begin from");
  const Size& size = *std::ranges::find(sizes, chosen, &Size::name);
  Decoder s{.batch = batch};
  s.length = read_extent(o, "length", 2048, "tokens of a sample");
  s.layers = read_extent(o, "layers", size.layers, "blocks", 1000);
  s.hidden = read_extent(o, "hidden", size.hidden, "width of a token");
  s.heads = read_extent(o, "heads", size.heads, "of an attention");
  s.key_value_heads = read_extent(o, "key_value_heads", size.key_value_heads,
                                  "heads of keys and values, each shared by several heads");
  s.inner = read_extent(o, "inner", size.inner, "width inside a feed-forward network");
  s.words = read_extent(o, "vocabulary", size.words, "tokens there are");
  s.fused = o.get("fused_attention", true, "one kernel that never writes the probabilities");
  if (s.hidden % s.heads != 0) o.mistake("heads", "does not divide 'hidden'");
  if (s.heads % s.key_value_heads != 0) o.mistake("key_value_heads", "does not divide 'heads'");
  limit_work(o, s.batch, s.length, s.hidden, std::max({s.words, s.inner, s.hidden, 2 * s.length}));
  return s;
}

}  // namespace

Trace make_llama(Options& options) {
  const Expansion e = read_expansion(options, 1, Optimizer::adam);
  std::string size;
  const Decoder s = read_shape(options, llama_sizes, e.batch, size);
  options.finish();
  return expand(decoder(s, "llama-" + size), e);
}

Trace make_moe(Options& options) {
  const Expansion e = read_expansion(options, 1, Optimizer::adam);
  std::string size;
  Decoder s = read_shape(options, moe_sizes, e.batch, size);
  s.experts = read_extent(options, "experts", 8, "feed-forward networks of a block", 1024);
  s.top_k = read_extent(options, "top_k", 2, "experts that a token goes to");
  s.capacity_factor = options.get(
      "capacity_factor", 1.0, "tokens an expert takes, over its share if all took the same", 0.01);
  if (s.capacity_factor > 1024.0) options.mistake("capacity_factor", "more than 1024");
  const auto routed = static_cast<std::int64_t>(static_cast<double>(s.length * s.top_k) *
                                                std::min(s.capacity_factor, 1024.0));
  limit_work(options, s.batch, routed, s.hidden, s.inner);
  if (s.top_k > s.experts) options.mistake("top_k", "is more than 'experts'");
  options.finish();
  return expand(decoder(s, "moe-" + size), e);
}

}  // namespace baechi::generate
