#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

constexpr std::int64_t frequencies = 161, context = 11, stride = 2;

struct DeepSpeech {
  std::int64_t batch = 0, steps = 0, layers = 0, units = 0, characters = 0;
};

/// One direction of a recurrent layer: h(t) = relu(x(t) + U h(before)). [steps, in their order]
std::vector<ValueId> one_direction(Model& m, const DeepSpeech& s, std::string_view name,
                                   std::span<const ValueId> inputs, bool backwards) {
  const auto scope = m.scope(name);
  const VariableId weights =
      m.variable("recurrent/weights", {s.units, s.units}, Initializer::uniform);
  std::vector<ValueId> outputs(inputs.size());
  std::optional<ValueId> before;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t t = backwards ? inputs.size() - 1 - i : i;
    const auto module = m.module(fmt::format("step_{}", t), "RNNCell");
    ValueId x = inputs[t];
    if (before) x = add(m, "add", x, dense_by(m, "linear", *before, weights));
    before = outputs[t] = relu(m, "relu", x);
  }
  return outputs;
}

/// Both directions read the same product of the layer below, and are added up.
ValueId both_directions(Model& m, const DeepSpeech& s, std::int64_t layer, ValueId x) {
  const auto scope = m.scope(fmt::format("rnn_{}", layer));
  std::vector<ValueId> inputs;
  {
    const auto module = m.module("input", "Linear");
    inputs = unstack(m, "unstack", dense(m, "linear", x, s.units, false));
  }
  const std::vector<ValueId> forward = one_direction(m, s, "fw", inputs, false),
                             backward = one_direction(m, s, "bw", inputs, true);
  const auto module = m.module("sum", "Add");
  return add(m, "add", stack(m, "fw", forward), stack(m, "bw", backward));
}

}  // namespace

/// Deep Speech 2: a convolution over time, bidirectional recurrent layers, and the characters. With
/// 7 recurrent layers of 1280 units, "7 RNN, 9 total": 36.7 10^6 parameters by hand; the paper
/// says 38. Source: Amodei et al., "Deep Speech 2", ICML 2016. Differs: the convolution is a dense
/// layer over windows of 11 frames, every second one, which are fed to the model; no batch
/// normalisation; cross-entropy per step in place of the loss over alignments.
Trace make_deep_speech_2(Options& options) {
  const Expansion e = read_expansion(options, 16, Optimizer::momentum);
  DeepSpeech s{.batch = e.batch};
  const std::int64_t frames =
      read_extent(options, "frames", 100, "of a spectrogram, 10 ms each; 2 or more", 10'000);
  s.steps = frames / stride;
  s.layers = read_extent(options, "num_hidden_layers", 7, "recurrent ones", 100);
  s.units = read_extent(options, "hidden_size", 1280, "width of a layer");
  s.characters = read_extent(options, "characters", 29, "and the blank among them");
  if (s.steps < 1) options.mistake("frames", "less than 2");
  limit_work(options, s.batch, s.steps, s.units, std::max(s.units, s.characters));
  options.finish();
  Model m("deep_speech_2", s.batch);
  ValueId x = m.input("windows", {s.batch, s.steps, context * frequencies});
  {
    const auto module = m.module("conv", "Conv1dReLU");
    x = relu(m, "relu", dense(m, "linear", x, s.units, false));
  }
  for (std::int64_t i = 1; i <= s.layers; ++i) x = both_directions(m, s, i, x);
  x = dense(m, "characters", x, s.characters, false);
  loss(m, "loss", x, m.input("labels", {s.batch, s.steps}));
  return expand(m, e);
}

}  // namespace baechi::generate
