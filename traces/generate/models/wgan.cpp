#include "traces/generate/layers/image_layers.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

ValueId added(Model& m, Layer l, Shape shape) {
  const ValueId y = m.output(l, std::move(shape));
  m.add(std::move(l));
  return y;
}

OpWork elementwise_layer(std::int64_t flops, const Value& x, int passes) {
  return {.flops = flops * elements(x.shape), .traffic = passes * x.size()};
}

/// The first variable of the layer that writes `y`.
VariableId weights_of(const Model& m, ValueId y) {
  return m.layer(*m.value(y).producer).variables.front();
}

ValueId reshape(Model& m, std::string_view name, ValueId x, Shape shape) {
  return added(
      m, {.kind = LayerKind::flatten, .name = m.scoped(name), .inputs = {x}, .in_place = true},
      std::move(shape));
}

/// For each image; a scale and an offset per channel.
ValueId image_norm(Model& m, std::string_view name, ValueId x) {
  Layer l{.kind = LayerKind::layer_norm, .name = m.scoped(name), .inputs = {x}};
  const Value in = m.value(x);
  const auto scope = m.scope(name);
  l.variables = {m.variable("gamma", {in.shape[1]}, Initializer::ones),
                 m.variable("beta", {in.shape[1]}, Initializer::zeros)};
  l.forward = elementwise_layer(8, in, 3);
  l.input_gradient = elementwise_layer(8, in, 5);
  l.variable_gradient = elementwise_layer(3, in, 2);
  l.saved = {x};
  l.kept = bytes_of(2 * in.shape[0]);
  return added(m, std::move(l), in.shape);
}

/// What image_norm()'s backward pass makes of `dy`, as a layer. It is linear in dy; its own
/// backward pass applies it once more and differentiates it by x, with as many sums again.
ValueId norm_gradient(Model& m, std::string_view name, ValueId dy, ValueId x, VariableId gamma) {
  Layer l{.kind = LayerKind::norm_gradient, .name = m.scoped(name), .inputs = {dy, x}};
  const Value in = m.value(dy);
  l.variables = {gamma};
  l.forward = elementwise_layer(8, in, 5);
  l.input_gradient = elementwise_layer(20, in, 8);
  l.variable_gradient = elementwise_layer(2, in, 2);
  l.saved = {dy, x};
  return added(m, std::move(l), in.shape);
}

/// `dy` where `y`, the output of a ReLU, is not 0. The gradient by y is 0.
ValueId relu_gradient(Model& m, std::string_view name, ValueId dy, ValueId y) {
  Layer l{.kind = LayerKind::relu_gradient, .name = m.scoped(name), .inputs = {dy, y}};
  const Value in = m.value(dy);
  l.forward = l.input_gradient = elementwise_layer(1, in, 3);
  l.saved = {y};
  return added(m, std::move(l), in.shape);
}

/// What a convolution's backward pass makes of `dy`, as a layer with the same weights.
ValueId conv_gradient(Model& m, std::string_view name, ValueId dy, VariableId weights) {
  Layer l{.kind = LayerKind::transposed_conv2d, .name = m.scoped(name), .inputs = {dy}};
  const Value in = m.value(dy);
  const Shape w = m.variable(weights).shape;  // height, width, channels of x, channels of y
  const Shape out{in.shape[0], w[2], in.shape[2], in.shape[3]};
  l.variables = {weights};
  l.multiply_adds = elements(in.shape) * w[0] * w[1] * w[2];
  l.forward = {.flops = 2 * l.multiply_adds,
               .traffic = in.size() + m.variable(weights).size() + bytes_of(elements(out)),
               .weights = m.variable(weights).size()};
  l.input_gradient = l.variable_gradient = l.forward;
  l.saved = {dy};
  return added(m, std::move(l), out);
}

constexpr Conv2d square(std::int64_t filters, std::int64_t kernel, bool bias) {
  return {.filters = filters, .kernel = kernel, .padding = same, .bias = bias};
}

