#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {
namespace {

// The gradients that ops/{array,math,nn}_grad.py and contrib/rnn/python/ops/lstm_ops.py register.

using Arriving = std::span<const Output>;

/// Adds an op that only moves bytes.
Output moved(Graph& g, std::string_view kind, std::string_view name, std::vector<Output> inputs,
             Bytes size) {
  return g.add({.kind = kind,
                .name = name,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.traffic = 2 * size}});
}
/// Adds an op on shapes or indices, which runs on the host.
Output host(Graph& g, std::string_view kind, std::string_view name, std::vector<Output> inputs,
            Bytes size = word) {
  return g.add({.kind = kind, .name = name, .inputs = std::move(inputs), .outputs = {size}});
}
/// Adds an op with one operation per element of its largest tensor.
Output pass_over_largest(Graph& g, std::string_view kind, std::vector<Output> inputs, Bytes size) {
  Bytes traffic = size, most = size;
  for (const Output t : inputs) {
    traffic += g.size(t);
    most = std::max(most, g.size(t));
  }
  return g.add({.kind = kind,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.flops = most.count / word.count, .traffic = traffic}});
}
Output reshape_to(Graph& g, Output x, Output shape, Bytes size) {
  return g.add({.kind = "Reshape", .inputs = {x, shape}, .outputs = {size}});
}

void like_input(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output shape = g.constant("Shape", shape_of_steps);
  sent[0] = reshape_to(g, dy[0], shape, g.input_size(op, 0));
}

/// The op that finds the broadcast axes of two inputs.
struct Broadcast {
  Output x_shape, y_shape;
  NodeId axes;
};
Broadcast broadcast(Graph& g) {
  const Output x = g.constant("Shape", shape_of_steps), y = g.constant("Shape", shape_of_steps);
  return {.x_shape = x,
          .y_shape = y,
          .axes = g.add({.kind = "BroadcastGradientArgs",
                         .inputs = {x, y},
                         .outputs = {shape_of_steps, shape_of_steps}})
                      .op};
}
/// `d` summed over the axes along which the input of `size` was broadcast.
Output unbroadcast(Graph& g, Output d, Output axes, Output shape, Bytes size) {
  return reshape_to(g, pass_over_largest(g, "Sum", {d, axes}, size), shape, size);
}

void add(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Bytes x = g.input_size(op, 0), y = g.input_size(op, 1);
  if (x == y) {
    sent[0] = sent[1] = dy[0];
    return;
  }
  const Broadcast b = broadcast(g);
  sent[0] = unbroadcast(g, dy[0], {b.axes, 0}, b.x_shape, x);
  sent[1] = unbroadcast(g, dy[0], {b.axes, 1}, b.y_shape, y);
}

/// Inputs of two shapes.
void mul(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output x = g.input(op, 0), y = g.input(op, 1);
  const Bytes size = g.size({op, 0});
  const Broadcast b = broadcast(g);
  const Output dx = pass_over_largest(g, "Mul", {dy[0], y}, size);
  sent[0] = unbroadcast(g, dx, {b.axes, 0}, b.x_shape, g.size(x));
  const Output d = pass_over_largest(g, "Mul", {x, dy[0]}, size);
  sent[1] = unbroadcast(g, d, {b.axes, 1}, b.y_shape, g.size(y));
}

void tanh(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  sent[0] = pass_over_largest(g, "TanhGrad", {{op, 0}, dy[0]}, g.input_size(op, 0));
}

/// Sum of a whole vector: dy is repeated.
void sum_of_all(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output shape = g.constant("Reshape/shape");
  const Output one = reshape_to(g, dy[0], shape, g.size(dy[0]));
  const Output multiples = g.constant("Const", shape_of_steps);
  sent[0] = pass_over_largest(g, "Tile", {one, multiples}, g.input_size(op, 0));
}

/// Sum along some axes. First ops build the shape in which these axes are 1, although it is known.
void sum(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  if (g.size({op, 0}) == word) {
    sum_of_all(g, op, dy, sent);
    return;
  }
  const Output shape = g.constant("Shape", shape_of_steps), rank = g.constant("Size");
  const Output shifted = host(g, "Add", "add", {g.input(op, 1), rank});
  const Output axes = host(g, "FloorMod", "mod", {shifted, rank});
  const Output axes_shape = g.constant("Shape");
  const Output start = g.constant("range/start"), delta = g.constant("range/delta");
  const Output range = host(g, "Range", "range", {start, rank, delta}, shape_of_steps);
  const Output value = g.constant("Fill/value");
  const Output ones = host(g, "Fill", "Fill", {axes_shape, value});
  const Output kept =
      host(g, "DynamicStitch", "DynamicStitch", {range, axes, shape, ones}, shape_of_steps);
  const Output least = g.constant("Maximum/y");
  const Output divisor = host(g, "Maximum", "Maximum", {kept, least}, shape_of_steps);
  const Output multiples = host(g, "FloorDiv", "floordiv", {shape, divisor}, shape_of_steps);
  const Output column = reshape_to(g, dy[0], kept, g.size(dy[0]));
  sent[0] = pass_over_largest(g, "Tile", {column, multiples}, g.input_size(op, 0));
}

/// Softmax: dx = (dy - sum(dy y)) y.
void softmax(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output y{op, 0};
  const Bytes size = g.size(y);
  const Output product = pass_over_largest(g, "Mul", {dy[0], y}, size);
  const Output axis = g.constant("Sum/reduction_indices");
  const Output total = pass_over_largest(g, "Sum", {product, axis}, word);
  const Output rest = pass_over_largest(g, "Sub", {dy[0], total}, size);
  sent[0] = pass_over_largest(g, "Mul", {rest, y}, size);
}

