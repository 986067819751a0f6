#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

struct Gpt {
  std::int64_t batch = 0, length = 0, layers = 0, hidden = 0, heads = 0, words = 0;
  std::int64_t positions = 1024;
  std::int64_t tensor = 1;  ///< ranks of tensor parallelism
  bool tied = true;         ///< the logits' weights are the embeddings
  LossKernels loss = LossKernels::fused;
};

/// The heads, and the inner features, are divided by the ranks; normalisation, dropout and
/// residuals run on each rank.
ValueId attention_block(Model& model, const Gpt& s, ValueId x) {
  const std::int64_t width = s.hidden / s.tensor;
  const ValueId split = split_to_ranks(model, "attn/split", x, s.tensor);
  ValueId y{};
  {
    const auto module = model.module("attn", "GPT2Attention");
    const ValueId normal = layer_norm(model, "ln_1", split);
    // One product for all three, in c_attn of the original; its columns are q, k and v.
    const ValueId q = dense(model, "c_attn/q", normal, width);
    const ValueId k = dense(model, "c_attn/k", normal, width);
    const ValueId v = dense(model, "c_attn/v", normal, width);
    y = attention(model, "core", q, k, v, {.heads = s.heads / s.tensor, .dropout = true});
    y = dense(model, "c_proj", y, s.hidden);
    if (s.tensor == 1) return add(model, "residual", dropout(model, "dropout", y), x);
  }
  y = sum_of_ranks(model, "attn/sum", y, s.tensor);
  const auto module = model.module("attn_out", "GPT2Residual");
  return add(model, "residual", dropout(model, "dropout", y), x);
}

ValueId feed_forward_block(Model& model, const Gpt& s, ValueId x) {
  const ValueId split = split_to_ranks(model, "mlp/split", x, s.tensor);
  ValueId y{};
  {
    const auto module = model.module("mlp", "GPT2MLP");
    const ValueId normal = layer_norm(model, "ln_2", split);
    y = gelu(model, "gelu", dense(model, "c_fc", normal, 4 * s.hidden / s.tensor));
    y = dense(model, "c_proj", y, s.hidden);
    if (s.tensor == 1) return add(model, "residual", dropout(model, "dropout", y), x);
  }
  y = sum_of_ranks(model, "mlp/sum", y, s.tensor);
  const auto module = model.module("mlp_out", "GPT2Residual");
  return add(model, "residual", dropout(model, "dropout", y), x);
}

/// What one rank of tensor parallelism computes: the words are divided by the ranks, too. The loss
/// leaves out that the ranks add up a few numbers per token.
Model gpt(const Gpt& s, const std::string& name) {
  Model model(name, s.batch);
  const std::int64_t words = s.words / s.tensor;
  VariableId table{};
  ValueId x{};
  if (s.tensor == 1) {
    const auto module = model.module("embeddings", "GPT2Embeddings");
    table = model.variable("wte", {words, s.hidden}, Initializer::truncated_normal);
    const VariableId positions =
        model.variable("wpe", {s.positions, s.hidden}, Initializer::truncated_normal);
    x = embedding(model, "words", model.input("input_ids", {s.batch, s.length}), table);
    x = dropout(model, "dropout", add_positions(model, "positions", x, positions));
  } else {
    const auto scope = model.scope("embeddings");
    table = model.variable("wte", {words, s.hidden}, Initializer::truncated_normal);
    const VariableId positions =
        model.variable("wpe", {s.positions, s.hidden}, Initializer::truncated_normal);
    x = embedding(model, "words", model.input("input_ids", {s.batch, s.length}), table);
    x = sum_of_ranks(model, "sum", x, s.tensor);
    x = dropout(model, "dropout", add_positions(model, "positions", x, positions));
  }
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto layer = model.scope(fmt::format("h_{}", i));
    x = feed_forward_block(model, s, attention_block(model, s, x));
  }
  x = split_to_ranks(model, "head_split", layer_norm(model, "ln_f", x), s.tensor);
  const ValueId logits =
      s.tied ? tied_logits(model, "lm_head", x, table) : dense(model, "lm_head", x, words, false);
  loss(model, "loss", logits, model.input("labels", {s.batch, s.length}), s.loss);
  return model;
}

void read_sizes(Options& options, Gpt& s) {
  s.words = read_extent(options, "vocabulary", 50'257, "tokens there are");
  s.tensor = read_ranks(
      options, {{"heads", s.heads}, {"features", s.hidden}, {"tokens of the vocabulary", s.words}});
  if (options.get("loss", std::vector<std::string>{"fused", "separate"},
                  "kernels of the loss: few, as PyTorch's, or one for each of its operations, as "
                  "Megatron-LM's") == "separate")
    s.loss = LossKernels::separate;
  limit_work(options, s.batch, s.length, s.hidden, s.words);
}

}  // namespace

/// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, table 2,
/// and the released code: 1024 positions, heads of 64, logits by the words' embeddings. Table 2
/// gives 117 M parameters for the small model; its own shapes make it 124 M.
Trace make_gpt2(Options& options) {
  const Expansion e = read_expansion(options, 8, Optimizer::adam);
  const std::string size =
      options.get("size", std::vector<std::string>{"small", "medium", "large", "xl"},
                  "12, 24, 36 or 48 blocks of 768 to 1600 features");
  Gpt s{.batch = e.batch, .layers = 12, .hidden = 768};
  if (size == "medium") s = {.batch = e.batch, .layers = 24, .hidden = 1024};
  if (size == "large") s = {.batch = e.batch, .layers = 36, .hidden = 1280};
  if (size == "xl") s = {.batch = e.batch, .layers = 48, .hidden = 1600};
  s.heads = s.hidden / 64;
  s.length = read_extent(options, "length", 1024, "tokens of a sample", 1024);
  read_sizes(options, s);
  options.finish();
  return expand(gpt(s, fmt::format("gpt2-{}-l{}", size, s.length)), e);
}

Trace make_gpt(Options& options) {
  const Expansion e = read_expansion(options, 1, Optimizer::adam);
  Gpt s{.batch = e.batch};
  s.layers = read_extent(options, "layers", 24, "blocks", 1000);
  s.hidden = read_extent(options, "hidden", 2048, "features of a token", 1'000'000);
  s.heads = read_extent(options, "heads", 16, "of attention", 10'000);
  s.length = read_extent(options, "length", 1024, "tokens of a sample", 1'000'000);
  s.positions = s.length;
  s.tied = options.get("tied", true, "the logits' weights are the words' embeddings");
  read_sizes(options, s);
  if (s.hidden % s.heads != 0)
    options.mistake("heads", fmt::format("{} features cannot be divided by {}", s.hidden, s.heads));
  options.finish();
  return expand(gpt(s, fmt::format("gpt-{}x{}-l{}-t{}", s.layers, s.hidden, s.length, s.tensor)),
                e);
}

}  // namespace baechi::generate
