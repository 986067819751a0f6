#include <tuple>

#include "sim/error.h"
#include "traces/generate/tf1/graph.h"

namespace baechi {
namespace {

// Forward: how contrib/layers/python/layers/layers.py (slim) and ops/nn_ops.py write a layer.
// Shapes and axes that are known are constants.

constexpr Bytes shape_of_matrix{8};

void write_product(Tf1Model& m, const Layer& l, Tf1Spec product) {
  const Bytes size = m.model.value(l.outputs[0]).size();
  product.outputs = {size};
  product.work = {.flops = 2 * l.multiply_adds, .traffic = l.forward.traffic};
  Tf1Tensor y{};
  if (l.variables.size() == 1) {
    y = m.graph.add(product);
  } else {
    const Tf1Tensor bias = m.variable(l.variables[1]);
    y = m.graph.add(product);
    y = m.graph.add({.kind = "BiasAdd",
                     .inputs = {y, bias},
                     .outputs = {size},
                     .work = {.flops = size.count / word.count, .traffic = 2 * size}});
  }
  m.values[l.outputs[0]] = y;
}

void write_conv2d(Tf1Model& m, const Layer& l) {
  const Tf1Tensor weights = m.variable(l.variables[0]);
  m.graph.constant("dilation_rate", Bytes{8});  // that nobody reads
  write_product(
      m, l,
      {.kind = "Conv2D", .inputs = {m.value(l.inputs[0]), weights}, .temporary = l.workspace});
}

void write_dense(Tf1Model& m, const Layer& l) {
  if (m.model.value(l.inputs[0]).shape.size() > 2) {
    BAECHI_CHECK(l.variables.size() == 1, "{}: no bias of sequences", l.name);
    m.values[l.outputs[0]] =
        tf1_tensordot(m.graph, m.value(l.inputs[0]), m.variable(l.variables[0]),
                      m.model.value(l.outputs[0]).size(), l.forward);
    return;
  }
  write_product(m, l,
                {.kind = "MatMul", .inputs = {m.value(l.inputs[0]), m.variable(l.variables[0])}});
}

/// By moving statistics: is_training=False. Without gamma, which slim's scale=False leaves out, a
/// constant stands for it.
void write_batch_norm(Tf1Model& m, const Layer& l) {
  const Bytes size = m.model.value(l.outputs[0]).size();
  const Bytes channels = m.model.variable(l.variables[0]).size();
  const Tf1Tensor gamma =
      l.variables.size() > 3 ? m.variable(l.variables[3]) : m.graph.constant("Const", channels);
  const Tf1Tensor beta = m.variable(l.variables[2]);
  const Tf1Tensor mean = m.variable(l.variables[0]);
  const Tf1Tensor variance = m.variable(l.variables[1]);
  m.graph.constant("Const");  // the momentum, that nobody reads
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "FusedBatchNorm",
                   .inputs = {m.value(l.inputs[0]), gamma, beta, mean, variance},
                   .outputs = {size, channels, channels, channels, channels},
                   .work = l.forward});
}

std::vector<Tf1Tensor> inputs_of(const Tf1Model& m, const Layer& l) {
  std::vector<Tf1Tensor> inputs;
  inputs.reserve(l.inputs.size() + 1);
  for (const ValueId v : l.inputs) inputs.push_back(m.value(v));
  return inputs;
}

/// One op that reads the layer's inputs.
void write_one(Tf1Model& m, const Layer& l, std::string_view kind) {
  std::vector<Tf1Tensor> inputs = inputs_of(m, l);
  m.values[l.outputs[0]] = m.graph.add({.kind = kind,
                                        .inputs = std::move(inputs),
                                        .outputs = {m.model.value(l.outputs[0]).size()},
                                        .work = l.forward});
}
void write_relu(Tf1Model& m, const Layer& l) {
  write_one(m, l, "Relu");
}
void write_max_pool(Tf1Model& m, const Layer& l) {
  write_one(m, l, "MaxPool");
}
void write_avg_pool(Tf1Model& m, const Layer& l) {
  write_one(m, l, "AvgPool");
}
void write_add(Tf1Model& m, const Layer& l) {
  write_one(m, l, "Add");
}

