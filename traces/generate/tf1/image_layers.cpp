#include <tuple>

#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {
namespace {

// Forward ops as contrib/layers/python/layers/layers.py (slim) and ops/nn_ops.py write a layer.
// Known shapes and axes are constants.

void write_product(Writer& m, const Layer& l, NodeSpec product) {
  const Bytes size = m.model.value(l.outputs[0]).size();
  product.outputs = {size};
  product.work = l.forward;
  product.work.flops = 2 * l.multiply_adds;
  Output y{};
  if (l.variables.size() == 1) {
    y = m.graph.add(product);
  } else {
    const Output bias = m.variable(l.variables[1]);
    y = m.graph.add(product);
    y = m.graph.add({.kind = "BiasAdd",
                     .inputs = {y, bias},
                     .outputs = {size},
                     .work = {.flops = size.count / word.count, .traffic = 2 * size}});
  }
  m.values[l.outputs[0]] = y;
}

void write_conv2d(Writer& m, const Layer& l) {
  const Output weights = m.variable(l.variables[0]);
  m.graph.constant("dilation_rate", Bytes{8});  // no op reads it
  write_product(
      m, l,
      {.kind = "Conv2D", .inputs = {m.value(l.inputs[0]), weights}, .temporary = l.workspace});
}

void write_dense(Writer& m, const Layer& l) {
  if (m.model.value(l.inputs[0]).shape.size() > 2) {
    BAECHI_CHECK(l.variables.size() == 1, "{}: no bias of sequences", l.name);
    m.values[l.outputs[0]] = tensordot(m.graph, m.value(l.inputs[0]), m.variable(l.variables[0]),
                                       m.model.value(l.outputs[0]).size(), l.forward);
    return;
  }
  write_product(m, l,
                {.kind = "MatMul", .inputs = {m.value(l.inputs[0]), m.variable(l.variables[0])}});
}

/// Batch norm by moving statistics: is_training=False. A constant stands for gamma if there is none
/// (slim's scale=False).
void write_batch_norm(Writer& m, const Layer& l) {
  const Bytes size = m.model.value(l.outputs[0]).size();
  const Bytes channels = m.model.variable(l.variables[0]).size();
  const Output gamma =
      l.variables.size() > 3 ? m.variable(l.variables[3]) : m.graph.constant("Const", channels);
  const Output beta = m.variable(l.variables[2]);
  const Output mean = m.variable(l.variables[0]);
  const Output variance = m.variable(l.variables[1]);
  m.graph.constant("Const");  // the momentum; no op reads it
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "FusedBatchNorm",
                   .inputs = {m.value(l.inputs[0]), gamma, beta, mean, variance},
                   .outputs = {size, channels, channels, channels, channels},
                   .work = l.forward});
}

std::vector<Output> inputs_of(const Writer& m, const Layer& l) {
  std::vector<Output> inputs;
  inputs.reserve(l.inputs.size() + 1);
  for (const ValueId v : l.inputs) inputs.push_back(m.value(v));
  return inputs;
}

/// Adds one op that reads the layer's inputs.
void write_one(Writer& m, const Layer& l, std::string_view kind) {
  std::vector<Output> inputs = inputs_of(m, l);
  m.values[l.outputs[0]] = m.graph.add({.kind = kind,
                                        .inputs = std::move(inputs),
                                        .outputs = {m.model.value(l.outputs[0]).size()},
                                        .work = l.forward});
}
void write_relu(Writer& m, const Layer& l) { write_one(m, l, "Relu"); }
void write_max_pool(Writer& m, const Layer& l) { write_one(m, l, "MaxPool"); }
void write_avg_pool(Writer& m, const Layer& l) { write_one(m, l, "AvgPool"); }
void write_add(Writer& m, const Layer& l) { write_one(m, l, "Add"); }

void write_concat(Writer& m, const Layer& l) {
  std::vector<Output> inputs = inputs_of(m, l);
  inputs.push_back(m.graph.constant("axis"));
  m.values[l.outputs[0]] = m.graph.add({.kind = "ConcatV2",
                                        .inputs = std::move(inputs),
                                        .outputs = {m.model.value(l.outputs[0]).size()},
                                        .work = l.forward});
}

