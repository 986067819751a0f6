#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

struct Gpt2 {
  std::int64_t batch = 0, length = 0, layers = 0, hidden = 0, heads = 0, words = 0;
};

ValueId block(Model& model, const Gpt2& s, ValueId x) {
  ValueId y{};
  {
    const auto module = model.module("attn", "GPT2Attention");
    const ValueId normal = layer_norm(model, "ln_1", x);
    // One product for all three, in c_attn of the original; its columns are q, k and v.
    const ValueId q = dense(model, "c_attn/q", normal, s.hidden);
    const ValueId k = dense(model, "c_attn/k", normal, s.hidden);
    const ValueId v = dense(model, "c_attn/v", normal, s.hidden);
    y = attention(model, "core", q, k, v, {.heads = s.heads, .dropout = true});
    y = dropout(model, "dropout", dense(model, "c_proj", y, s.hidden));
    y = add(model, "residual", y, x);
  }
  const auto module = model.module("mlp", "GPT2MLP");
  const ValueId normal = layer_norm(model, "ln_2", y);
  const ValueId wide = gelu(model, "gelu", dense(model, "c_fc", normal, 4 * s.hidden));
  const ValueId z = dropout(model, "dropout", dense(model, "c_proj", wide, s.hidden));
  return add(model, "residual", z, y);
}

/// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, table 2,
/// and the released code: 1024 positions, heads of 64, logits by the words' embeddings. Table 2
/// gives 117 M parameters for the small model; its own shapes make it 124 M.
Model gpt2(const Gpt2& s, std::string_view size) {
  Model model(fmt::format("gpt2-{}-l{}", size, s.length), s.batch);
  VariableId table{};
  ValueId x{};
  {
    const auto module = model.module("embeddings", "GPT2Embeddings");
    table = model.variable("wte", {s.words, s.hidden}, Initializer::truncated_normal);
    const VariableId positions =
        model.variable("wpe", {1024, s.hidden}, Initializer::truncated_normal);
    x = embedding(model, "words", model.input("input_ids", {s.batch, s.length}), table);
    x = dropout(model, "dropout", add_positions(model, "positions", x, positions));
  }
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto layer = model.scope(fmt::format("h_{}", i));
    x = block(model, s, x);
  }
  const ValueId logits = tied_logits(model, "lm_head", layer_norm(model, "ln_f", x), table);
  loss(model, "loss", logits, model.input("labels", {s.batch, s.length}));
  return model;
}

}  // namespace

Trace make_gpt2(Options& options) {
  const Expansion e = read_expansion(options, 8, Optimizer::adam);
  const std::string size =
      options.get("size", std::vector<std::string>{"small", "medium", "large", "xl"},
                  "12, 24, 36 or 48 blocks of 768 to 1600 features");
  Gpt2 s{.batch = e.batch, .layers = 12, .hidden = 768};
  if (size == "medium") s = {.batch = e.batch, .layers = 24, .hidden = 1024};
  if (size == "large") s = {.batch = e.batch, .layers = 36, .hidden = 1280};
  if (size == "xl") s = {.batch = e.batch, .layers = 48, .hidden = 1600};
  s.heads = s.hidden / 64;
  s.length = read_extent(options, "length", 1024, "tokens of a sample", 1024);
  s.words = read_extent(options, "vocabulary", 50'257, "tokens there are");
  limit_work(options, s.batch, s.length, s.hidden, s.words);
  options.finish();
  return expand(gpt2(s, size), e);
}

}  // namespace baechi::generate