void write_concat(Tf1Model& m, const Layer& l) {
  std::vector<Tf1Tensor> inputs = inputs_of(m, l);
  inputs.push_back(m.graph.constant("axis"));
  m.values[l.outputs[0]] = m.graph.add({.kind = "ConcatV2",
                                        .inputs = std::move(inputs),
                                        .outputs = {m.model.value(l.outputs[0]).size()},
                                        .work = l.forward});
}

/// is_training=False.
void write_dropout(Tf1Model& m, const Layer& l) {
  m.values[l.outputs[0]] = m.graph.add({.kind = "Identity",
                                        .inputs = {m.value(l.inputs[0])},
                                        .outputs = {m.model.value(l.outputs[0]).size()}});
}

/// Squeeze where there is one pixel, as slim's networks do; else Reshape.
void write_flatten(Tf1Model& m, const Layer& l) {
  const Shape& x = m.model.value(l.inputs[0]).shape;
  Tf1Spec spec{.kind = "Squeeze",
               .inputs = {m.value(l.inputs[0])},
               .outputs = {m.model.value(l.outputs[0]).size()}};
  if (x[2] * x[3] > 1) {
    spec.kind = "Reshape";
    spec.inputs.push_back(m.graph.constant("Reshape/shape", shape_of_matrix));
  }
  m.values[l.outputs[0]] = m.graph.add(spec);
}

/// slim's softmax, which works on matrices.
void write_predict(Tf1Model& m, const Layer& l) {
  const Tf1Tensor logits = m.value(l.inputs[0]);
  const Bytes size = m.graph.size(logits);
  const Tf1Tensor shape = m.graph.constant("Reshape/shape", shape_of_matrix);
  const Tf1Tensor matrix =
      m.graph.add({.kind = "Reshape", .inputs = {logits, shape}, .outputs = {size}});
  const Tf1Tensor softmax =
      m.graph.add({.kind = "Softmax", .inputs = {matrix}, .outputs = {size}, .work = l.forward});
  const Tf1Tensor back = m.graph.constant("Shape", shape_of_matrix);
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "Reshape", .inputs = {softmax, back}, .outputs = {size}});
}

/// Sum over the batch of the cross-entropies, by the batch size: Baechi's train.py.
void write_loss(Tf1Model& m, const Layer& l) {
  Tf1Tensor logits = m.value(l.inputs[0]), labels = m.value(l.inputs[1]);
  const Bytes losses_size = m.graph.size(labels);
  // Of the labels: nobody reads it if they are a vector already.
  const Tf1Tensor shape = m.graph.constant("xentropy/Shape", shape_of_matrix);
  const bool sequences = m.model.value(l.inputs[0]).shape.size() > 2;
  if (sequences) std::tie(logits, labels) = tf1_flat_logits(m.graph, logits, labels);
  Tf1Tensor losses = m.graph.add({.kind = "SparseSoftmaxCrossEntropyWithLogits",
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
  const Tf1Tensor axes = m.graph.constant("Const");
  const Tf1Tensor sum = m.graph.add({.kind = "Sum",
                                     .inputs = {losses, axes},
                                     .outputs = {word},
                                     .work = {.traffic = m.graph.size(losses)}});
  const Tf1Tensor batch = m.graph.constant("ToFloat/x");
  const Tf1Tensor divisor = m.graph.add({.kind = "Cast",
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

std::span<const Tf1Layer> tf1_image_layers() {
  static constexpr Tf1Layer table[] = {
      {LayerKind::conv2d, write_conv2d},     {LayerKind::frozen_batch_norm, write_batch_norm},
      {LayerKind::relu, write_relu},         {LayerKind::max_pool, write_max_pool},
      {LayerKind::avg_pool, write_avg_pool}, {LayerKind::concat, write_concat},
      {LayerKind::add, write_add},           {LayerKind::dropout, write_dropout},
      {LayerKind::flatten, write_flatten},   {LayerKind::dense, write_dense},
      {LayerKind::predict, write_predict},   {LayerKind::loss, write_loss},
  };
  return table;
}

}  // namespace baechi
