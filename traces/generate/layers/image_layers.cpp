#include "traces/generate/layers/image_layers.h"

namespace baechi::generate {
namespace {

std::int64_t extent(std::int64_t size, std::int64_t kernel, std::int64_t stride, Padding padding) {
  if (padding.keeps_size) return (size + stride - 1) / stride;
  return (size + 2 * padding.pixels - kernel) / stride + 1;
}

/// The work of one pass over `bytes`: one floating-point operation per element.
OpWork elementwise(std::int64_t flops, Bytes bytes) { return {.flops = flops, .traffic = bytes}; }

/// Adds a layer that reads x and writes y. Its backward pass reads dy and what is saved, and writes
/// dx.
void work_per_element(Layer& l, Bytes x, Bytes y, std::int64_t flops) {
  l.forward = elementwise(flops, x + y);
  l.input_gradient = elementwise(flops, x + y);
}

/// cuDNN's workspace: 1.7 times the bytes that a convolution reads and writes if it has stride 1, a
/// kernel of more than 3 elements, more than 32 input channels and an output of more than one
/// pixel; else none. Source: Baechi's PyTorch log of Inception-V3 (RTX 2080, batch 64). The rule
/// agrees with all its 96 convolutions: 39 have a workspace, 37 of 1.54 to 1.90 times, two (8x8
/// pixels) of 3.6.
Bytes convolution_workspace(const Conv2d& o, std::int64_t channels, const Value& x,
                            const Value& y) {
  const bool transformed = o.stride == 1 && o.kernel.height * o.kernel.width > 3 && channels > 32 &&
                           y.shape[2] * y.shape[3] > 1;
  return transformed ? 1.7 * (x.size() + y.size()) : Bytes{};
}

ValueId pool(Model& model, Layer l, Shape out, std::int64_t window) {
  const Value x = model.value(l.inputs[0]);
  const ValueId y = model.output(l, std::move(out));
  const Value& written = model.value(y);
  work_per_element(l, x.size(), written.size(), elements(written.shape) * window);
  if (l.kind == LayerKind::max_pool) {
    l.saved = {l.inputs[0]};
    l.kept_fixed = 2 * written.size();  // 64-bit indices, as in PyTorch
    l.input_gradient.traffic += l.kept_fixed;
  }
  model.add(std::move(l));
  return y;
}

Shape pooled(const Shape& in, const Pool& o) {
  return {in[0], in[1], extent(in[2], o.kernel.height, o.stride, o.padding),
          extent(in[3], o.kernel.width, o.stride, o.padding)};
}

void add_bias(Layer& l, VariableId bias, std::int64_t outputs) {
  l.variables.push_back(bias);
  l.forward.flops += outputs;
  l.variable_gradient.flops += outputs;
}

}  // namespace

/// A dropout's mask has a byte for each number of two.
constexpr double mask_share = 0.5;

std::int64_t read_classes(Options& options) {
  constexpr std::int64_t most = 1'000'000;
  const std::int64_t classes =
      options.get("classes", std::int64_t{1000}, "that images are sorted into", 2);
  if (classes > most) options.mistake("classes", fmt::format("more than {}", most));
  return std::min(classes, most);
}

ValueId conv2d(Model& model, std::string_view name, ValueId x, const Conv2d& o) {
  Layer l = model.layer(o.groups > 1 ? LayerKind::grouped_conv2d : LayerKind::conv2d, name, {{x}});
  const Value in = model.value(x);
  const std::int64_t channels = in.shape[1] / o.groups;  // that one filter sees
  const Shape out{in.shape[0], o.filters, extent(in.shape[2], o.kernel.height, o.stride, o.padding),
                  extent(in.shape[3], o.kernel.width, o.stride, o.padding)};
  const auto scope = model.scope(name);
  const VariableId weights =
      model.variable("weights", {o.kernel.height, o.kernel.width, channels, o.filters},
                     Initializer::truncated_normal);
  l.variables = {weights};
  const ValueId y = model.output(l, out);
  const std::int64_t per_output = channels * o.kernel.height * o.kernel.width;
  const MatrixShape product{.count = o.groups,
                            .rows = elements(out) / o.filters,
                            .columns = o.filters / o.groups,
                            .inner = per_output};
  l.multiplies(product, in.size(), model.variable(weights).size(), model.value(y).size());
  if (o.bias) add_bias(l, model.variable("biases", {o.filters}, Initializer::zeros), elements(out));
  l.saved = {x};
  l.workspace = convolution_workspace(o, channels, in, model.value(y));
  model.add(std::move(l));
  return y;
}

ValueId batch_norm(Model& model, std::string_view name, ValueId x, BatchNorm o) {
  Layer l =
      model.layer(o.frozen ? LayerKind::frozen_batch_norm : LayerKind::batch_norm, name, {{x}});
  const Value in = model.value(x);
  const std::int64_t channels = in.shape[1];
  const auto scope = model.scope(name);
  const auto variable = [&](std::string_view what, Initializer init, bool trainable) {
    l.variables.push_back(model.variable(what, {channels}, init, trainable));
  };
  if (!o.of_images) {
    variable("moving_mean", Initializer::zeros, false);
    variable("moving_variance", Initializer::ones, false);
    variable("beta", Initializer::zeros, true);
  }
  if (o.scale && !o.of_images) variable("gamma", Initializer::ones, true);
  const ValueId y = model.output(l, in.shape);
  const std::int64_t n = elements(in.shape);
  // Frozen: one pass, y = a x + b. Else one more before it, for mean and variance. Backward: the
  // sums of dy and of dy x, then dx.
  l.forward = o.frozen ? elementwise(2 * n, 2 * in.size()) : elementwise(6 * n, 3 * in.size());
  l.input_gradient = elementwise(4 * n, 3 * in.size());
  l.variable_gradient = elementwise(4 * n, 2 * in.size());
  if (o.of_images) l.input_gradient.traffic += l.variable_gradient.traffic;
  l.saved = {x};
  // Mean and inverse deviation of the batch, or of each image.
  if (!o.frozen) l.kept = bytes_of(2 * channels * (o.of_images ? in.shape[0] : 1));
  model.add(std::move(l));
  return y;
}

ValueId relu(Model& model, std::string_view name, ValueId x) {
  Layer l = model.layer(LayerKind::relu, name, {{x}});
  const Value in = model.value(x);
  const ValueId y = model.output(l, in.shape);
  work_per_element(l, in.size(), in.size(), elements(in.shape));
  l.input_gradient.traffic += in.size();
  l.saved = {y};
  l.in_place = true;
  model.add(std::move(l));
  return y;
}

ValueId sigmoid(Model& model, std::string_view name, ValueId x) {
  Layer l = model.layer(LayerKind::sigmoid, name, {{x}});
  const Value in = model.value(x);
  const ValueId y = model.output(l, in.shape);
  work_per_element(l, in.size(), in.size(), 4 * elements(in.shape));
  l.input_gradient.traffic += in.size();
  l.saved = {y};
  model.add(std::move(l));
  return y;
}

ValueId scale_channels(Model& model, std::string_view name, ValueId x, ValueId factors) {
  Layer l = model.layer(LayerKind::scale_channels, name, {{x, factors}});
  const Value in = model.value(x);
  const Bytes each = model.value(factors).size();
  const ValueId y = model.output(l, in.shape);
  const std::int64_t n = elements(in.shape);
  l.forward = elementwise(n, 2 * in.size() + each);
  // dx = dy f; df = the sum of dy x over a channel.
  l.input_gradient = elementwise(3 * n, 4 * in.size() + 2 * each);
  l.saved = {x, factors};
  model.add(std::move(l));
  return y;
}

ValueId max_pool(Model& model, std::string_view name, ValueId x, Pool o) {
  return pool(model, model.layer(LayerKind::max_pool, name, {{x}}), pooled(model.value(x).shape, o),
              o.kernel.height * o.kernel.width);
}

ValueId avg_pool(Model& model, std::string_view name, ValueId x, Pool o) {
  return pool(model, model.layer(LayerKind::avg_pool, name, {{x}}), pooled(model.value(x).shape, o),
              o.kernel.height * o.kernel.width);
}

ValueId adaptive_avg_pool(Model& model, std::string_view name, ValueId x, std::int64_t side) {
  const Shape in = model.value(x).shape;
  const std::int64_t window = (in[2] + side - 1) / side * ((in[3] + side - 1) / side);
  return pool(model, model.layer(LayerKind::avg_pool, name, {{x}}), {in[0], in[1], side, side},
              window);
}

ValueId upsample(Model& model, std::string_view name, ValueId x) {
  Layer l = model.layer(LayerKind::upsample, name, {{x}});
  const Value in = model.value(x);
  l.forward.traffic = 5 * in.size();
  l.input_gradient = {.flops = 3 * elements(in.shape), .traffic = 5 * in.size()};
  const ValueId y = model.output(l, {in.shape[0], in.shape[1], 2 * in.shape[2], 2 * in.shape[3]});
  model.add(std::move(l));
  return y;
}

ValueId concat(Model& model, std::string_view name, std::span<const ValueId> parts) {
  Layer l = model.layer(LayerKind::concat, name, parts);
  Shape out = model.value(parts[0]).shape;
  out[1] = 0;
  for (const ValueId part : parts) out[1] += model.value(part).shape[1];
  const ValueId y = model.output(l, std::move(out));
  work_per_element(l, model.value(y).size(), model.value(y).size(), 0);
  model.add(std::move(l));
  return y;
}

ValueId add(Model& model, std::string_view name, ValueId a, ValueId b, bool scaled) {
  Layer l = model.layer(LayerKind::add, name, {{a, b}});
  const Value in = model.value(a);
  const ValueId y = model.output(l, in.shape);
  // Both inputs take the gradient of the sum as it is.
  l.forward = elementwise(elements(in.shape), 3 * in.size());
  if (scaled) l.forward_besides = {elementwise(elements(in.shape), 2 * in.size())};
  l.backward_besides = l.forward_besides;
  const auto before = model.value(a).producer;
  if (model.fuses_passes() && before && model.layer(*before).kind == LayerKind::dropout)
    l.forward.traffic += mask_share * in.size();
  model.add(std::move(l));
  return y;
}

ValueId dropout(Model& model, std::string_view name, ValueId x) {
  Layer l = model.layer(LayerKind::dropout, name, {{x}});
  const Value in = model.value(x);
  const ValueId y = model.output(l, in.shape);
  work_per_element(l, in.size(), in.size(), 2 * elements(in.shape));
  if (model.fuses_passes() || model.eager()) {  // the mask is written and read
    l.forward.traffic += mask_share * in.size();
    l.input_gradient.traffic += mask_share * in.size();
  }
  if (model.fuses_passes()) l.forward = {};  // the sum behind it drops
  l.kept_fixed = {elements(in.shape)};       // one byte per element
  model.add(std::move(l));
  return y;
}

ValueId flatten(Model& model, std::string_view name, ValueId x) {
  Layer l = model.layer(LayerKind::flatten, name, {{x}});
  const Shape in = model.value(x).shape;
  const ValueId y = model.output(l, {in[0], elements(in) / in[0]});
  l.in_place = true;
  model.add(std::move(l));
  return y;
}

ValueId dense(Model& model, std::string_view name, ValueId x, std::int64_t units, bool bias,
              std::optional<std::int64_t> multiplied) {
  Layer l = model.layer(LayerKind::dense, name, {{x}});
  const Value in = model.value(x);
  const std::int64_t rows = elements(in.shape) / in.shape.back(), groups = model.groups();
  l.groups = groups;
  l.groups_read = model.groups_read();
  const bool even = rows % groups == 0 && l.groups_read == groups;
  const auto scope = model.scope(name);
  const std::int64_t inner = in.shape.back();
  const VariableId weights =
      model.variable("weights", groups > 1 ? Shape{groups, inner, units} : Shape{inner, units},
                     Initializer::truncated_normal);
  l.variables = {weights};
  Shape out = in.shape;
  out.back() = units;
  const ValueId y = model.output(l, std::move(out));
  const std::int64_t columns = multiplied.value_or(units);
  if (columns > 0)
    l.multiplies({.count = even ? groups : 1,
                  .rows = even ? rows / groups : rows,
                  .columns = columns,
                  .inner = inner},
                 in.size(), bytes_of(groups * inner * columns), bytes_of(rows * columns));
  if (!even) l.forward.matrix.count = l.groups_read;
  if (bias) {
    add_bias(l, model.variable("biases", {groups * units}, Initializer::zeros), rows * columns);
    if (model.eager() || model.fuses_passes())  // a sum over the rows
      l.backward_besides.push_back({.flops = rows * columns, .traffic = bytes_of(rows * columns)});
  }
  l.saved = {x};
  model.add(std::move(l));
  return y;
}

void predict(Model& model, std::string_view name, ValueId logits) {
  Layer l = model.layer(LayerKind::predict, name, {{logits}});
  const Value in = model.value(logits);
  model.output(l, in.shape);
  l.forward = elementwise(4 * elements(in.shape), 2 * in.size());
  model.add(std::move(l));
}

void loss(Model& model, std::string_view name, ValueId logits, ValueId labels, LossKernels kernels,
          std::int64_t metrics) {
  Layer l = model.layer(LayerKind::loss, name, {{logits, labels}});
  const Value in = model.value(logits);
  model.output(l, {1});
  work_per_element(l, in.size(), in.size(), 5 * elements(in.shape));
  if (kernels == LossKernels::separate) {
    // Vocabulary-parallel cross-entropy (Shoeybi et al., Megatron-LM, 2019), a kernel for each,
    // times the logits' bytes in 32 bits. Forward: cast from 16 bits 1.5, largest 1, subtracted 2,
    // exponential 2, sum 1, divided 2. Backward: times the gradient 2, cast 1.5.
    l.forward.traffic = 1.5 * in.size();
    for (const int times : {1, 2, 2, 1, 2})
      l.forward_besides.push_back({.traffic = times * in.size()});
    l.input_gradient.traffic = 2 * in.size();
    l.backward_besides.push_back({.traffic = 1.5 * in.size()});
  }
  // Cast from 16 bits 1.5, log-probabilities 2. Backward: zeros 1, gradient 3, cast 1.5.
  constexpr double torch_forward = 3.5, torch_backward = 5.5;
  if (kernels == LossKernels::torch) {
    l.forward.traffic = torch_forward * in.size();
    l.input_gradient.traffic = torch_backward * in.size();
    // The copy in 32 bits; then the gradient of the log-probabilities and that of the copy, while
    // the output of the model is still held: 14 B for each 16-bit number at the peak.
    l.workspace = 2 * in.size();
  }
  for (std::int64_t i = 0; i < metrics; ++i)
    l.forward_besides.push_back({.flops = l.forward.flops, .traffic = torch_forward * in.size()});
  l.kept = in.size();  // log-probabilities
  model.add(std::move(l));
}

}  // namespace baechi::generate
