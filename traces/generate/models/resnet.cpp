#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

/// What tells the residual networks apart.
struct Variant {
  std::string_view name;
  std::array<int, 4> blocks;  ///< of the four stages
  std::int64_t groups = 1;    ///< of the 3x3 convolutions
  std::int64_t width = 64;    ///< filters per group in the first stage
  bool squeezes = false;      ///< squeeze-and-excitation before the sum
};

class ResNet {
 public:
  ResNet(Model& model, const Variant& variant, bool frozen)
      : m_(model), variant_(variant), frozen_(frozen) {}

  ValueId stem(ValueId x) {
    x = conv("conv1", x, {.filters = 64, .kernel = 7, .stride = 2, .padding = padded(3)});
    return max_pool(m_, "pool1", x, {.kernel = 3, .stride = 2, .padding = padded(1)});
  }

  /// 1x1 to fewer filters, 3x3, 1x1 back; added to the input, which the first block of a stage
  /// projects. The stride is in the 3x3: "v1.5", as torchvision.
  ValueId bottleneck(std::string_view name, ValueId x, std::int64_t filters, std::int64_t stride,
                     bool project) {
    const auto scope = m_.scope(name);
    const std::int64_t inner = filters / 4 * variant_.width * variant_.groups / 64;
    ValueId y = conv("conv1", x, {.filters = inner});
    y = conv("conv2", y,
             {.filters = inner,
              .kernel = 3,
              .stride = stride,
              .padding = padded(1),
              .groups = variant_.groups});
    y = conv("conv3", y, {.filters = filters}, false);
    if (variant_.squeezes) y = squeeze_and_excite(y, filters);
    if (project) x = conv("downsample", x, {.filters = filters, .stride = stride}, false);
    const auto module = m_.module("sum", "AddReLU");
    return relu(m_, "relu", add(m_, "add", y, x));
  }

 private:
  ValueId conv(std::string_view name, ValueId x, const Conv2d& shape, bool rectified = true) {
    const std::string kind = shape.groups > 1 ? "GroupedConv2dBatchNorm" : "Conv2dBatchNorm";
    const auto module = m_.module(name, rectified ? kind + "ReLU" : kind);
    const ValueId y =
        batch_norm(m_, "bn", conv2d(m_, "conv", x, shape), {.scale = true, .frozen = frozen_});
    return rectified ? relu(m_, "relu", y) : y;
  }

  /// Each channel times a factor between 0 and 1, which two dense layers make of the means of all
  /// channels. Source: "Squeeze-and-Excitation Networks" (Hu et al. 2018), reduction 16.
  ValueId squeeze_and_excite(ValueId x, std::int64_t channels) {
    const auto module = m_.module("se", "SqueezeExcite");
    ValueId y = flatten(m_, "flatten", adaptive_avg_pool(m_, "squeeze", x, 1));
    y = relu(m_, "relu", dense(m_, "fc1", y, channels / 16));
    y = sigmoid(m_, "sigmoid", dense(m_, "fc2", y, channels));
    return scale_channels(m_, "excite", x, y);
  }

  Model& m_;
  const Variant& variant_;
  bool frozen_;
};

/// "Deep residual learning for image recognition" (He et al. 2015), as torchvision has it.
Trace resnet(Options& options, const Variant& variant) {
  const Expansion e = read_expansion(options, 32, Optimizer::momentum);
  const std::int64_t classes = read_classes(options);
  options.finish();
  Model m(std::string(variant.name), e.batch);
  const ValueId images = m.input("images", {e.batch, 3, 224, 224});
  const ValueId labels = m.input("labels", {e.batch});
  ResNet net(m, variant, e.level == Level::tf1 || !e.training);
  ValueId x = net.stem(images);
  for (std::size_t stage = 0; stage < variant.blocks.size(); ++stage) {
    for (int block = 0; block < variant.blocks[stage]; ++block) {
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
  return resnet(options, {.name = "resnet50", .blocks = {3, 4, 6, 3}});
}

/// 44 549 160 parameters.
Trace make_resnet101(Options& options) {
  return resnet(options, {.name = "resnet101", .blocks = {3, 4, 23, 3}});
}

/// "Aggregated Residual Transformations" (Xie et al. 2017), 32 groups of 4: 44 177 704 parameters,
/// 7.969997 10^9 multiply-adds per image.
Trace make_resnext101(Options& options) {
  return resnet(options, {.name = "resnext101", .blocks = {3, 4, 23, 3}, .groups = 32, .width = 4});
}

/// The same with squeeze-and-excitation: 48 955 416 parameters.
Trace make_se_resnext101(Options& options) {
  return resnet(options, {.name = "se_resnext101",
                          .blocks = {3, 4, 23, 3},
                          .groups = 32,
                          .width = 4,
                          .squeezes = true});
}

}  // namespace baechi::generate