/// 128 random numbers to an image of 64 x 64 pixels; `d`: filters of the last block.
ValueId generated(Model& m, ValueId noise, std::int64_t d) {
  const auto scope = m.scope("generator");
  ValueId x = dense(m, "input", noise, 16 * 8 * d);
  x = reshape(m, "images", x, {m.value(noise).shape[0], 8 * d, 4, 4});
  int block = 0;
  for (const std::int64_t filters : {8 * d, 4 * d, 2 * d, d}) {
    const auto in = m.scope(fmt::format("block{}", ++block));
    ValueId y = relu(m, "relu1", batch_norm(m, "bn1", x));
    y = conv2d(m, "conv1", upsample(m, "upsample", y), square(filters, 3, false));
    y = relu(m, "relu2", batch_norm(m, "bn2", y));
    y = conv2d(m, "conv2", y, square(filters, 3, true));
    x = conv2d(m, "shortcut", upsample(m, "upsample_shortcut", x), square(filters, 1, true));
    x = add(m, "sum", x, y);
  }
  x = relu(m, "relu", batch_norm(m, "bn", x));
  return tanh(m, "tanh", conv2d(m, "output", x, square(3, 3, true)));
}

class Critic {
 public:
  Critic(Model& m, std::int64_t d) : m_(m), d_(d) {}

  /// A number for each image.
  ValueId scores(ValueId x) {
    const auto scope = m_.scope("critic");
    x = conv2d(m_, "input", x, square(d_, 3, true));
    input_ = weights_of(m_, x);
    for (const std::int64_t filters : {2 * d_, 4 * d_, 8 * d_, 8 * d_}) x = block(x, filters);
    x = dense(m_, "output", flatten(m_, "flatten", x), 1);
    output_ = weights_of(m_, x);
    return x;
  }

  /// The gradient of the scores by the last `batch` of the images.
  ValueId image_gradient(std::int64_t batch) const {
    const auto scope = m_.scope("penalty");
    Layer first{.kind = LayerKind::dense, .name = m_.scoped("output"), .variables = {output_}};
    const std::int64_t width = elements(m_.variable(output_).shape);
    first.inputs = {m_.input("ones", {batch, 1})};
    first.multiply_adds = batch * width;
    first.forward = {.flops = 2 * batch * width, .traffic = bytes_of((batch + 1) * width)};
    first.variable_gradient = first.forward;
    ValueId dy = added(m_, std::move(first), {batch, width});
    dy = reshape(m_, "images", dy, {batch, 8 * d_, 4, 4});
    for (std::size_t i = blocks_.size(); i-- > 0;) dy = block_gradient(dy, blocks_[i], i + 1);
    return conv_gradient(m_, "input", dy, input_);
  }

 private:
  struct Block {
    ValueId in{}, relu1{}, middle{}, relu2{};
    VariableId norm1{}, norm2{}, conv1{}, conv2{}, shortcut{};
  };

  ValueId block(ValueId x, std::int64_t filters) {
    const auto scope = m_.scope(fmt::format("block{}", blocks_.size() + 1));
    Block b;
    b.in = x;
    const std::int64_t channels = m_.value(x).shape[1];
    const ValueId norm1 = image_norm(m_, "norm1", x);
    b.relu1 = relu(m_, "relu1", norm1);
    b.middle = conv2d(m_, "conv1", b.relu1, square(channels, 3, false));
    const ValueId norm2 = image_norm(m_, "norm2", b.middle);
    b.relu2 = relu(m_, "relu2", norm2);
    const ValueId conv2 = conv2d(m_, "conv2", b.relu2, square(filters, 3, true));
    const ValueId shortcut =
        conv2d(m_, "shortcut", avg_pool(m_, "pool_shortcut", x, {}), square(filters, 1, true));
    b.norm1 = weights_of(m_, norm1);
    b.norm2 = weights_of(m_, norm2);
    b.conv1 = weights_of(m_, b.middle);
    b.conv2 = weights_of(m_, conv2);
    b.shortcut = weights_of(m_, shortcut);
    blocks_.push_back(b);
    return add(m_, "sum", shortcut, avg_pool(m_, "pool", conv2, {}));
  }

