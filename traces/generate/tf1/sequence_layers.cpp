#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {
namespace {

// Forward ops as ops/{array,embedding,rnn,rnn_cell_impl}.py, contrib/rnn/python/ops/lstm_ops.py and
// contrib/seq2seq/python/ops/attention_wrapper.py write a layer. Known shapes and axes are
// constants. Ops that Baechi's model keeps together are in the group of a NoOp.

Bytes output_size(const Writer& m, const Layer& l) { return m.model.value(l.outputs[0]).size(); }

/// Adds an op whose output is in the memory of its input.
Output reshape_layer(Graph& g, std::string_view name, Output x) {
  const Output shape = g.constant(fmt::format("{}/shape", name), shape_of_matrix);
  return g.add({.kind = "Reshape", .name = name, .inputs = {x, shape}, .outputs = {g.size(x)}});
}

Output expand_dims(Graph& g, Output x) {
  const Output axis = g.constant("ExpandDims/dim");
  return g.add({.kind = "ExpandDims", .inputs = {x, axis}, .outputs = {g.size(x)}});
}

/// Adds an op with one operation per element that it writes.
Output elementwise(Graph& g, std::string_view kind, std::string_view name,
                   std::vector<Output> inputs, Bytes size) {
  Bytes traffic = size;
  for (const Output t : inputs) traffic += g.size(t);
  return g.add({.kind = kind,
                .name = name,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.flops = size.count / word.count, .traffic = traffic}});
}

Graph::Scope together(Graph& g, std::string_view name) {
  return g.colocate_with(g.add({.kind = "NoOp", .name = name}).op);
}

void write_embedding(Writer& m, const Layer& l) {
  const Output table = m.variable(l.variables[0]);
  const auto place = m.graph.colocate_with(table.op);
  const Output axis = m.graph.constant("axis");
  const Bytes size = output_size(m, l);
  const Output rows = m.graph.add({.kind = "GatherV2",
                                   .inputs = {table, m.value(l.inputs[0]), axis},
                                   .outputs = {size},
                                   .work = l.forward});
  m.values[l.outputs[0]] = m.graph.add({.kind = "Identity", .inputs = {rows}, .outputs = {size}});
}

void write_unstack(Writer& m, const Layer& l) {
  const NodeId op = m.graph
                        .add({.kind = "Unpack",
                              .name = "unstack",
                              .inputs = {m.value(l.inputs[0])},
                              .outputs = std::vector<Bytes>(l.outputs.size(), output_size(m, l)),
                              .work = l.forward})
                        .op;
  for (std::uint32_t t = 0; t < l.outputs.size(); ++t) m.values[l.outputs[t]] = {op, t};
}

void write_stack(Writer& m, const Layer& l) {
  std::vector<Output> steps;
  steps.reserve(l.inputs.size());
  for (const ValueId v : l.inputs) steps.push_back(m.value(v));
  m.values[l.outputs[0]] = m.graph.add({.kind = "Pack",
                                        .name = "stack",
                                        .inputs = std::move(steps),
                                        .outputs = {output_size(m, l)},
                                        .work = l.forward});
}

void write_first_features(Writer& m, const Layer& l) {
  const Output x = m.value(l.inputs[0]);
  const Output sizes = m.graph.constant("Const", shape_of_matrix);
  const Output axis = m.graph.constant("split_dim");
  const Bytes first = output_size(m, l);
  m.values[l.outputs[0]] = m.graph.add({.kind = "SplitV",
                                        .name = "split",
                                        .inputs = {x, sizes, axis},
                                        .outputs = {first, m.graph.size(x) - first},
                                        .work = {.traffic = 2 * m.graph.size(x)}});
}

/// The zero state of a cell. At every step its batch size and its width are joined to a shape, and
/// once more for a shape that is known already.
void write_zeros(Writer& m, const Layer& l) {
  const Output batch = m.graph.constant("Const"), width = m.graph.constant("Const");
  const Output axis = m.graph.constant("concat/axis");
  const Output shape = m.graph.add({.kind = "ConcatV2",
                                    .name = "concat",
                                    .inputs = {batch, width, axis},
                                    .outputs = {shape_of_matrix}});
  m.graph.constant("Const", Bytes{});  // no op reads it
  m.graph.constant("Const", Bytes{});
  const Output zero = m.graph.constant("zeros/Const");
  m.values[l.outputs[0]] = m.graph.add({.kind = "Fill",
                                        .name = "zeros",
                                        .inputs = {shape, zero},
                                        .outputs = {output_size(m, l)},
                                        .work = l.forward});
}

/// Adds an op that runs on the host.
void write_step_count(Writer& m, const Layer& l) {
  if (l.inputs.empty()) {
    m.values[l.outputs[0]] = m.graph.constant("zeros");
    return;
  }
  const Output one = m.graph.constant("add/y");
  m.values[l.outputs[0]] = m.graph.add(
      {.kind = "Add", .name = "add", .inputs = {m.value(l.inputs[0]), one}, .outputs = {word}});
}

