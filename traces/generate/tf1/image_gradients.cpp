#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {
namespace {

// The gradients that ops/{nn,math,array}_grad.py register. A gradient has the size of the tensor
// that it belongs to. Ops read and write the tensors that are named here.

using Arriving = std::span<const Output>;

/// Adds an op that reads `inputs` and writes `size`, with one operation per element.
Output kernel(Graph& g, std::string_view kind, std::vector<Output> inputs, Bytes size) {
  Bytes traffic = size;
  for (const Output t : inputs) traffic += g.size(t);
  return g.add({.kind = kind,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.flops = size.count / word.count, .traffic = traffic}});
}

void relu(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  sent[0] = kernel(g, "ReluGrad", {dy[0], {op, 0}}, g.input_size(op, 0));
}

/// Transposes to channels last, the only layout of the inference-mode kernel, or back.
Output transpose_tensor(Graph& g, Output x) {
  const Output order = g.constant("transpose/perm", shape_of_image);
  const Bytes size = g.size(x);
  return g.add({.kind = "Transpose",
                .name = "transpose",
                .inputs = {x, order},
                .outputs = {size},
                .work = {.traffic = 2 * size}});
}

/// Batch norm by moving statistics, on images stored channels first.
void batch_norm(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Bytes size = g.input_size(op, 0), channels = g.input_size(op, 1);
  const Output x = transpose_tensor(g, g.input(op, 0));
  const Output dy_last = transpose_tensor(g, dy[0]);
  const NodeId all = g.add({.kind = "FusedBatchNormGrad",
                            .inputs = {dy_last, x, g.input(op, 1), g.input(op, 3), g.input(op, 4)},
                            .outputs = {size, channels, channels, Bytes{}, Bytes{}},
                            .work = {.flops = 8 * size.count / word.count, .traffic = 5 * size}})
                         .op;
  sent[0] = transpose_tensor(g, {all, 0});
  sent[1] = Output{all, 1};
  sent[2] = Output{all, 2};
}

void conv2d(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output x = g.input(op, 0), w = g.input(op, 1);
  const OpWork work = g.node(op).work;
  const Bytes workspace = g.node(op).temporary;
  const NodeId shapes =
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

void bias_add(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  sent[0] = dy[0];
  const Bytes read = g.size(dy[0]);
  sent[1] = g.add({.kind = "BiasAddGrad",
                   .inputs = {dy[0]},
                   .outputs = {g.input_size(op, 1)},
                   .work = {.flops = read.count / word.count, .traffic = read}});
}

void mat_mul(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output x = g.input(op, 0), w = g.input(op, 1);
  const OpWork work = g.node(op).work;
  sent[0] = g.add({.kind = "MatMul", .inputs = {dy[0], w}, .outputs = {g.size(x)}, .work = work});
  sent[1] = g.add({.kind = "MatMul", .inputs = {x, dy[0]}, .outputs = {g.size(w)}, .work = work});
}

void max_pool(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  sent[0] = kernel(g, "MaxPoolGrad", {g.input(op, 0), {op, 0}, dy[0]}, g.input_size(op, 0));
}

void avg_pool(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output shape = g.constant("Shape", shape_of_image);
  sent[0] = kernel(g, "AvgPoolGrad", {shape, dy[0]}, g.input_size(op, 0));
}

/// Concat: one Slice per input.
void concat(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const std::size_t n = g.node(op).inputs.size() - 1;
  const Output rank = g.constant("Rank");
  const Output axis = g.add(
      {.kind = "FloorMod", .name = "mod", .inputs = {g.input(op, n), rank}, .outputs = {word}});
  std::vector<Output> inputs{axis};
  for (std::size_t i = 0; i < n; ++i) inputs.push_back(g.constant("Shape", shape_of_image));
  const NodeId offsets = g.add({.kind = "ConcatOffset",
                                .inputs = inputs,
                                .outputs = std::vector<Bytes>(n, shape_of_image)})
                             .op;
  for (std::uint32_t i = 0; i < n; ++i) {
    const Bytes size = g.input_size(op, i);
    sent[i] = g.add({.kind = "Slice",
                     .inputs = {dy[0], {offsets, i}, inputs[i + 1]},
                     .outputs = {size},
                     .work = {.traffic = 2 * size}});
  }
}

void identity(Graph& /*g*/, NodeId /*op*/, Arriving dy, Sent& sent) { sent[0] = dy[0]; }

void reshape_gradient(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output shape = g.constant("Shape", shape_of_image);
  sent[0] = g.add({.kind = "Reshape", .inputs = {dy[0], shape}, .outputs = {g.input_size(op, 0)}});
}

/// The forward op has written the gradient already; here it is scaled by dy.
void cross_entropy(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Bytes size = g.input_size(op, 0);
  const Output gradient =
      g.add({.kind = "PreventGradient", .inputs = {{op, 1}}, .outputs = {size}});
  const Output axis = g.constant("ExpandDims/dim");
  const Output column =
      g.add({.kind = "ExpandDims", .inputs = {dy[0], axis}, .outputs = {g.size(dy[0])}});
  const Bytes traffic = g.size(column) + 2 * size;
  sent[0] = g.add({.kind = "Mul",
                   .inputs = {column, gradient},
                   .outputs = {size},
                   .work = {.flops = size.count / word.count, .traffic = traffic},
                   .over_input = 1});  // kernels/cwise_ops_common.cc
}

/// x / y of scalars: dx = dy / y and dy' = -x / y / y dy, each summed over the broadcast axes.
void real_div(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output x = g.input(op, 0), y = g.input(op, 1);
  const Output x_shape = g.constant("Shape"), y_shape = g.constant("Shape");
  const NodeId axes =
      g.add(
           {.kind = "BroadcastGradientArgs", .inputs = {x_shape, y_shape}, .outputs = {word, word}})
          .op;
  const auto shaped = [&](Output gradient, std::uint32_t i, Output shape) {
    const Output sum = kernel(g, "Sum", {gradient, {axes, i}}, word);
    return g.add({.kind = "Reshape", .inputs = {sum, shape}, .outputs = {word}});
  };
  const Output dx = kernel(g, "RealDiv", {dy[0], y}, word);
  sent[0] = shaped(dx, 0, x_shape);
  const Output negative = kernel(g, "Neg", {x}, word);
  const Output once = kernel(g, "RealDiv", {negative, y}, word);
  const Output twice = kernel(g, "RealDiv", {once, y}, word);
  sent[1] = shaped(kernel(g, "Mul", {dy[0], twice}, word), 1, y_shape);
}

}  // namespace

std::span<const GradientRule> image_gradients() {
  static constexpr GradientRule table[] = {
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
      {"Reshape", reshape_gradient},
      {"SparseSoftmaxCrossEntropyWithLogits", cross_entropy},
      {"Squeeze", reshape_gradient},
  };
  return table;
}

}  // namespace baechi::generate::tf1
