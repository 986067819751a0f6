#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

struct Gnmt {
  std::int64_t batch = 0, length = 0, layers = 0, units = 0, words = 0;
};

LstmState zero_state(Model& model, const Gnmt& s) {
  const auto scope = model.scope("zero_state");
  const ValueId cell = zeros(model, "cell", {s.batch, s.units});
  return {.cell = cell, .output = zeros(model, "output", {s.batch, s.units})};
}

std::string step(std::size_t t) { return fmt::format("step_{}", t); }

/// The embedded words of the source or of the target, one value per step.
std::vector<ValueId> embedding_of(Model& model, const Gnmt& s, std::string_view words) {
  const ValueId ids = model.input(words, {s.batch, s.length});
  const auto module = model.module("embedding", "Embedding");
  const VariableId table = model.variable("table", {s.words, s.units}, Initializer::uniform);
  return unstack(model, "unstack", embedding(model, "lookup", ids, table));
}

/// A layer of the encoder; it reads its steps first to last, or last to first.
struct Direction {
  std::vector<ValueId> outputs;  ///< [length], in the order of the steps
  LstmState last;
};
Direction one_way(Model& model, const Gnmt& s, std::string_view name,
                  std::span<const ValueId> steps, bool backwards) {
  const auto scope = model.scope(name);
  LstmState state = zero_state(model, s);
  const LstmVariables variables =
      lstm_variables(model, "lstm", model.value(steps[0]).shape[1], s.units);
  Direction result{.outputs = std::vector<ValueId>(steps.size()), .last = {}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t t = backwards ? steps.size() - 1 - i : i;
    const auto module = model.module(step(t), "LSTMCell");
    state = lstm_cell(model, "lstm", steps[t], state, variables);
    result.outputs[t] = state.output;
  }
  result.last = state;
  return result;
}

struct Encoded {
  ValueId memory;                 ///< [batch, length, units]
  std::vector<LstmState> states;  ///< where each layer of the decoder begins
};

/// The encoder: layer 1 in both directions, then the other layers, all of them at one step before
/// the next step. From layer 3 on a layer adds its input to its output.
Encoded encode(Model& model, const Gnmt& s) {
  const auto encoder = model.scope("encoder");
  const std::vector<ValueId> words = embedding_of(model, s, "source");
  std::vector<ValueId> steps(words.size());
  Encoded result;
  {
    const auto layer_1 = model.scope("layer_1");
    const Direction forward = one_way(model, s, "fw", words, false);
    const Direction backward = one_way(model, s, "bw", words, true);
    for (std::size_t t = 0; t < steps.size(); ++t)
      steps[t] = concat_features(model, step(t), {{forward.outputs[t], backward.outputs[t]}});
    result.states.push_back(backward.last);
  }
  std::vector<LstmVariables> variables;
  for (std::int64_t i = 2; i <= s.layers; ++i) {
    const auto layer = model.scope(fmt::format("layer_{}", i));
    result.states.push_back(zero_state(model, s));
    variables.push_back(lstm_variables(model, "lstm", i == 2 ? 2 * s.units : s.units, s.units));
  }
  for (std::size_t t = 0; t < steps.size(); ++t) {
    for (std::size_t i = 1; i < result.states.size(); ++i) {
      const auto layer = model.scope(fmt::format("layer_{}", i + 1));
      const auto module = model.module(step(t), "LSTMCell");
      const ValueId x = steps[t];
      result.states[i] = lstm_cell(model, "lstm", x, result.states[i], variables[i - 1]);
      steps[t] = result.states[i].output;
      if (i >= 2) steps[t] = add(model, "residual", x, steps[t]);
    }
  }
  result.memory = stack(model, "stack", steps);
  return result;
}

/// The tensors that the attention of all steps shares.
struct Memory {
  ValueId values, keys;
  VariableId query_weights, v;
};

ValueId attend(Model& model, std::size_t t, ValueId query, const Memory& memory) {
  const auto attention = model.scope("attention");
  const auto module = model.module(step(t), "BahdanauAttention");
  const ValueId q = dense_by(model, "query_layer", query, memory.query_weights);
  const ValueId scores = additive_score(model, "score", q, memory.keys, memory.v);
  return weighted_sum(model, "context", softmax(model, "alignments", scores), memory.values);
}

