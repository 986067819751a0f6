#include "sim/random.h"
#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

/// Families of random models: a seed draws a structure, `size` makes it larger or smaller. The idea
/// of placing graphs of a family of which some were seen: Placeto (Addanki et al., NeurIPS 2019).
namespace baechi::generate {
namespace {

/// What a member of a family is drawn by.
struct Draw {
  Random random{1};
  double size = 1.0;

  /// Uniform in [least, most].
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + random.below(static_cast<std::uint32_t>(most - least + 1));
  }
  /// The same, times the size; at least 1.
  std::int64_t sized(std::int64_t least, std::int64_t most) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(size * static_cast<double>(between(least, most)) + 0.5));
  }
  /// `least` x 2^k, k uniform in [0, doublings].
  std::int64_t doubled(std::int64_t least, std::int64_t doublings) {
    return least << between(0, doublings);
  }
};

Draw read_draw(Options& options) {
  Draw draw{
      .random = Random(static_cast<std::uint64_t>(
          options.get("seed", std::int64_t{1}, "another seed, another model", 0))),
      .size = options.get("size", 1.0, "times as many cells, steps or blocks; 0.1 to 20", 0.1)};
  if (draw.size > 20.0) options.mistake("size", "more than 20");
  return draw;
}

/// Cells as architecture search draws them.
class Cells {
 public:
  Cells(Model& model, Draw& draw) : m_(model), draw_(draw) {}

  /// A cell reads the two cells before it. Each node adds two of: cells before, nodes before, each
  /// through a drawn op. What no node reads is concatenated, and brought to `channels`.
  ValueId cell(std::string_view name, ValueId before, ValueId last, std::int64_t channels) {
    const auto scope = m_.scope(name);
    std::vector<ValueId> states{fitted("in0", before, channels), fitted("in1", last, channels)};
    std::vector<bool> read(2, false);
    const std::int64_t nodes = draw_.between(2, 4);
    for (std::int64_t n = 0; n < nodes; ++n) {
      const auto node = m_.scope(fmt::format("node{}", n));
      const std::size_t a = draw_.random.below(static_cast<std::uint32_t>(states.size()));
      const std::size_t b = draw_.random.below(static_cast<std::uint32_t>(states.size()));
      read[a] = read[b] = true;
      const ValueId left = drawn("left", states[a], channels);
      const ValueId right = drawn("right", states[b], channels);
      states.push_back(add(m_, "sum", left, right));
      read.push_back(false);
    }
    std::vector<ValueId> loose;
    for (std::size_t i = 2; i < states.size(); ++i)
      if (!read[i]) loose.push_back(states[i]);
    if (loose.size() == 1) return loose.front();
    return conv("out", concat(m_, "concat", loose), channels, 1, 1, 1);
  }

  ValueId conv(std::string_view name, ValueId x, std::int64_t filters, std::int64_t side,
               std::int64_t stride, std::int64_t groups) {
    const auto module =
        m_.module(name, groups > 1 ? "GroupedConv2dBatchNormReLU" : "Conv2dBatchNormReLU");
    const ValueId y = conv2d(m_, "conv", x,
                             {.filters = filters,
                              .kernel = side,
                              .stride = stride,
                              .padding = padded(side / 2),
                              .groups = groups});
    return relu(m_, "relu", batch_norm(m_, "bn", y));
  }

 private:
  std::int64_t side(ValueId x) const { return m_.value(x).shape[2]; }

  /// `x` in the cell's channels, and of the size of the cell before.
  ValueId fitted(std::string_view name, ValueId x, std::int64_t channels) {
    const std::int64_t stride = std::max<std::int64_t>(1, side(x) / side_);
    if (stride == 1 && m_.value(x).shape[1] == channels) return x;
    return conv(name, x, channels, 1, stride, 1);
  }
  ValueId drawn(std::string_view name, ValueId x, std::int64_t channels) {
    switch (draw_.random.below(5)) {
      case 0:
        return conv(name, x, channels, 1, 1, 1);
      case 1:
        return conv(name, x, channels, 3, 1, 1);
      case 2:
        return conv(name, x, channels, 5, 1, channels);  // depthwise
      case 3:
        return max_pool(m_, name, x, {.kernel = 3, .stride = 1, .padding = padded(1)});
      default:
        return x;
    }
  }

  Model& m_;
  Draw& draw_;

 public:
  std::int64_t side_ = 32;  ///< of the images inside the cells
};

