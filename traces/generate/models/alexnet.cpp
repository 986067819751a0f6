#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {

/// AlexNet as torchvision has it, after "One weird trick for parallelizing convolutional neural
/// networks" (Krizhevsky 2014): 61 100 840 parameters, 0.714188 multiply-adds 10^9 per image.
Trace make_alexnet(Options& options) {
  const Expansion e = read_expansion(options, 128, Optimizer::momentum);
  const std::int64_t classes = read_classes(options);
  options.finish();
  Model m("alexnet", e.batch);
  ValueId x = m.input("images", {e.batch, 3, 224, 224});
  const ValueId labels = m.input("labels", {e.batch});
  const auto conv = [&](std::string_view name, const Conv2d& shape) {
    const auto module = m.module(name, "Conv2dReLU");
    x = relu(m, "relu", conv2d(m, "conv", x, shape));
  };
  const auto pool = [&](std::string_view name) {
    x = max_pool(m, name, x, {.kernel = 3, .stride = 2});
  };
  conv("conv1", {.filters = 64, .kernel = 11, .stride = 4, .padding = padded(2), .bias = true});
  pool("pool1");
  conv("conv2", {.filters = 192, .kernel = 5, .padding = padded(2), .bias = true});
  pool("pool2");
  conv("conv3", {.filters = 384, .kernel = 3, .padding = padded(1), .bias = true});
  conv("conv4", {.filters = 256, .kernel = 3, .padding = padded(1), .bias = true});
  conv("conv5", {.filters = 256, .kernel = 3, .padding = padded(1), .bias = true});
  pool("pool5");
  x = flatten(m, "flatten", x);  // 6 x 6 x 256
  for (const std::string_view name : {"fc6", "fc7"}) {
    const auto module = m.module(name, "DropoutLinearReLU");
    x = relu(m, "relu", dense(m, "linear", dropout(m, "dropout", x), 4096));
  }
  x = dense(m, "fc8", x, classes);
  predict(m, "predictions", x);
  loss(m, "loss", x, labels);
  return expand(m, e);
}

}  // namespace baechi::generate