/// The decoder. The output of layer 1 is the query of the attention in the same step ("v2"). The
/// layers above read its result in this step beside their input, and layer 1 in the next step.
ValueId decode(Model& model, const Gnmt& s, const Encoded& encoded) {
  const auto decoder = model.scope("decoder");
  const std::vector<ValueId> words = embedding_of(model, s, "target");
  Memory memory{.values = encoded.memory, .keys = {}, .query_weights = {}, .v = {}};
  ValueId context{}, count{};
  {
    const auto attention = model.scope("attention");
    const Shape square{s.units, s.units};
    memory.keys = dense(model, "memory_layer", encoded.memory, s.units, false);
    memory.query_weights = model.variable("query_layer/weights", square, Initializer::uniform);
    memory.v = model.variable("v", {s.units}, Initializer::uniform);
    // TensorFlow's wrapper makes zeros for every possible state; only these two are read.
    const auto zero = model.scope("zero_state");
    count = step_count(model, "time", std::nullopt);
    context = zeros(model, "context", {s.batch, s.units});
    zeros(model, "alignments", {s.batch, s.length});
    zeros(model, "attention_state", {s.batch, s.length});
  }
  std::vector<LstmVariables> variables;
  for (std::int64_t i = 1; i <= s.layers; ++i) {
    const auto layer = model.scope(fmt::format("layer_{}", i));
    zero_state(model, s);  // not read: the decoder begins with the encoder's last state
    variables.push_back(lstm_variables(model, "lstm", 2 * s.units, s.units));
  }
  std::vector<LstmState> states = encoded.states;
  std::vector<ValueId> tops;
  for (std::size_t t = 0; t < words.size(); ++t) {
    ValueId x = words[t];
    for (std::size_t i = 0; i < states.size(); ++i) {
      {
        const auto layer = model.scope(fmt::format("layer_{}", i + 1));
        const auto module = model.module(step(t), "LSTMCell");
        const ValueId both = concat_features(model, "concat", {{x, context}});
        states[i] = lstm_cell(model, "lstm", both, states[i], variables[i]);
        x = states[i].output;
        if (i >= 2) x = add(model, "residual", first_features(model, "split", both, s.units), x);
      }
      if (i == 0) context = attend(model, t, x, memory);
    }
    const auto attention = model.scope("attention");
    const auto scope = model.scope(step(t));
    count = step_count(model, "time", count);
    tops.push_back(x);
  }
  return stack(model, "stack", tops);
}

/// Source: Wu et al., "Google's Neural Machine Translation System", 2016, with the attention of
/// TensorFlow's NMT tutorial ("v2"), as Baechi trained it: LSTM cells of one width, no dropout,
/// unrolled to a fixed length.
Model gnmt(const Gnmt& s) {
  Model model(fmt::format("gnmt-l{}", s.length), s.batch);
  const Encoded encoded = encode(model, s);
  const ValueId top = decode(model, s, encoded);
  const ValueId logits = dense(model, "projection", top, s.words, false);
  loss(model, "loss", logits, model.input("labels", {s.batch, s.length}));
  return model;
}

}  // namespace

Trace make_gnmt(Options& options) {
  const Expansion e = read_expansion(options, 128, Optimizer::adam);
  Gnmt s{.batch = e.batch};
  s.length = read_extent(options, "length", 40, "words of a sentence, of either side", 1000);
  s.layers = read_extent(options, "num_hidden_layers", 4,
                         "of the encoder, and of the decoder; 2 or more", 100);
  s.units = read_extent(options, "hidden_size", 512, "width of a cell and of a word");
  s.words = read_extent(options, "vocab_size", 30'000, "words of either language");
  if (s.layers < 2) options.mistake("num_hidden_layers", "less than 2");
  limit_work(options, s.batch, s.length, s.units, std::max(s.words, 12 * s.units));
  options.finish();
  return expand(gnmt(s), e);
}

}  // namespace baechi::generate
