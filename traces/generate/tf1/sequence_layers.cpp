#include "traces/generate/tf1/graph.h"

namespace baechi {
namespace {

// Forward: how ops/{array,embedding,rnn,rnn_cell_impl}.py, contrib/rnn/python/ops/lstm_ops.py and
// contrib/seq2seq/python/ops/attention_wrapper.py write a layer. Shapes and axes that are known are
// constants. Ops that Baechi's model asks to stay together are of the group of a NoOp.

constexpr Bytes shape_of_steps{12}, shape_of_matrix{8};

Bytes output_size(const Tf1Model& m, const Layer& l) {
  return m.model.value(l.outputs[0]).size();
}

/// Writes its output where its input is.
Tf1Tensor reshape(Tf1Graph& g, std::string_view name, Tf1Tensor x) {
  const Tf1Tensor shape = g.constant(fmt::format("{}/shape", name), shape_of_matrix);
  return g.add({.kind = "Reshape", .name = name, .inputs = {x, shape}, .outputs = {g.size(x)}});
}

Tf1Tensor expand_dims(Tf1Graph& g, Tf1Tensor x) {
  const Tf1Tensor axis = g.constant("ExpandDims/dim");
  return g.add({.kind = "ExpandDims", .inputs = {x, axis}, .outputs = {g.size(x)}});
}

/// One operation per element of what it writes.
Tf1Tensor elementwise(Tf1Graph& g, std::string_view kind, std::string_view name,
                      std::vector<Tf1Tensor> inputs, Bytes size) {
  Bytes traffic = size;
  for (const Tf1Tensor t : inputs) traffic += g.size(t);
  return g.add({.kind = kind,
                .name = name,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.flops = size.count / word.count, .traffic = traffic}});
}

Tf1Graph::Scope together(Tf1Graph& g, std::string_view name) {
  return g.colocate_with(g.add({.kind = "NoOp", .name = name}).op);
}

void write_embedding(Tf1Model& m, const Layer& l) {
  const Tf1Tensor table = m.variable(l.variables[0]);
  const auto place = m.graph.colocate_with(table.op);
  const Tf1Tensor axis = m.graph.constant("axis");
  const Bytes size = output_size(m, l);
  const Tf1Tensor rows = m.graph.add({.kind = "GatherV2",
                                      .inputs = {table, m.value(l.inputs[0]), axis},
                                      .outputs = {size},
                                      .work = l.forward});
  m.values[l.outputs[0]] = m.graph.add({.kind = "Identity", .inputs = {rows}, .outputs = {size}});
}

void write_unstack(Tf1Model& m, const Layer& l) {
  const Tf1Op op = m.graph
                       .add({.kind = "Unpack",
                             .name = "unstack",
                             .inputs = {m.value(l.inputs[0])},
                             .outputs = std::vector<Bytes>(l.outputs.size(), output_size(m, l)),
                             .work = l.forward})
                       .op;
  for (std::uint32_t t = 0; t < l.outputs.size(); ++t) m.values[l.outputs[t]] = {op, t};
}

void write_stack(Tf1Model& m, const Layer& l) {
  std::vector<Tf1Tensor> steps;
  steps.reserve(l.inputs.size());
  for (const ValueId v : l.inputs) steps.push_back(m.value(v));
  m.values[l.outputs[0]] = m.graph.add({.kind = "Pack",
                                        .name = "stack",
                                        .inputs = std::move(steps),
                                        .outputs = {output_size(m, l)},
                                        .work = l.forward});
}

void write_first_features(Tf1Model& m, const Layer& l) {
  const Tf1Tensor x = m.value(l.inputs[0]);
  const Tf1Tensor sizes = m.graph.constant("Const", shape_of_matrix);
  const Tf1Tensor axis = m.graph.constant("split_dim");
  const Bytes first = output_size(m, l);
  m.values[l.outputs[0]] = m.graph.add({.kind = "SplitV",
                                        .name = "split",
                                        .inputs = {x, sizes, axis},
                                        .outputs = {first, m.graph.size(x) - first},
                                        .work = {.traffic = 2 * m.graph.size(x)}});
}

/// Of a cell: its batch size and width are joined to a shape at every step, and once more for a
/// shape that is known already.
void write_zeros(Tf1Model& m, const Layer& l) {
  const Tf1Tensor batch = m.graph.constant("Const"), width = m.graph.constant("Const");
  const Tf1Tensor axis = m.graph.constant("concat/axis");
  const Tf1Tensor shape = m.graph.add({.kind = "ConcatV2",
                                       .name = "concat",
                                       .inputs = {batch, width, axis},
                                       .outputs = {shape_of_matrix}});
  m.graph.constant("Const", Bytes{});  // that nobody reads
  m.graph.constant("Const", Bytes{});
  const Tf1Tensor zero = m.graph.constant("zeros/Const");
  m.values[l.outputs[0]] = m.graph.add({.kind = "Fill",
                                        .name = "zeros",
                                        .inputs = {shape, zero},
                                        .outputs = {output_size(m, l)},
                                        .work = l.forward});
}

/// On the host.
void write_step_count(Tf1Model& m, const Layer& l) {
  if (l.inputs.empty()) {
    m.values[l.outputs[0]] = m.graph.constant("zeros");
    return;
  }
  const Tf1Tensor one = m.graph.constant("add/y");
  m.values[l.outputs[0]] = m.graph.add(
      {.kind = "Add", .name = "add", .inputs = {m.value(l.inputs[0]), one}, .outputs = {word}});
}

/// Zeros stand for the peephole weights that it could have.
void write_lstm_cell(Tf1Model& m, const Layer& l) {
  const Tf1Tensor kernel = m.variable(l.variables[0]), bias = m.variable(l.variables[1]);
  const auto place = together(m.graph, "ColocationWrapper_noop");
  const Bytes units = {m.model.variable(l.variables[1]).size().count / 4};
  const Tf1Tensor peephole = m.graph.constant("zeros", units);
  const Tf1Op op =
      m.graph
          .add({.kind = "LSTMBlockCell",
                .inputs = {m.value(l.inputs[0]), m.value(l.inputs[1]), m.value(l.inputs[2]), kernel,
                           peephole, peephole, peephole, bias},
                .outputs = std::vector<Bytes>(7, output_size(m, l)),  // i, cs, f, o, ci, co, h
                .work = l.forward,
                .temporary = l.workspace})
          .op;
  m.values[l.outputs[0]] = {op, 1};
  m.values[l.outputs[1]] = {op, 6};
}

void write_additive_score(Tf1Model& m, const Layer& l) {
  const Tf1Tensor v = m.variable(l.variables[0]);
  const auto place = together(m.graph, "noop");
  const Tf1Tensor keys = m.value(l.inputs[1]);
  const Bytes size = m.graph.size(keys), scores = output_size(m, l);
  const Tf1Tensor query = expand_dims(m.graph, m.value(l.inputs[0]));
  const Tf1Tensor sum = elementwise(m.graph, "Add", "add", {keys, query}, size);
  const Tf1Tensor bent = elementwise(m.graph, "Tanh", "Tanh", {sum}, size);
  const Tf1Tensor product = elementwise(m.graph, "Mul", "mul", {v, bent}, size);
  const Tf1Tensor axis = m.graph.constant("Sum/reduction_indices");
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "Sum",
                   .inputs = {product, axis},
                   .outputs = {scores},
                   .work = {.flops = size.count / word.count, .traffic = size + scores}});
}