/// Dropout with is_training=False.
void write_dropout(Writer& m, const Layer& l) {
  m.values[l.outputs[0]] = m.graph.add({.kind = "Identity",
                                        .inputs = {m.value(l.inputs[0])},
                                        .outputs = {m.model.value(l.outputs[0]).size()}});
}

/// Squeeze if the input is an image of one pixel, as in slim's networks; else Reshape.
void write_flatten(Writer& m, const Layer& l) {
  const Shape& x = m.model.value(l.inputs[0]).shape;
  NodeSpec spec{.kind = "Squeeze",
                .inputs = {m.value(l.inputs[0])},
                .outputs = {m.model.value(l.outputs[0]).size()}};
  if (x.size() != 4 || x[2] * x[3] > 1) {
    spec.kind = "Reshape";
    spec.inputs.push_back(m.graph.constant("Reshape/shape", shape_of_matrix));
  }
  m.values[l.outputs[0]] = m.graph.add(spec);
}

/// slim's softmax, which reshapes to a matrix.
void write_predict(Writer& m, const Layer& l) {
  const Output logits = m.value(l.inputs[0]);
  const Bytes size = m.graph.size(logits);
  const Output shape = m.graph.constant("Reshape/shape", shape_of_matrix);
  const Output matrix =
      m.graph.add({.kind = "Reshape", .inputs = {logits, shape}, .outputs = {size}});
  const Output softmax =
      m.graph.add({.kind = "Softmax", .inputs = {matrix}, .outputs = {size}, .work = l.forward});
  const Output back = m.graph.constant("Shape", shape_of_matrix);
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "Reshape", .inputs = {softmax, back}, .outputs = {size}});
}

/// The cross-entropies summed over the batch, divided by the batch size. Source: Baechi's train.py.
void write_loss(Writer& m, const Layer& l) {
  Output logits = m.value(l.inputs[0]), labels = m.value(l.inputs[1]);
  const Bytes losses_size = m.graph.size(labels);
  // The shape of the labels; no op reads it if they are a vector already.
  const Output shape = m.graph.constant("xentropy/Shape", shape_of_matrix);
  const bool sequences = m.model.value(l.inputs[0]).shape.size() > 2;
  if (sequences) std::tie(logits, labels) = flat_logits(m.graph, logits, labels);
  Output losses = m.graph.add({.kind = "SparseSoftmaxCrossEntropyWithLogits",
                               .name = "xentropy/xentropy",
                               .inputs = {logits, labels},
                               .outputs = {m.graph.size(labels), m.graph.size(logits)},
                               .work = l.forward,
                               .over_input = 0});  // kernels/sparse_xent_op.cc
  if (sequences) {
    losses = m.graph.add({.kind = "Reshape",
                          .name = "xentropy/Reshape_2",
                          .inputs = {losses, shape},
                          .outputs = {losses_size}});
  }
  const Output axes = m.graph.constant("Const");
  const Output sum = m.graph.add({.kind = "Sum",
                                  .inputs = {losses, axes},
                                  .outputs = {word},
                                  .work = {.traffic = m.graph.size(losses)}});
  const Output batch = m.graph.constant("ToFloat/x");
  const Output divisor = m.graph.add({.kind = "Cast",
                                      .name = "ToFloat",
                                      .inputs = {batch},
                                      .outputs = {word},
                                      .work = {.flops = 1, .traffic = 2 * word}});
  m.loss = m.graph.add({.kind = "RealDiv",
                        .name = "truediv",
                        .inputs = {sum, divisor},
                        .outputs = {word},
                        .work = {.flops = 1, .traffic = 3 * word}});
  m.values[l.outputs[0]] = *m.loss;
}

}  // namespace

std::span<const LayerWriter> image_layers() {
  static constexpr LayerWriter table[] = {
      {LayerKind::conv2d, write_conv2d},     {LayerKind::frozen_batch_norm, write_batch_norm},
      {LayerKind::relu, write_relu},         {LayerKind::max_pool, write_max_pool},
      {LayerKind::avg_pool, write_avg_pool}, {LayerKind::concat, write_concat},
      {LayerKind::add, write_add},           {LayerKind::dropout, write_dropout},
      {LayerKind::flatten, write_flatten},   {LayerKind::dense, write_dense},
      {LayerKind::predict, write_predict},   {LayerKind::loss, write_loss},
  };
  return table;
}

}  // namespace baechi::generate::tf1
