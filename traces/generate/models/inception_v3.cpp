#include "traces/generate/expand.h"
#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

/// "Rethinking the Inception architecture for computer vision" (Szegedy et al. 2015), with the
/// filters of slim and torchvision, which agree.
class InceptionV3 {
 public:
  InceptionV3(Model& model, BatchNorm norm) : m_(model), norm_(norm) {}

  ValueId stem(ValueId x) {
    x = conv("Conv2d_1a_3x3", x, 32, 3, valid, 2);
    x = conv("Conv2d_2a_3x3", x, 32, 3, valid);
    x = conv("Conv2d_2b_3x3", x, 64, 3);
    x = max_pool(m_, "MaxPool_3a", x, halve);
    x = conv("Conv2d_3b_1x1", x, 80, 1, valid);
    x = conv("Conv2d_4a_3x3", x, 192, 3, valid);
    return max_pool(m_, "MaxPool_5a", x, halve);
  }

  /// 35 x 35: Mixed_5b, 5c, 5d.
  ValueId mixed5(std::string_view name, ValueId x, std::int64_t pooled) {
    const auto scope = m_.scope(name);
    const ValueId b0 = conv("b0_1x1", x, 64, 1);
    ValueId b1 = conv("b1_1x1", x, 48, 1);
    b1 = conv("b1_5x5", b1, 64, 5);
    ValueId b2 = conv("b2_1x1", x, 64, 1);
    b2 = conv("b2_3x3a", b2, 96, 3);
    b2 = conv("b2_3x3b", b2, 96, 3);
    return join({b0, b1, b2, pool_branch(x, pooled)});
  }

  /// 35 x 35 to 17 x 17.
  ValueId mixed6a(ValueId x) {
    const auto scope = m_.scope("Mixed_6a");
    const ValueId b0 = conv("b0_3x3s2", x, 384, 3, valid, 2);
    ValueId b1 = conv("b1_1x1", x, 64, 1);
    b1 = conv("b1_3x3", b1, 96, 3);
    b1 = conv("b1_3x3s2", b1, 96, 3, valid, 2);
    return join({b0, b1, max_pool(m_, "b2_max", x, halve)});
  }

  /// 17 x 17, 7x7 kernels as 1x7 and 7x1: Mixed_6b to 6e.
  ValueId mixed6(std::string_view name, ValueId x, std::int64_t inner) {
    const auto scope = m_.scope(name);
    const ValueId b0 = conv("b0_1x1", x, 192, 1);
    ValueId b1 = conv("b1_1x1", x, inner, 1);
    b1 = conv("b1_1x7", b1, inner, {1, 7});
    b1 = conv("b1_7x1", b1, 192, {7, 1});
    ValueId b2 = conv("b2_1x1", x, inner, 1);
    b2 = conv("b2_7x1a", b2, inner, {7, 1});
    b2 = conv("b2_1x7a", b2, inner, {1, 7});
    b2 = conv("b2_7x1b", b2, inner, {7, 1});
    b2 = conv("b2_1x7b", b2, 192, {1, 7});
    return join({b0, b1, b2, pool_branch(x, 192)});
  }

  /// 17 x 17 to 8 x 8.
  ValueId mixed7a(ValueId x) {
    const auto scope = m_.scope("Mixed_7a");
    ValueId b0 = conv("b0_1x1", x, 192, 1);
    b0 = conv("b0_3x3s2", b0, 320, 3, valid, 2);
    ValueId b1 = conv("b1_1x1", x, 192, 1);
    b1 = conv("b1_1x7", b1, 192, {1, 7});
    b1 = conv("b1_7x1", b1, 192, {7, 1});
    b1 = conv("b1_3x3s2", b1, 192, 3, valid, 2);
    return join({b0, b1, max_pool(m_, "b2_max", x, halve)});
  }

  /// 8 x 8: Mixed_7b, 7c.
  ValueId mixed7(std::string_view name, ValueId x) {
    const auto scope = m_.scope(name);
    const ValueId b0 = conv("b0_1x1", x, 320, 1);
    ValueId b1 = conv("b1_1x1", x, 384, 1);
    b1 = join({conv("b1_1x3", b1, 384, {1, 3}), conv("b1_3x1", b1, 384, {3, 1})}, "b1_concat");
    ValueId b2 = conv("b2_1x1", x, 448, 1);
    b2 = conv("b2_3x3", b2, 384, 3);
    b2 = join({conv("b2_1x3", b2, 384, {1, 3}), conv("b2_3x1", b2, 384, {3, 1})}, "b2_concat");
    return join({b0, b1, b2, pool_branch(x, 192)});
  }