void write_softmax(Tf1Model& m, const Layer& l) {
  m.values[l.outputs[0]] = m.graph.add({.kind = "Softmax",
                                        .inputs = {m.value(l.inputs[0])},
                                        .outputs = {output_size(m, l)},
                                        .work = l.forward});
}

void write_weighted_sum(Tf1Model& m, const Layer& l) {
  const auto place = together(m.graph, "attention");
  const Tf1Tensor row = expand_dims(m.graph, m.value(l.inputs[0]));
  const Tf1Tensor sum = m.graph.add({.kind = "BatchMatMul",
                                     .name = "MatMul",
                                     .inputs = {row, m.value(l.inputs[1])},
                                     .outputs = {output_size(m, l)},
                                     .work = l.forward});
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "Squeeze", .inputs = {sum}, .outputs = {output_size(m, l)}});
}

}  // namespace

/// Reshape(Transpose) of both sides, though neither moves. Source: tensordot of ops/math_ops.py.
Tf1Tensor tf1_tensordot(Tf1Graph& g, Tf1Tensor x, Tf1Tensor w, Bytes size, OpWork work) {
  const auto scope = g.scope("Tensordot");
  const auto matrix = [&](Tf1Tensor t) {
    const Tf1Tensor order = g.constant("transpose/perm", shape_of_steps);
    const Tf1Tensor turned = g.add({.kind = "Transpose",
                                    .name = "transpose",
                                    .inputs = {t, order},
                                    .outputs = {g.size(t)},
                                    .work = {.traffic = 2 * g.size(t)}});
    return reshape(g, "Reshape", turned);
  };
  const Tf1Tensor rows = matrix(x), columns = matrix(w);
  const Tf1Tensor y =
      g.add({.kind = "MatMul", .inputs = {rows, columns}, .outputs = {size}, .work = work});
  return reshape(g, "Reshape", y);
}

