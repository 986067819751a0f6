#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {

/// A3C, the step of one worker: two convolutions and a dense layer over the last four frames, 84 x
/// 84, of a game; then a probability for each action, and the value. By hand, with 6 actions: 4 112
/// + 8 224 + 663 808 + 1 799 parameters. Source: Mnih et al., "Asynchronous methods for deep
/// reinforcement learning", ICML 2016, network of Mnih et al., "Playing Atari with deep
/// reinforcement learning", 2013. Differs: the loss of probabilities and value is one cross-entropy
/// over both; the game is not there, nor the passes that choose the actions.
Trace make_a3c(Options& options) {
  const Expansion e = read_expansion(options, 5, Optimizer::rmsprop);  // t_max of the paper
  const std::int64_t actions = read_extent(options, "actions", 6, "of the game", 1000);
  options.finish();
  Model m("a3c", e.batch);
  ValueId x = m.input("frames", {e.batch, 4, 84, 84});
  const ValueId labels = m.input("labels", {e.batch});
  const auto conv = [&](std::string_view name, const Conv2d& shape) {
    const auto module = m.module(name, "Conv2dReLU");
    x = relu(m, "relu", conv2d(m, "conv", x, shape));
  };
  conv("conv1", {.filters = 16, .kernel = 8, .stride = 4, .bias = true});
  conv("conv2", {.filters = 32, .kernel = 4, .stride = 2, .bias = true});
  x = flatten(m, "flatten", x);  // 9 x 9 x 32
  {
    const auto module = m.module("fc", "LinearReLU");
    x = relu(m, "relu", dense(m, "linear", x, 256));
  }
  x = dense(m, "policy_and_value", x, actions + 1);
  predict(m, "predictions", x);
  loss(m, "loss", x, labels);
  return expand(m, e);
}

}  // namespace baechi::generate
