#include <array>

#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

class ResNet {
 public:
  ResNet(Model& model, bool frozen) : m_(model), frozen_(frozen) {}

  ValueId stem(ValueId x) {
    x = conv("conv1", x, {.filters = 64, .kernel = 7, .stride = 2, .padding = padded(3)});
    return max_pool(m_, "pool1", x, {.kernel = 3, .stride = 2, .padding = padded(1)});
  }

  /// 1x1 to a quarter of the filters, 3x3, 1x1 back; added to the input, which the first block of a
  /// stage projects. The stride is in the 3x3: "v1.5", as torchvision.
  ValueId bottleneck(std::string_view name, ValueId x, std::int64_t filters, std::int64_t stride,
                     bool project) {
    const auto scope = m_.scope(name);
    ValueId y = conv("conv1", x, {.filters = filters / 4});
    y = conv("conv2", y,
             {.filters = filters / 4, .kernel = 3, .stride = stride, .padding = padded(1)});
    y = conv("conv3", y, {.filters = filters}, false);
    if (project) x = conv("downsample", x, {.filters = filters, .stride = stride}, false);
    const auto module = m_.module("sum", "AddReLU");
    return relu(m_, "relu", add(m_, "add", y, x));
  }

 private:
  ValueId conv(std::string_view name, ValueId x, const Conv2d& shape, bool rectified = true) {
    const auto module = m_.module(name, rectified ? "Conv2dBatchNormReLU" : "Conv2dBatchNorm");
    const ValueId y =
        batch_norm(m_, "bn", conv2d(m_, "conv", x, shape), {.scale = true, .frozen = frozen_});
    return rectified ? relu(m_, "relu", y) : y;
  }

  Model& m_;
  bool frozen_;
};

/// "Deep residual learning for image recognition" (He et al. 2015), as torchvision has it.
Trace resnet(Options& options, std::string_view name, std::array<int, 4> blocks) {
  const Expansion e = read_expansion(options, 32, Optimizer::momentum);
  const std::int64_t classes = read_classes(options);
  options.finish();
  Model m(std::string(name), e.batch);
  const ValueId images = m.input("images", {e.batch, 3, 224, 224});
  const ValueId labels = m.input("labels", {e.batch});
  ResNet net(m, e.level == Level::tf1);
  ValueId x = net.stem(images);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    for (int block = 0; block < blocks[stage]; ++block) {
      x = net.bottleneck(fmt::format("layer{}.{}", stage + 1, block), x, std::int64_t{256} << stage,
                         stage > 0 && block == 0 ? 2 : 1, block == 0);
    }
  }
  x = adaptive_avg_pool(m, "avgpool", x, 1);
  x = dense(m, "fc", flatten(m, "flatten", x), classes);
  predict(m, "predictions", x);
  loss(m, "loss", x, labels);
  return expand(m, e);
}

}  // namespace

/// 25 557 032 parameters, 4.089184 10^9 multiply-adds per image.
Trace make_resnet50(Options& options) {
  return resnet(options, "resnet50", {3, 4, 6, 3});
}

/// 44 549 160 parameters.
Trace make_resnet101(Options& options) {
  return resnet(options, "resnet101", {3, 4, 23, 3});
}

}  // namespace baechi::generate