/// The classes are counted by ops, though they are known; logits and labels become a matrix and a
/// vector. Source: sparse_softmax_cross_entropy_with_logits of ops/nn_ops.py.
std::pair<Tf1Tensor, Tf1Tensor> tf1_flat_logits(Tf1Graph& g, Tf1Tensor logits, Tf1Tensor labels) {
  const auto scope = g.scope("xentropy");
  const Tf1Tensor shape = g.constant("Shape", shape_of_steps);
  const Tf1Tensor rank = g.constant("Rank"), one = g.constant("sub/y");
  const auto host = [&](std::string_view kind, std::string_view name,
                        std::vector<Tf1Tensor> inputs) {
    return g.add({.kind = kind, .name = name, .inputs = std::move(inputs), .outputs = {word}});
  };
  const Tf1Tensor last = host("Sub", "sub", {rank, one});
  const Tf1Tensor more = g.constant("add/y");
  const Tf1Tensor end = host("Add", "add", {last, more});
  const Tf1Tensor from = host("Pack", "strided_slice/stack", {last});
  const Tf1Tensor to = host("Pack", "strided_slice/stack_1", {end});
  const Tf1Tensor stride = g.constant("strided_slice/stack_2");
  const Tf1Tensor classes = host("StridedSlice", "strided_slice", {shape, from, to, stride});
  const Tf1Tensor any = g.constant("Reshape/shape/0");
  const Tf1Tensor flat = host("Pack", "Reshape/shape", {any, classes});
  const Tf1Tensor matrix =
      g.add({.kind = "Reshape", .inputs = {logits, flat}, .outputs = {g.size(logits)}});
  return {matrix, reshape(g, "Reshape", labels)};
}

std::span<const Tf1Layer> tf1_sequence_layers() {
  static constexpr Tf1Layer table[] = {
      {LayerKind::embedding, write_embedding}, {LayerKind::unstack, write_unstack},
      {LayerKind::stack, write_stack},         {LayerKind::first_features, write_first_features},
      {LayerKind::zeros, write_zeros},         {LayerKind::step_count, write_step_count},
      {LayerKind::lstm_cell, write_lstm_cell}, {LayerKind::additive_score, write_additive_score},
      {LayerKind::softmax, write_softmax},     {LayerKind::weighted_sum, write_weighted_sum},
  };
  return table;
}

}  // namespace baechi