void batch_mat_mul(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output x = g.input(op, 0), y = g.input(op, 1);
  const auto product = [&](Output a, Output b, Bytes size) {
    return g.add({.kind = "BatchMatMul",
                  .name = "MatMul",
                  .inputs = {a, b},
                  .outputs = {size},
                  .work = g.node(op).work});
  };
  sent[0] = product(dy[0], y, g.size(x));
  sent[1] = product(x, dy[0], g.size(y));
}

void transpose_gradient(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output order =
      host(g, "InvertPermutation", "InvertPermutation", {g.input(op, 1)}, shape_of_steps);
  sent[0] = moved(g, "Transpose", "transpose", {dy[0], order}, g.input_size(op, 0));
}

void unpack(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  sent[0] = moved(g, "Pack", "stack", {dy.begin(), dy.end()}, g.input_size(op, 0));
}

void pack(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Bytes size = g.size({op, 0});
  const NodeId all = g.add({.kind = "Unpack",
                            .name = "unstack",
                            .inputs = {dy[0]},
                            .outputs = std::vector<Bytes>(sent.size(), g.input_size(op, 0)),
                            .work = {.traffic = 2 * size}})
                         .op;
  for (std::uint32_t i = 0; i < sent.size(); ++i) sent[i] = Output{all, i};
}

void split(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  sent[0] = moved(g, "ConcatV2", "concat", {dy[0], dy[1], g.input(op, 2)}, g.input_size(op, 0));
}

/// Rows of a table: the gradients of the rows and their numbers. An op cuts the width out of the
/// shape of the table.
void gather(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const Output indices = g.input(op, 1);
  Output table_shape{};
  {
    const auto place = g.colocate_with(g.input(op, 0).op);
    const Output shape = g.constant("Shape", Bytes{16});
    table_shape = host(g, "Cast", "ToInt32", {shape}, Bytes{8});
  }
  const Output count = g.constant("Size"), axis = g.constant("ExpandDims/dim");
  const Output counts = host(g, "ExpandDims", "ExpandDims", {count, axis});
  const Output from = g.constant("strided_slice/stack");
  const Output to = g.constant("strided_slice/stack_1");
  const Output stride = g.constant("strided_slice/stack_2");
  const Output width = host(g, "StridedSlice", "strided_slice", {table_shape, from, to, stride});
  const Output along = g.constant("concat/axis");
  const Output shape = host(g, "ConcatV2", "concat", {counts, width, along}, Bytes{8});
  const Output rows = reshape_to(g, dy[0], shape, g.size(dy[0]));
  g.set_rows(rows, reshape_to(g, indices, counts, g.size(indices)));
  sent[0] = rows;
}

/// LSTMBlockCell: one op for the gradient of the gates; products take it to the input, the previous
/// state and the weights. Outputs of the forward op: i, cs, f, o, ci, co, h.
void lstm_block_cell(Graph& g, NodeId op, Arriving dy, Sent& sent) {
  const std::vector<Output> in = g.node(op).inputs;  // x, cs, h, w, wci, wcf, wco, b
  const Output x = in[0], h = in[2], w = in[3], bias = in[7];
  const std::int64_t units = g.size(bias).count / (4 * word.count);
  const Bytes state = g.size(h), both = g.size(x) + state, gates = 4 * state;
  const std::int64_t steps = state.count / word.count;  // batch x units
  std::vector<Output> read(in);
  for (std::uint32_t port = 0; port < 6; ++port) read.push_back({op, port});
  read.push_back(dy[1]);
  read.push_back(dy[6]);
  const Bytes peephole = bytes_of(units);
  const NodeId cell = g.add({.kind = "LSTMBlockCellGrad",
                             .inputs = read,
                             .outputs = {state, gates, peephole, peephole, peephole},
                             .work = {.flops = 24 * steps, .traffic = 14 * state},
                             .temporary = 5 * state})
                          .op;
  const Output d{cell, 1};
  const OpWork product{.flops = 2 * (both.count / word.count) * 4 * units,
                       .traffic = gates + g.size(w) + both,
                       .weights = g.size(w)};
  const Output dx_dh =
      g.add({.kind = "MatMul", .inputs = {d, w}, .outputs = {both}, .work = product});
  const auto slice = [&](Bytes size) {
    const Output begin = g.constant("Slice/begin", Bytes{8});
    const Output extent = g.constant("Slice/size", Bytes{8});
    return moved(g, "Slice", "Slice", {dx_dh, begin, extent}, size);
  };
  sent[0] = slice(g.size(x));
  sent[1] = Output{cell, 0};
  sent[2] = slice(state);
  const Output axis = g.constant("concat/axis");
  const Output x_h = moved(g, "ConcatV2", "concat", {x, h, axis}, both);
  sent[3] = g.add({.kind = "MatMul", .inputs = {x_h, d}, .outputs = {g.size(w)}, .work = product});
  for (std::uint32_t i = 0; i < 3; ++i) sent[4 + i] = Output{cell, 2 + i};
  sent[7] = g.add({.kind = "BiasAddGrad",
                   .inputs = {d},
                   .outputs = {g.size(bias)},
                   .work = {.flops = 4 * steps, .traffic = gates}});
}

}  // namespace

std::span<const GradientRule> sequence_gradients() {
  static constexpr GradientRule table[] = {
      {"Add", add},
      {"BatchMatMul", batch_mat_mul},
      {"ExpandDims", like_input},
      {"GatherV2", gather},
      {"LSTMBlockCell", lstm_block_cell},
      {"Mul", mul},
      {"Pack", pack},
      {"Softmax", softmax},
      {"SplitV", split},
      {"Sum", sum},
      {"Tanh", tanh},
      {"Transpose", transpose_gradient},
      {"Unpack", unpack},
  };
  return table;
}

}  // namespace baechi::generate::tf1