/// Sums pairs, then pairs of sums.
ValueId sum_of(Model& m, std::vector<ValueId> values) {
  for (int level = 0; values.size() > 1; ++level) {
    std::vector<ValueId> sums;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2)
      sums.push_back(add(m, fmt::format("sum{}_{}", level, i / 2), values[i], values[i + 1]));
    if (values.size() % 2 == 1) sums.push_back(values.back());
    values = std::move(sums);
  }
  return values.front();
}

ValueId activation(Model& m, std::uint32_t which, std::string_view name, ValueId x) {
  switch (which) {
    case 0:
      return tanh(m, name, x);
    case 1:
      return sigmoid(m, name, x);
    default:
      return gelu(m, name, x);
  }
}

std::vector<ValueId> lstm_layer(Model& m, std::string_view name, std::vector<ValueId> steps,
                                std::int64_t batch, std::int64_t units) {
  const auto scope = m.scope(name);
  LstmState state{zeros(m, "zero_cell", {batch, units}), zeros(m, "zero_output", {batch, units})};
  const LstmVariables variables = lstm_variables(m, "lstm", m.value(steps.front()).shape[1], units);
  for (std::size_t t = 0; t < steps.size(); ++t) {
    const auto module = m.module(fmt::format("step_{}", t), "LSTMCell");
    state = lstm_cell(m, "lstm", steps[t], state, variables);
    steps[t] = state.output;
  }
  return steps;
}

std::vector<ValueId> embedded_words(Model& m, std::string_view words, std::int64_t batch,
                                    std::int64_t length, std::int64_t units, std::int64_t count) {
  const ValueId ids = m.input(words, {batch, length});
  const auto module = m.module(fmt::format("{}_embedding", words), "Embedding");
  const VariableId table = m.variable("table", {count, units}, Initializer::uniform);
  return unstack(m, "unstack", embedding(m, "lookup", ids, table));
}

}  // namespace

/// 6 to 20 cells for images of 32 x 32; twice on the way the size halves and the channels double.
/// Source: the search space of ENAS (Pham et al., ICML 2018), from which Placeto drew.
Trace make_cells(Options& options) {
  const Expansion e = read_expansion(options, 128, Optimizer::momentum);
  Draw draw = read_draw(options);
  options.finish();
  Model m("cells", e.batch);
  const ValueId labels = m.input("labels", {e.batch});
  Cells cells(m, draw);
  std::int64_t channels = draw.doubled(32, 2);
  ValueId last = cells.conv("stem", m.input("images", {e.batch, 3, 32, 32}), channels, 3, 1, 1);
  ValueId before = last;
  const std::int64_t count = draw.sized(6, 20);
  for (std::int64_t c = 0; c < count; ++c) {
    if (count >= 3 && (c == count / 3 || c == 2 * count / 3)) {
      channels *= 2;
      cells.side_ /= 2;
    }
    const ValueId next = cells.cell(fmt::format("cell{}", c), before, last, channels);
    before = last;
    last = next;
  }
  const ValueId x = adaptive_avg_pool(m, "pool", last, 1);
  loss(m, "loss", dense(m, "fc", flatten(m, "flatten", x), 10), labels);
  return expand(m, e);
}

/// A drawn recurrent cell of 8 nodes, unrolled 10 to 40 steps. Each node multiplies a node before
/// it by its weights; the sum of those that no node reads is the state. Source: the recurrent cells
/// of ENAS (Pham et al., ICML 2018), from which Placeto drew.
Trace make_recurrent(Options& options) {
  const Expansion e = read_expansion(options, 64, Optimizer::sgd);
  Draw draw = read_draw(options);
  options.finish();
  constexpr std::int64_t nodes = 8, words = 10'000;
  Model m("recurrent", e.batch);
  const std::int64_t units = draw.doubled(256, 2), length = draw.sized(10, 40);
  std::vector<std::int64_t> from{-1};
  std::vector<std::uint32_t> function{0};
  std::vector<bool> read(nodes, false);
  std::vector<VariableId> weights{m.variable("w0", {2 * units, units}, Initializer::uniform)};
  for (std::int64_t n = 1; n < nodes; ++n) {
    from.push_back(draw.between(std::max<std::int64_t>(0, n - 3), n - 1));
    function.push_back(draw.random.below(3));
    read[static_cast<std::size_t>(from.back())] = true;
    weights.push_back(m.variable(fmt::format("w{}", n), {units, units}, Initializer::uniform));
  }
  const std::vector<ValueId> steps = embedded_words(m, "words", e.batch, length, units, words);
  ValueId state = zeros(m, "zero_state", {e.batch, units});
  std::vector<ValueId> outputs;
  for (std::size_t t = 0; t < steps.size(); ++t) {
    const auto scope = m.scope(fmt::format("step_{}", t));
    std::vector<ValueId> node, loose;
    for (std::size_t n = 0; n < nodes; ++n) {
      const auto module = m.module(fmt::format("node{}", n), "RecurrentNode");
      const ValueId x = n == 0 ? concat_features(m, "concat", {{steps[t], state}})
                               : node[static_cast<std::size_t>(from[n])];
      node.push_back(activation(m, function[n], "f", dense_by(m, "product", x, weights[n])));
      if (!read[n]) loose.push_back(node.back());
    }
    state = sum_of(m, std::move(loose));
    outputs.push_back(state);
  }
  const ValueId logits = dense(m, "projection", stack(m, "stack", outputs), words, false);
  loss(m, "loss", logits, m.input("labels", {e.batch, length}));
  return expand(m, e);
}

