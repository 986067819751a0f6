#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {

/// VGG-16, configuration D of "Very deep convolutional networks" (Simonyan, Zisserman 2014), as
/// torchvision has it: 138 357 544 parameters, 15.470264 10^9 multiply-adds per image.
Trace make_vgg16(Options& options) {
  const Expansion e = read_expansion(options, 32, Optimizer::momentum);
  const std::int64_t classes = read_classes(options);
  options.finish();
  Model m("vgg16", e.batch);
  ValueId x = m.input("images", {e.batch, 3, 224, 224});
  const ValueId labels = m.input("labels", {e.batch});
  struct Block {
    int convolutions;
    std::int64_t filters;
  };
  int block = 0;
  for (const auto [convolutions, filters] :
       {Block{2, 64}, Block{2, 128}, Block{3, 256}, Block{3, 512}, Block{3, 512}}) {
    const auto scope = m.scope(fmt::format("block{}", ++block));
    for (int i = 1; i <= convolutions; ++i) {
      const auto module = m.module(fmt::format("conv{}", i), "Conv2dReLU");
      x = relu(m, "relu",
               conv2d(m, "conv", x,
                      {.filters = filters, .kernel = 3, .padding = padded(1), .bias = true}));
    }
    x = max_pool(m, "pool", x, {.kernel = 2, .stride = 2});
  }
  x = flatten(m, "flatten", x);  // 7 x 7 x 512
  for (const std::string_view name : {"fc6", "fc7"}) {
    const auto module = m.module(name, "LinearReLUDropout");
    x = dropout(m, "dropout", relu(m, "relu", dense(m, "linear", x, 4096)));
  }
  x = dense(m, "fc8", x, classes);
  predict(m, "predictions", x);
  loss(m, "loss", x, labels);
  return expand(m, e);
}

}  // namespace baechi::generate
