#include "traces/generate/layers/attention.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

struct Bert {
  std::int64_t batch = 0, length = 0, layers = 0, hidden = 0, heads = 0, words = 0;
  std::int64_t inner = 0, positions = 512, segments = 2;
  std::int64_t masked = 0;  ///< words of a sample to predict; 0: all, ungathered
  bool pretraining = true, answers = false, eager = false;
  bool tied = true;         ///< the logits' weights are the words' embeddings
  std::int64_t tensor = 1;  ///< ranks of tensor parallelism
  Attention core{.dropout = true, .causal = false};
};

/// What follows a sum over ranks is a module of its own; without ranks it belongs to the module
/// before.
ValueId normalised_sum(Model& model, ValueId y, ValueId x) {
  return layer_norm(model, "layer_norm", add(model, "residual", dropout(model, "dropout", y), x));
}

ValueId attention_layer(Model& model, const Bert& s, ValueId x) {
  const std::int64_t width = s.hidden / s.tensor;
  const ValueId split = split_to_ranks(model, "attention/split", x, {s.tensor});
  ValueId y{};
  {
    const auto module = model.module("attention", "BertAttention");
    const ValueId q = dense(model, "query", split, width);
    const ValueId k = dense(model, "key", split, width);
    const ValueId v = dense(model, "value", split, width);
    Attention core = s.core;
    core.heads = s.heads / s.tensor;
    y = attention(model, "self", q, k, v, core);
    y = dense(model, "output", y, s.hidden);
    if (s.tensor == 1) return normalised_sum(model, y, x);
  }
  y = sum_of_ranks(model, "attention/sum", y, {s.tensor});
  const auto module = model.module("attention_out", "BertSelfOutput");
  return normalised_sum(model, y, x);
}

ValueId feed_forward_layer(Model& model, const Bert& s, ValueId x) {
  const ValueId split = split_to_ranks(model, "feed_forward/split", x, {s.tensor});
  ValueId y{};
  {
    const auto module = model.module("feed_forward", "BertFeedForward");
    y = dense(model, "intermediate", split, s.inner / s.tensor);
    y = dense(model, "output", gelu(model, "gelu", y, s.eager), s.hidden);
    if (s.tensor == 1) return normalised_sum(model, y, x);
  }
  y = sum_of_ranks(model, "feed_forward/sum", y, {s.tensor});
  const auto module = model.module("feed_forward_out", "BertOutput");
  return normalised_sum(model, y, x);
}

ValueId word_logits(Model& model, const Bert& s, ValueId x, VariableId table) {
  if (s.tied) return tied_logits(model, "decoder", x, table, true);
  return dense(model, "decoder", x, s.words / s.tensor);
}

/// Logits for the word of every token, or of the masked ones, and for whether the second sentence
/// follows the first. The projection to words uses their embeddings and a bias of its own.
void pretraining_heads(Model& model, const Bert& s, ValueId tokens, ValueId pooled,
                       VariableId table) {
  ValueId words{}, next{};
  {
    const auto module = model.module("cls/predictions", "BertLMPredictionHead");
    if (s.masked > 0) tokens = gather_steps(model, "gather", tokens, s.masked);
    const ValueId x = gelu(model, "gelu", dense(model, "transform", tokens, s.hidden));
    words = layer_norm(model, "layer_norm", x);
    if (s.tensor == 1) words = word_logits(model, s, words, table);
  }
  if (s.tensor > 1) {
    words = split_to_ranks(model, "cls/split", words, {s.tensor});
    const auto module = model.module("cls/decoder", "BertDecoder");
    words = word_logits(model, s, words, table);
  }
  {
    const auto module = model.module("cls/seq_relationship", "Linear");
    next = dense(model, "classifier", pooled, 2);
  }
  const std::int64_t predicted = s.masked > 0 ? s.masked : s.length;
  loss(model, "masked_lm_loss", words, model.input("masked_words", {s.batch, predicted}));
  loss(model, "next_sentence_loss", next, model.input("follows", {s.batch}));
}

/// Logits for where the answer to a question begins and ends, among the tokens (SQuAD).
void answer_head(Model& model, const Bert& s, ValueId tokens) {
  const auto module = model.module("qa_outputs", "Linear");
  const ValueId logits = dense(model, "classifier", tokens, 2);
  loss(model, "answer_loss", logits, model.input("answers", {s.batch, 2}));
}

struct Tables {
  VariableId words, positions, segments;
};
Tables embedding_tables(Model& model, const Bert& s) {
  const auto variable = [&](std::string_view name, std::int64_t rows) {
    return model.variable(name, {rows, s.hidden}, Initializer::truncated_normal);
  };
  const VariableId words = variable("word_embeddings", s.words / s.tensor);
  const VariableId positions = variable("position_embeddings", s.positions);
  return {words, positions, variable("token_type_embeddings", s.segments)};
}
/// Adds to the words `x` where they are and in which sentence.
ValueId placed_words(Model& model, ValueId x, const Shape& tokens, const Tables& tables) {
  const ValueId kinds =
      embedding(model, "token_types", model.input("token_type_ids", tokens), tables.segments);
  x = add_positions(model, "positions", add(model, "sum", x, kinds), tables.positions);
  return dropout(model, "dropout", layer_norm(model, "layer_norm", x));
}