/// LSTMBlockCell. Zeros stand for its peephole weights.
void write_lstm_cell(Writer& m, const Layer& l) {
  const Output kernel = m.variable(l.variables[0]), bias = m.variable(l.variables[1]);
  const auto place = together(m.graph, "ColocationWrapper_noop");
  const Bytes units = {m.model.variable(l.variables[1]).size().count / 4};
  const Output peephole = m.graph.constant("zeros", units);
  const NodeId op =
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

void write_additive_score(Writer& m, const Layer& l) {
  const Output v = m.variable(l.variables[0]);
  const auto place = together(m.graph, "noop");
  const Output keys = m.value(l.inputs[1]);
  const Bytes size = m.graph.size(keys), scores = output_size(m, l);
  const Output query = expand_dims(m.graph, m.value(l.inputs[0]));
  const Output sum = elementwise(m.graph, "Add", "add", {keys, query}, size);
  const Output bent = elementwise(m.graph, "Tanh", "Tanh", {sum}, size);
  const Output product = elementwise(m.graph, "Mul", "mul", {v, bent}, size);
  const Output axis = m.graph.constant("Sum/reduction_indices");
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "Sum",
                   .inputs = {product, axis},
                   .outputs = {scores},
                   .work = {.flops = size.count / word.count, .traffic = size + scores}});
}

void write_softmax(Writer& m, const Layer& l) {
  m.values[l.outputs[0]] = m.graph.add({.kind = "Softmax",
                                        .inputs = {m.value(l.inputs[0])},
                                        .outputs = {output_size(m, l)},
                                        .work = l.forward});
}

void write_weighted_sum(Writer& m, const Layer& l) {
  const auto place = together(m.graph, "attention");
  const Output row = expand_dims(m.graph, m.value(l.inputs[0]));
  const Output sum = m.graph.add({.kind = "BatchMatMul",
                                  .name = "MatMul",
                                  .inputs = {row, m.value(l.inputs[1])},
                                  .outputs = {output_size(m, l)},
                                  .work = l.forward});
  m.values[l.outputs[0]] =
      m.graph.add({.kind = "Squeeze", .inputs = {sum}, .outputs = {output_size(m, l)}});
}

}  // namespace

/// Reshape(Transpose) of both operands, although neither moves any bytes. Source: tensordot of
/// ops/math_ops.py.
Output tensordot(Graph& g, Output x, Output w, Bytes size, OpWork work) {
  const auto scope = g.scope("Tensordot");
  const auto matrix = [&](Output t) {
    const Output order = g.constant("transpose/perm", shape_of_steps);
    const Output turned = g.add({.kind = "Transpose",
                                 .name = "transpose",
                                 .inputs = {t, order},
                                 .outputs = {g.size(t)},
                                 .work = {.traffic = 2 * g.size(t)}});
    return reshape_layer(g, "Reshape", turned);
  };
  const Output rows = matrix(x), columns = matrix(w);
  const Output y =
      g.add({.kind = "MatMul", .inputs = {rows, columns}, .outputs = {size}, .work = work});
  return reshape_layer(g, "Reshape", y);
}

/// Ops compute the number of classes, although it is known. Logits become a matrix, labels a
/// vector. Source: sparse_softmax_cross_entropy_with_logits of ops/nn_ops.py.
std::pair<Output, Output> flat_logits(Graph& g, Output logits, Output labels) {
  const auto scope = g.scope("xentropy");
  const Output shape = g.constant("Shape", shape_of_steps);
  const Output rank = g.constant("Rank"), one = g.constant("sub/y");
  const auto host = [&](std::string_view kind, std::string_view name, std::vector<Output> inputs) {
    return g.add({.kind = kind, .name = name, .inputs = std::move(inputs), .outputs = {word}});
  };
  const Output last = host("Sub", "sub", {rank, one});
  const Output more = g.constant("add/y");
  const Output end = host("Add", "add", {last, more});
  const Output from = host("Pack", "strided_slice/stack", {last});
  const Output to = host("Pack", "strided_slice/stack_1", {end});
  const Output stride = g.constant("strided_slice/stack_2");
  const Output classes = host("StridedSlice", "strided_slice", {shape, from, to, stride});
  const Output any = g.constant("Reshape/shape/0");
  const Output flat = host("Pack", "Reshape/shape", {any, classes});
  const Output matrix =
      g.add({.kind = "Reshape", .inputs = {logits, flat}, .outputs = {g.size(logits)}});
  return {matrix, reshape_layer(g, "Reshape", labels)};
}

std::span<const LayerWriter> sequence_layers() {
  static constexpr LayerWriter table[] = {
      {LayerKind::embedding, write_embedding}, {LayerKind::unstack, write_unstack},
      {LayerKind::stack, write_stack},         {LayerKind::first_features, write_first_features},
      {LayerKind::zeros, write_zeros},         {LayerKind::step_count, write_step_count},
      {LayerKind::lstm_cell, write_lstm_cell}, {LayerKind::additive_score, write_additive_score},
      {LayerKind::softmax, write_softmax},     {LayerKind::weighted_sum, write_weighted_sum},
  };
  return table;
}

}  // namespace baechi::generate::tf1