  /// Logits from 17 x 17, as torchvision has them.
  ValueId auxiliary(ValueId x, std::int64_t classes) {
    const auto scope = m_.scope("AuxLogits");
    x = avg_pool(m_, "AvgPool_5x5", x, {.kernel = 5, .stride = 3});
    x = conv("Conv2d_1x1", x, 128, 1);
    x = conv("Conv2d_5x5", x, 768, 5, valid);
    x = adaptive_avg_pool(m_, "AvgPool", x, 1);
    return dense(m_, "fc", flatten(m_, "flatten", x), classes);
  }

 private:
  static constexpr Pool halve{.kernel = 3, .stride = 2};

  ValueId conv(std::string_view name, ValueId x, std::int64_t filters, Kernel kernel,
               Padding padding = same, std::int64_t stride = 1) {
    const auto module = m_.module(name, "BasicConv2d");
    const ValueId y =
        conv2d(m_, "conv", x,
               {.filters = filters, .kernel = kernel, .stride = stride, .padding = padding});
    return relu(m_, "relu", batch_norm(m_, "bn", y, norm_));
  }
  ValueId pool_branch(ValueId x, std::int64_t filters) {
    x = avg_pool(m_, "b3_avg", x, {.kernel = 3, .stride = 1, .padding = same});
    return conv("b3_1x1", x, filters, 1);
  }
  ValueId join(std::initializer_list<ValueId> parts, std::string_view name = "concat") {
    return concat(m_, name, std::span(parts.begin(), parts.size()));
  }

  Model& m_;
  BatchNorm norm_;
};

}  // namespace

/// Level tf1 is the graph of Baechi's TensorFlow experiments (SoCC'20; its train.py): slim's
/// network in NCHW, is_training=False, no scale in its batch norms, no auxiliary head, RMSProp:
/// 7077 ops, of which 6884 have an edge, 23 817 352 parameters. Level module is torchvision's: with
/// scales 23 834 568, and with the auxiliary head 27 161 264. Both: 5.713216 10^9 multiply-adds per
/// image.
Trace make_inception_v3(Options& options) {
  const Expansion e = read_expansion(options, 32, Optimizer::rmsprop);
  const bool tf1 = e.level == Level::tf1;
  const std::int64_t classes = read_classes(options);
  const bool aux = options.get("aux", !tf1, "with the auxiliary head (level tf1: false)");
  options.finish();
  Model m("inception_v3", e.batch);
  const ValueId images = m.input("images", {e.batch, 3, 299, 299});
  const ValueId labels = m.input("labels", {e.batch});
  InceptionV3 net(m, {.scale = !tf1, .frozen = tf1});
  ValueId x = net.stem(images);
  x = net.mixed5("Mixed_5b", x, 32);
  x = net.mixed5("Mixed_5c", x, 64);
  x = net.mixed5("Mixed_5d", x, 64);
  x = net.mixed6a(x);
  x = net.mixed6("Mixed_6b", x, 128);
  x = net.mixed6("Mixed_6c", x, 160);
  x = net.mixed6("Mixed_6d", x, 160);
  x = net.mixed6("Mixed_6e", x, 192);
  std::optional<ValueId> auxiliary;
  if (aux) auxiliary = net.auxiliary(x, classes);
  x = net.mixed7a(x);
  x = net.mixed7("Mixed_7b", x);
  x = net.mixed7("Mixed_7c", x);
  if (tf1) {
    x = avg_pool(m, "AvgPool_1a_8x8", x, {.kernel = 8, .stride = 2});
    x = dropout(m, "Dropout_1b", x);
    x = conv2d(m, "Logits_1x1", x, {.filters = classes, .bias = true});
    x = flatten(m, "SpatialSqueeze", x);
  } else {
    x = dropout(m, "Dropout", adaptive_avg_pool(m, "AvgPool_1a_8x8", x, 1));
    x = dense(m, "Logits_1x1", flatten(m, "flatten", x), classes);
  }
  predict(m, "Predictions", x);
  if (auxiliary) x = add(m, "add", x, *auxiliary);
  loss(m, "loss", x, labels);
  return expand(m, e);
}

}  // namespace baechi::generate