/// Source: Devlin et al., "BERT", 2018, section 3 and appendix A.2, and its released code: 512
/// positions, two kinds of segments, a pooler over the first token. Differs, unless `masked` is
/// given: all words are predicted, not 15 % of them, since the step does not gather these.
/// `tensor`: heads, inner features and words are divided by the ranks (Shoeybi et al., Megatron-LM,
/// 2019).
Model bert(const Bert& s, std::string_view size) {
  Model model(fmt::format("bert-{}-l{}{}", size, s.length,
                          s.tensor > 1 ? fmt::format("-t{}", s.tensor) : ""),
              s.batch);
  model.set_eager(s.eager);
  const Shape tokens{s.batch, s.length};
  Tables tables{};
  ValueId x{}, pooled{};
  if (s.tensor == 1) {
    const auto module = model.module("embeddings", "BertEmbeddings");
    tables = embedding_tables(model, s);
    x = embedding(model, "words", model.input("input_ids", tokens), tables.words);
    x = placed_words(model, x, tokens, tables);
  } else {
    const auto scope = model.scope("embeddings");
    tables = embedding_tables(model, s);
    x = embedding(model, "words", model.input("input_ids", tokens), tables.words);
    x = sum_of_ranks(model, "sum", x, {s.tensor});
    const auto module = model.module("placed", "BertEmbeddings");
    x = placed_words(model, x, tokens, tables);
  }
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto layer = model.scope(fmt::format("encoder/layer_{}", i));
    x = feed_forward_layer(model, s, attention_layer(model, s, x));
  }
  if (s.answers) {
    answer_head(model, s, x);
    return model;
  }
  {
    const auto module = model.module("pooler", "BertPooler");
    pooled = tanh(model, "tanh", dense(model, "dense", first_step(model, "first", x), s.hidden));
  }
  if (s.pretraining) pretraining_heads(model, s, x, pooled, tables.words);
  return model;
}

}  // namespace

Trace make_bert(Options& options) {
  const Expansion e = read_expansion(options, 32, Optimizer::adam);
  const std::string size = options.get("size", std::vector<std::string>{"base", "large"},
                                       "12 layers of 768 features, or 24 of 1024");
  Bert s{.batch = e.batch, .layers = 12, .hidden = 768, .heads = 12};
  if (size == "large") s = {.batch = e.batch, .layers = 24, .hidden = 1024, .heads = 16};
  s.length = read_extent(options, "length", 128, "tokens of a sample", 512);
  Config config(options, "bert", "", "in place of `size`; type_vocab_size (kinds of segments)");
  s.layers = config.whole("num_hidden_layers", s.layers, 1, 1000);
  s.hidden = config.whole("hidden_size", s.hidden, 1, 1'000'000);
  s.heads = config.whole("num_attention_heads", s.heads, 1, 10'000);
  s.inner = config.whole("intermediate_size", 4 * s.hidden, 1);
  s.positions = config.whole("max_position_embeddings", 512, s.length);
  s.segments = config.whole("type_vocab_size", 2, 1);
  config.finish();
  s.words =
      read_extent(options, "vocab_size", config.whole("vocab_size", 30'522, 1), "word pieces");
  s.pretraining = options.get("pretraining_heads", true,
                              "heads that predict words and the next sentence, for training; "
                              "without, the encoder and pooler alone");
  s.masked = options.get("masked", std::int64_t{0},
                         "words of a sample that are predicted, 20 of 128 or 80 of 512 in the "
                         "published training; 0: all");
  s.tied =
      options.get("tie_word_embeddings", true, "the logits' weights are the words' embeddings");
  if (s.masked > s.length) options.mistake("masked", "more than 'length'");
  s.answers = options.get("answers", false,
                          "fine-tuning: a head that finds the answer to a question (SQuAD), in "
                          "place of the pooler and the pretraining heads");
  s.eager = e.kernels.eager;
  s.core = read_attention(options, e, s.core);
  s.core.again = read_recompute(options, e).contains(Recomputed::core_attn);
  s.tensor = read_ranks(
      options, {{"heads", s.heads}, {"features", s.hidden}, {"words of the vocabulary", s.words}});
  if (!s.pretraining && !s.answers && e.training)
    options.mistake("pretraining_heads", "are what is trained: needed unless training is off");
  limit_work(options, s.batch, s.length, s.hidden, s.words);
  options.finish();
  return expand(bert(s, config.name().empty() ? size : config.name()), e);
}

}  // namespace baechi::generate
