#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {

namespace {

/// The convolutional networks of "Very deep convolutional networks" (Simonyan, Zisserman 2014):
/// configurations A, B, D and E, by their layers with weights, as torchvision has them.
Trace make(Options& options, const std::string& layers) {
  const Expansion e = read_expansion(options, 32, Optimizer::momentum);
  const std::int64_t classes = read_classes(options);
  options.finish();
  const int first = layers == "11" ? 1 : 2;
  const int last = layers == "19" ? 4 : layers == "16" ? 3 : 2;
  Model m("vgg" + layers, e.batch);
  ValueId x = m.input("images", {e.batch, 3, 224, 224});
  const ValueId labels = m.input("labels", {e.batch});
  struct Block {
    int convolutions;
    std::int64_t filters;
  };
  int block = 0;
  for (const auto [convolutions, filters] : {Block{first, 64}, Block{first, 128}, Block{last, 256},
                                             Block{last, 512}, Block{last, 512}}) {
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

}  // namespace

Trace make_vgg(Options& options) {
  return make(options, options.get("layers", {"16", "11", "13", "19"}, "layers with weights"));
}

Trace make_vgg16(Options& options) { return make(options, "16"); }

}  // namespace baechi::generate