/// Encoder and decoder of 2 to 4 LSTM layers, 10 to 40 steps, additive attention on the decoder's
/// top. Source: Bahdanau et al., ICLR 2015, as the NMT models that Placeto drew.
Trace make_seq2seq(Options& options) {
  const Expansion e = read_expansion(options, 64, Optimizer::adam);
  Draw draw = read_draw(options);
  options.finish();
  Model m("seq2seq", e.batch);
  const std::int64_t units = draw.doubled(256, 2), length = draw.sized(10, 40),
                     layers = draw.between(2, 4), words = draw.doubled(8'000, 2);
  std::vector<ValueId> source = embedded_words(m, "source", e.batch, length, units, words);
  std::vector<ValueId> target = embedded_words(m, "target", e.batch, length, units, words);
  for (std::int64_t i = 0; i < layers; ++i) {
    source = lstm_layer(m, fmt::format("encoder_{}", i), source, e.batch, units);
    target = lstm_layer(m, fmt::format("decoder_{}", i), target, e.batch, units);
  }
  const ValueId memory = stack(m, "memory", source);
  const ValueId keys = dense(m, "keys", memory, units, false);
  const VariableId v = m.variable("v", {units}, Initializer::uniform);
  const VariableId w = m.variable("query_weights", {units, units}, Initializer::uniform);
  const VariableId join = m.variable("join_weights", {2 * units, units}, Initializer::uniform);
  for (std::size_t t = 0; t < target.size(); ++t) {
    const auto module = m.module(fmt::format("attention_{}", t), "BahdanauAttention");
    const ValueId scores = additive_score(m, "score", dense_by(m, "query", target[t], w), keys, v);
    const ValueId context = weighted_sum(m, "context", softmax(m, "weights", scores), memory);
    const ValueId both = concat_features(m, "concat", {{target[t], context}});
    target[t] = tanh(m, "tanh", dense_by(m, "join", both, join));
  }
  const ValueId logits = dense(m, "projection", stack(m, "stack", target), words, false);
  loss(m, "loss", logits, m.input("labels", {e.batch, length}));
  return expand(m, e);
}

/// 6 to 20 blocks, each of 2 to 6 branches of 1 to 3 matrix products whose results are added up.
/// Source: the chain and branch graphs of DOPPLER (ICLR 2026), in our own sizes.
Trace make_blocks(Options& options) {
  const Expansion e = read_expansion(options, 512, Optimizer::sgd);
  Draw draw = read_draw(options);
  options.finish();
  Model m("blocks", e.batch);
  const std::int64_t width = draw.doubled(512, 2), blocks = draw.sized(6, 20);
  const ValueId labels = m.input("labels", {e.batch});
  ValueId x = dense(m, "input", m.input("features", {e.batch, 256}), width);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const auto scope = m.scope(fmt::format("block{}", b));
    std::vector<ValueId> ends;
    const std::int64_t branches = draw.between(2, 6);
    for (std::int64_t k = 0; k < branches; ++k) {
      const auto branch = m.scope(fmt::format("branch{}", k));
      const std::int64_t depth = draw.between(1, 3), inner = draw.doubled(width / 2, 2);
      ValueId y = x;
      for (std::int64_t i = 0; i < depth; ++i) {
        const auto module = m.module(fmt::format("product{}", i), "LinearGELU");
        y = gelu(m, "gelu", dense(m, "product", y, i + 1 == depth ? width : inner));
      }
      ends.push_back(y);
    }
    x = sum_of(m, std::move(ends));
  }
  loss(m, "loss", dense(m, "logits", x, 1000), labels);
  return expand(m, e);
}

}  // namespace baechi::generate
