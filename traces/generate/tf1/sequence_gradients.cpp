#include "traces/generate/tf1/graph.h"

namespace baechi {
namespace {

// What is registered in ops/{array,math,nn}_grad.py and contrib/rnn/python/ops/lstm_ops.py.

using Arriving = std::span<const Tf1Tensor>;
constexpr Bytes shape_of_steps{12};

Tf1Tensor input(const Tf1Graph& g, Tf1Op op, std::size_t i) {
  return g.node(op).inputs[i];
}
Bytes input_size(const Tf1Graph& g, Tf1Op op, std::size_t i) {
  return g.size(input(g, op, i));
}

/// Moves bytes alone.
Tf1Tensor moved(Tf1Graph& g, std::string_view kind, std::string_view name,
                std::vector<Tf1Tensor> inputs, Bytes size) {
  return g.add({.kind = kind,
                .name = name,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.traffic = 2 * size}});
}
/// On the host, of shapes and indices.
Tf1Tensor host(Tf1Graph& g, std::string_view kind, std::string_view name,
               std::vector<Tf1Tensor> inputs, Bytes size = word) {
  return g.add({.kind = kind, .name = name, .inputs = std::move(inputs), .outputs = {size}});
}
/// One operation per element of the largest tensor.
Tf1Tensor kernel(Tf1Graph& g, std::string_view kind, std::vector<Tf1Tensor> inputs, Bytes size) {
  Bytes traffic = size, most = size;
  for (const Tf1Tensor t : inputs) {
    traffic += g.size(t);
    most = std::max(most, g.size(t));
  }
  return g.add({.kind = kind,
                .inputs = std::move(inputs),
                .outputs = {size},
                .work = {.flops = most.count / word.count, .traffic = traffic}});
}
Tf1Tensor reshape(Tf1Graph& g, Tf1Tensor x, Tf1Tensor shape, Bytes size) {
  return g.add({.kind = "Reshape", .inputs = {x, shape}, .outputs = {size}});
}

void like_input(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor shape = g.constant("Shape", shape_of_steps);
  sent[0] = reshape(g, dy[0], shape, input_size(g, op, 0));
}

/// Which axes of two inputs were broadcast.
struct Broadcast {
  Tf1Tensor x_shape, y_shape;
  Tf1Op axes;
};
Broadcast broadcast(Tf1Graph& g) {
  const Tf1Tensor x = g.constant("Shape", shape_of_steps), y = g.constant("Shape", shape_of_steps);
  return {.x_shape = x,
          .y_shape = y,
          .axes = g.add({.kind = "BroadcastGradientArgs",
                         .inputs = {x, y},
                         .outputs = {shape_of_steps, shape_of_steps}})
                      .op};
}
/// `d` summed over what the input of `size` was broadcast to.
Tf1Tensor unbroadcast(Tf1Graph& g, Tf1Tensor d, Tf1Tensor axes, Tf1Tensor shape, Bytes size) {
  return reshape(g, kernel(g, "Sum", {d, axes}, size), shape, size);
}

void add(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Bytes x = input_size(g, op, 0), y = input_size(g, op, 1);
  if (x == y) {
    sent[0] = sent[1] = dy[0];
    return;
  }
  const Broadcast b = broadcast(g);
  sent[0] = unbroadcast(g, dy[0], {b.axes, 0}, b.x_shape, x);
  sent[1] = unbroadcast(g, dy[0], {b.axes, 1}, b.y_shape, y);
}

/// Of inputs of two shapes.
void mul(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor x = input(g, op, 0), y = input(g, op, 1);
  const Bytes size = g.size({op, 0});
  const Broadcast b = broadcast(g);
  const Tf1Tensor dx = kernel(g, "Mul", {dy[0], y}, size);
  sent[0] = unbroadcast(g, dx, {b.axes, 0}, b.x_shape, g.size(x));
  const Tf1Tensor d = kernel(g, "Mul", {x, dy[0]}, size);
  sent[1] = unbroadcast(g, d, {b.axes, 1}, b.y_shape, g.size(y));
}

void tanh(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  sent[0] = kernel(g, "TanhGrad", {{op, 0}, dy[0]}, input_size(g, op, 0));
}

/// Of a vector, all of it: what arrives is repeated.
void sum_of_all(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor shape = g.constant("Reshape/shape");
  const Tf1Tensor one = reshape(g, dy[0], shape, g.size(dy[0]));
  const Tf1Tensor multiples = g.constant("Const", shape_of_steps);
  sent[0] = kernel(g, "Tile", {one, multiples}, input_size(g, op, 0));
}

/// Along some axes: first the shape with these as 1 is put together, though it is known.
void sum(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  if (g.size({op, 0}) == word) {
    sum_of_all(g, op, dy, sent);
    return;
  }
  const Tf1Tensor shape = g.constant("Shape", shape_of_steps), rank = g.constant("Size");
  const Tf1Tensor shifted = host(g, "Add", "add", {input(g, op, 1), rank});
  const Tf1Tensor axes = host(g, "FloorMod", "mod", {shifted, rank});
  const Tf1Tensor axes_shape = g.constant("Shape");
  const Tf1Tensor start = g.constant("range/start"), delta = g.constant("range/delta");
  const Tf1Tensor range = host(g, "Range", "range", {start, rank, delta}, shape_of_steps);
  const Tf1Tensor value = g.constant("Fill/value");
  const Tf1Tensor ones = host(g, "Fill", "Fill", {axes_shape, value});
  const Tf1Tensor kept =
      host(g, "DynamicStitch", "DynamicStitch", {range, axes, shape, ones}, shape_of_steps);
  const Tf1Tensor least = g.constant("Maximum/y");
  const Tf1Tensor divisor = host(g, "Maximum", "Maximum", {kept, least}, shape_of_steps);
  const Tf1Tensor multiples = host(g, "FloorDiv", "floordiv", {shape, divisor}, shape_of_steps);
  const Tf1Tensor column = reshape(g, dy[0], kept, g.size(dy[0]));
  sent[0] = kernel(g, "Tile", {column, multiples}, input_size(g, op, 0));
}

/// (dy - sum(dy y)) y.
void softmax(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor y{op, 0};
  const Bytes size = g.size(y);
  const Tf1Tensor product = kernel(g, "Mul", {dy[0], y}, size);
  const Tf1Tensor axis = g.constant("Sum/reduction_indices");
  const Tf1Tensor total = kernel(g, "Sum", {product, axis}, word);
  const Tf1Tensor rest = kernel(g, "Sub", {dy[0], total}, size);
  sent[0] = kernel(g, "Mul", {rest, y}, size);
}

void batch_mat_mul(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor x = input(g, op, 0), y = input(g, op, 1);
  const auto product = [&](Tf1Tensor a, Tf1Tensor b, Bytes size) {
    return g.add({.kind = "BatchMatMul",
                  .name = "MatMul",
                  .inputs = {a, b},
                  .outputs = {size},
                  .work = g.node(op).work});
  };
  sent[0] = product(dy[0], y, g.size(x));
  sent[1] = product(x, dy[0], g.size(y));
}

void transpose(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor order =
      host(g, "InvertPermutation", "InvertPermutation", {input(g, op, 1)}, shape_of_steps);
  sent[0] = moved(g, "Transpose", "transpose", {dy[0], order}, input_size(g, op, 0));
}

void unpack(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  sent[0] = moved(g, "Pack", "stack", {dy.begin(), dy.end()}, input_size(g, op, 0));
}

void pack(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Bytes size = g.size({op, 0});
  const Tf1Op all = g.add({.kind = "Unpack",
                           .name = "unstack",
                           .inputs = {dy[0]},
                           .outputs = std::vector<Bytes>(sent.size(), input_size(g, op, 0)),
                           .work = {.traffic = 2 * size}})
                        .op;
  for (std::uint32_t i = 0; i < sent.size(); ++i) sent[i] = Tf1Tensor{all, i};
}

void split(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  sent[0] = moved(g, "ConcatV2", "concat", {dy[0], dy[1], input(g, op, 2)}, input_size(g, op, 0));
}

/// Of rows of a table: the rows' gradients, and which rows. Of the table's shape only the width is
/// used, cut out of it.
void gather(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const Tf1Tensor indices = input(g, op, 1);
  Tf1Tensor table_shape{};
  {
    const auto place = g.colocate_with(input(g, op, 0).op);
    const Tf1Tensor shape = g.constant("Shape", Bytes{16});
    table_shape = host(g, "Cast", "ToInt32", {shape}, Bytes{8});
  }
  const Tf1Tensor count = g.constant("Size"), axis = g.constant("ExpandDims/dim");
  const Tf1Tensor counts = host(g, "ExpandDims", "ExpandDims", {count, axis});
  const Tf1Tensor from = g.constant("strided_slice/stack");
  const Tf1Tensor to = g.constant("strided_slice/stack_1");
  const Tf1Tensor stride = g.constant("strided_slice/stack_2");
  const Tf1Tensor width = host(g, "StridedSlice", "strided_slice", {table_shape, from, to, stride});
  const Tf1Tensor along = g.constant("concat/axis");
  const Tf1Tensor shape = host(g, "ConcatV2", "concat", {counts, width, along}, Bytes{8});
  const Tf1Tensor rows = reshape(g, dy[0], shape, g.size(dy[0]));
  g.set_rows(rows, reshape(g, indices, counts, g.size(indices)));
  sent[0] = rows;
}

/// Its own op for the gates, whose gradient the products take to the input, the state before and
/// the weights. Outputs: i, cs, f, o, ci, co, h.
void lstm_block_cell(Tf1Graph& g, Tf1Op op, Arriving dy, Tf1Sent& sent) {
  const std::vector<Tf1Tensor> in = g.node(op).inputs;  // x, cs, h, w, wci, wcf, wco, b
  const Tf1Tensor x = in[0], h = in[2], w = in[3], bias = in[7];
  const std::int64_t units = g.size(bias).count / (4 * word.count);
  const Bytes state = g.size(h), both = g.size(x) + state, gates = 4 * state;
  const std::int64_t steps = state.count / word.count;  // batch x units
  std::vector<Tf1Tensor> read(in);
  for (std::uint32_t port = 0; port < 6; ++port) read.push_back({op, port});
  read.push_back(dy[1]);
  read.push_back(dy[6]);
  const Bytes peephole = bytes_of(units);
  const Tf1Op cell = g.add({.kind = "LSTMBlockCellGrad",
                            .inputs = read,
                            .outputs = {state, gates, peephole, peephole, peephole},
                            .work = {.flops = 24 * steps, .traffic = 14 * state},
                            .temporary = 5 * state})
                         .op;
  const Tf1Tensor d{cell, 1};
  const OpWork product{.flops = 2 * (both.count / word.count) * 4 * units,
                       .traffic = gates + g.size(w) + both};
  const Tf1Tensor dx_dh =
      g.add({.kind = "MatMul", .inputs = {d, w}, .outputs = {both}, .work = product});
  const auto slice = [&](Bytes size) {
    const Tf1Tensor begin = g.constant("Slice/begin", Bytes{8});
    const Tf1Tensor extent = g.constant("Slice/size", Bytes{8});
    return moved(g, "Slice", "Slice", {dx_dh, begin, extent}, size);
  };
  sent[0] = slice(g.size(x));
  sent[1] = Tf1Tensor{cell, 0};
  sent[2] = slice(state);
  const Tf1Tensor axis = g.constant("concat/axis");
  const Tf1Tensor x_h = moved(g, "ConcatV2", "concat", {x, h, axis}, both);
  sent[3] = g.add({.kind = "MatMul", .inputs = {x_h, d}, .outputs = {g.size(w)}, .work = product});
  for (std::uint32_t i = 0; i < 3; ++i) sent[4 + i] = Tf1Tensor{cell, 2 + i};
  sent[7] = g.add({.kind = "BiasAddGrad",
                   .inputs = {d},
                   .outputs = {g.size(bias)},
                   .work = {.flops = 4 * steps, .traffic = gates}});
}

}  // namespace

std::span<const Tf1Gradient> tf1_sequence_gradients() {
  static constexpr Tf1Gradient table[] = {
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
      {"Transpose", transpose},
      {"Unpack", unpack},
  };
  return table;
}

}  // namespace baechi
