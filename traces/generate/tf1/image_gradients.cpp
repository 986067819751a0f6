#include "traces/generate/tf1/graph.h"

namespace baechi {
namespace {

// What is registered in ops/{nn,math,array}_grad.py. A gradient is as large as what it is of; it
// reads and writes what is named here.

using Arriving = std::span<const Tf1Tensor>;

Tf1Tensor input(const Tf1Graph& g, Tf1Op op, std::size_t i) {
  return g.node(op).inputs[i];
}
Bytes input_size(const Tf1Graph& g, Tf1Op op, std::size_t i) {
  return g.size(input(g, op, i));
}
constexpr Bytes shape_of_image{16};

/// One kernel of one operation per element, that reads `inputs` and writes `size`.
Tf1Tensor kernel(Tf1Graph& g, std::string_view kind, std::vector<Tf1Tensor> inputs, Bytes size) {
  Bytes traffic = size;
  for (const Tf1Tensor t : inputs) traffic += g.size(t);
  return g.add({.kind = kind,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.flops = size.count / word.count, .traffic = traffic}});
}

void relu(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  sent[0] = kernel(g, "ReluGrad", {dy[0], {op, 0}}, input_size(g, op, 0));
}

/// To channels last, by which alone the inference-mode kernel goes, and back.
Tf1Tensor transpose(Tf1Graph& g, Tf1Tensor x) {
  const Tf1Tensor order = g.constant("transpose/perm", shape_of_image);
  const Bytes size = g.size(x);
  return g.add({.kind = "Transpose",
                .name = "transpose",
                .inputs = {x, order},
                .outputs = {size},
                .work = {.traffic = 2 * size}});
}

/// Of images stored channels first, with moving statistics.
void batch_norm(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Bytes size = input_size(g, op, 0), channels = input_size(g, op, 1);
  const Tf1Tensor x = transpose(g, input(g, op, 0));
  const Tf1Tensor dy_last = transpose(g, dy[0]);
  const Tf1Op all =
      g.add({.kind = "FusedBatchNormGrad",
             .inputs = {dy_last, x, input(g, op, 1), input(g, op, 3), input(g, op, 4)},
             .outputs = {size, channels, channels, Bytes{}, Bytes{}},
             .work = {.flops = 8 * size.count / word.count, .traffic = 5 * size}})
          .op;
  sent[0] = transpose(g, {all, 0});
  sent[1] = Tf1Tensor{all, 1};
  sent[2] = Tf1Tensor{all, 2};
}

void conv2d(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor x = input(g, op, 0), w = input(g, op, 1);
  const OpWork work = g.node(op).work;
  const Bytes workspace = g.node(op).temporary;
  const Tf1Op shapes =
      g.add({.kind = "ShapeN", .inputs = {x, w}, .outputs = {shape_of_image, shape_of_image}}).op;
  sent[0] = g.add({.kind = "Conv2DBackpropInput",
                   .inputs = {{shapes, 0}, w, dy[0]},
                   .outputs = {g.size(x)},
                   .work = work,
                   .temporary = workspace});
  sent[1] = g.add({.kind = "Conv2DBackpropFilter",
                   .inputs = {x, {shapes, 1}, dy[0]},
                   .outputs = {g.size(w)},
                   .work = work,
                   .temporary = workspace});
}

void bias_add(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  sent[0] = dy[0];
  const Bytes read = g.size(dy[0]);
  sent[1] = g.add({.kind = "BiasAddGrad",
                   .inputs = {dy[0]},
                   .outputs = {input_size(g, op, 1)},
                   .work = {.flops = read.count / word.count, .traffic = read}});
}

void mat_mul(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor x = input(g, op, 0), w = input(g, op, 1);
  const OpWork work = g.node(op).work;
  sent[0] = g.add({.kind = "MatMul", .inputs = {dy[0], w}, .outputs = {g.size(x)}, .work = work});
  sent[1] = g.add({.kind = "MatMul", .inputs = {x, dy[0]}, .outputs = {g.size(w)}, .work = work});
}

void max_pool(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  sent[0] = kernel(g, "MaxPoolGrad", {input(g, op, 0), {op, 0}, dy[0]}, input_size(g, op, 0));
}

void avg_pool(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor shape = g.constant("Shape", shape_of_image);
  sent[0] = kernel(g, "AvgPoolGrad", {shape, dy[0]}, input_size(g, op, 0));
}

/// A Slice for each input.
void concat(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const std::size_t n = g.node(op).inputs.size() - 1;
  const Tf1Tensor rank = g.constant("Rank");
  const Tf1Tensor axis = g.add(
      {.kind = "FloorMod", .name = "mod", .inputs = {input(g, op, n), rank}, .outputs = {word}});
  std::vector<Tf1Tensor> inputs{axis};
  for (std::size_t i = 0; i < n; ++i) inputs.push_back(g.constant("Shape", shape_of_image));
  const Tf1Op offsets = g.add({.kind = "ConcatOffset",
                               .inputs = inputs,
                               .outputs = std::vector<Bytes>(n, shape_of_image)})
                            .op;
  for (std::uint32_t i = 0; i < n; ++i) {
    const Bytes size = input_size(g, op, i);
    sent[i] = g.add({.kind = "Slice",
                     .inputs = {dy[0], {offsets, i}, inputs[i + 1]},
                     .outputs = {size},
                     .work = {.traffic = 2 * size}});
  }
}

void identity(Tf1Graph& /*g*/, Tf1Op /*op*/, Arriving dy, Tf1Sent& sent) {
  sent[0] = dy[0];
}

void reshape(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor shape = g.constant("Shape", shape_of_image);
  sent[0] = g.add({.kind = "Reshape", .inputs = {dy[0], shape}, .outputs = {input_size(g, op, 0)}});
}

/// The forward op has written the gradient, which is scaled by what arrives.
void cross_entropy(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Bytes size = input_size(g, op, 0);
  const Tf1Tensor gradient =
      g.add({.kind = "PreventGradient", .inputs = {{op, 1}}, .outputs = {size}});
  const Tf1Tensor axis = g.constant("ExpandDims/dim");
  const Tf1Tensor column =
      g.add({.kind = "ExpandDims", .inputs = {dy[0], axis}, .outputs = {g.size(dy[0])}});
  const Bytes traffic = g.size(column) + 2 * size;
  sent[0] = g.add({.kind = "Mul",
                   .inputs = {column, gradient},
                   .outputs = {size},
                   .work = {.flops = size.count / word.count, .traffic = traffic},
                   .over_input = 1});  // kernels/cwise_ops_common.cc
}

/// Of scalars: d(x / y) = dx / y and -x / y / y dy, each summed over what was broadcast.
void real_div(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor x = input(g, op, 0), y = input(g, op, 1);
  const Tf1Tensor x_shape = g.constant("Shape"), y_shape = g.constant("Shape");
  const Tf1Op axes =
      g.add(
           {.kind = "BroadcastGradientArgs", .inputs = {x_shape, y_shape}, .outputs = {word, word}})
          .op;
  const auto shaped = [&](Tf1Tensor gradient, std::uint32_t i, Tf1Tensor shape) {
    const Tf1Tensor sum = kernel(g, "Sum", {gradient, {axes, i}}, word);
    return g.add({.kind = "Reshape", .inputs = {sum, shape}, .outputs = {word}});
  };
  const Tf1Tensor dx = kernel(g, "RealDiv", {dy[0], y}, word);
  sent[0] = shaped(dx, 0, x_shape);
  const Tf1Tensor negative = kernel(g, "Neg", {x}, word);
  const Tf1Tensor once = kernel(g, "RealDiv", {negative, y}, word);
  const Tf1Tensor twice = kernel(g, "RealDiv", {once, y}, word);
  sent[1] = shaped(kernel(g, "Mul", {dy[0], twice}, word), 1, y_shape);
}

}  // namespace

std::span<const Tf1Gradient> tf1_image_gradients() {
  static constexpr Tf1Gradient table[] = {
      {"AvgPool", avg_pool},
      {"BiasAdd", bias_add},
      {"ConcatV2", concat},
      {"Conv2D", conv2d},
      {"FusedBatchNorm", batch_norm},
      {"Identity", identity},
      {"MatMul", mat_mul},
      {"MaxPool", max_pool},
      {"RealDiv", real_div},
      {"Relu", relu},
      {"Reshape", reshape},
      {"SparseSoftmaxCrossEntropyWithLogits", cross_entropy},
      {"Squeeze", reshape},
  };
  return table;
}

}  // namespace baechi
