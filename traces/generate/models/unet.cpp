#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {

/// The U-Net of torchgpipe's benchmarks (Kim et al. 2020): going down, halves of the size with
/// twice the channels; going up, each level reads the output of the same level on the way down.
/// Convolutions of 3x3, each with dropout, an instance norm and a leaky ReLU.
Trace make_unet(Options& options) {
  const Expansion e = read_expansion(options, 40, Optimizer::sgd, false);
  const std::int64_t depth =
      options.get("depth", std::int64_t{5}, "times that the size halves", 1, 8);
  const std::int64_t convolutions =
      options.get("convolutions", std::int64_t{5}, "of each level", 2, 100);
  const std::int64_t channels =
      options.get("channels", std::int64_t{64}, "of the first level", 2, 4096);
  const std::int64_t side =
      options.get("side", std::int64_t{192}, "of the images, in pixels", 1, 4096);
  if (side % (std::int64_t{1} << depth) != 0)
    options.mistake("side", fmt::format("no multiple of 2^{}", depth));
  options.finish();
  Model m("unet", e.batch);
  ValueId x = m.input("images", {e.batch, 3, side, side});
  const ValueId labels = m.input("labels", {e.batch, 1, side, side});
  const auto convolve = [&](std::int64_t inner, std::int64_t last) {
    for (std::int64_t i = 0; i < convolutions; ++i) {
      const auto module = m.module(fmt::format("conv{}", i), "Conv2dDropoutNormReLU");
      const std::int64_t filters = i + 1 < convolutions ? inner : last;
      x = conv2d(m, "conv", x, {.filters = filters, .kernel = 3, .padding = padded(1)});
      x = batch_norm(m, "norm", dropout(m, "dropout", x), {.of_images = true});
      x = relu(m, "relu", x);
    }
  };
  std::vector<ValueId> skips;
  for (std::int64_t level = 0; level < depth; ++level) {
    const auto scope = m.scope(fmt::format("encode{}", level));
    convolve(channels << level, channels << level);
    skips.push_back(x);
    x = max_pool(m, "down", x, {});
  }
  {
    const auto scope = m.scope("middle");
    convolve(channels << depth, channels << (depth - 1));
  }
  for (std::int64_t level = depth; level-- > 0;) {
    const auto scope = m.scope(fmt::format("decode{}", level));
    x = upsample(m, "up", x);
    x = concat(m, "concat", std::array{x, skips[static_cast<std::size_t>(level)]});
    convolve((channels << level) / 2, (channels << level) / 2);
  }
  x = conv2d(m, "segment", x, {.filters = 1});
  loss(m, "loss", x, labels);
  return expand(m, e);
}

}  // namespace baechi::generate