  ValueId block_gradient(ValueId dy, const Block& b, std::size_t number) const {
    const auto scope = m_.scope(fmt::format("block{}", number));
    ValueId dx = conv_gradient(m_, "conv2", upsample(m_, "pool", dy), b.conv2);
    dx = norm_gradient(m_, "norm2", relu_gradient(m_, "relu2", dx, b.relu2), b.middle, b.norm2);
    dx = conv_gradient(m_, "conv1", dx, b.conv1);
    dx = norm_gradient(m_, "norm1", relu_gradient(m_, "relu1", dx, b.relu1), b.in, b.norm1);
    const ValueId beside =
        upsample(m_, "pool_shortcut", conv_gradient(m_, "shortcut", dy, b.shortcut));
    return add(m_, "sum", dx, beside);
  }

  Model& m_;
  std::int64_t d_;
  std::vector<Block> blocks_;
  VariableId input_{}, output_{};
};

/// Real images, generated ones, and if there is a penalty, as many between each two.
ValueId images_of_critic(Model& m, ValueId real, ValueId fake, bool between) {
  Layer l{.kind = LayerKind::concat, .name = m.scoped("batches"), .inputs = {real, fake}};
  const Value one = m.value(real);
  l.forward = {.flops = between ? 3 * elements(one.shape) : 0,
               .traffic = (between ? 5 : 4) * one.size()};
  Shape all = one.shape;
  all[0] *= between ? 3 : 2;
  return added(m, std::move(l), std::move(all));
}

/// The mean score, signs apart; and (norm of each gradient - 1)^2, if there are gradients.
void wasserstein(Model& m, std::vector<ValueId> inputs) {
  Layer l{.kind = LayerKind::loss, .name = m.scoped("loss"), .inputs = std::move(inputs)};
  l.saved = l.inputs;
  for (const ValueId v : l.inputs) {
    l.forward.flops += 2 * elements(m.value(v).shape);
    l.forward.traffic += m.value(v).size();
  }
  l.input_gradient = {.flops = l.forward.flops, .traffic = 2 * l.forward.traffic};
  added(m, std::move(l), {1});
}

}  // namespace

/// WGAN on images of 64 x 64 pixels: a generator and a critic, 13 convolutions and a dense layer
/// each, 8 of the convolutions in 4 residual blocks and 4 beside them. A step trains one of the
/// two; the published training takes 5 steps of the critic for each of the generator.
/// Source: Gulrajani et al., "Improved training of Wasserstein GANs", NeurIPS 2017: networks and
/// numbers of its published program for 64 x 64 (gan_64x64.py: GoodGenerator, GoodDiscriminator).
/// The gradient by the images, which the penalty needs, is a chain of layers with the critic's
/// weights, and is differentiated with the rest. Differs: the critic sees its three batches as one;
/// drawing random numbers is not there; without a penalty, neither is the clipping of weights.
Trace make_wgan(Options& options) {
  const Expansion e = read_expansion(options, 64, Optimizer::adam);
  const bool of_critic =
      options.get("step", {"critic", "generator"}, "which of the two it trains") == "critic";
  const bool penalty = options.get(
      "penalty", true, "the critic's loss contains the norm of a gradient, differentiated in turn");
  const std::int64_t d = read_extent(options, "filters", 64, "of the first convolution", 4096);
  limit_work(options, 3 * e.batch, 64 * 64, 9 * 8 * d, 8 * d);
  options.finish();
  Model m("wgan", e.batch);
  const ValueId noise = m.input("noise", {e.batch, 128});
  m.freeze(of_critic);
  const ValueId fake = generated(m, noise, d);
  m.freeze(!of_critic);
  Critic critic(m, d);
  if (!of_critic) {
    wasserstein(m, {critic.scores(fake)});
    return expand(m, e);
  }
  const ValueId real = m.input("images", {e.batch, 3, 64, 64});
  std::vector<ValueId> found{critic.scores(images_of_critic(m, real, fake, penalty && e.training))};
  if (penalty && e.training) found.push_back(critic.image_gradient(e.batch));
  wasserstein(m, std::move(found));
  return expand(m, e);
}

}  // namespace baechi::generate
