#include "traces/generate/tf1/graph.h"

namespace baechi {
namespace {

/// Writes elementwise ops, one operation per element of what they write.
class Elementwise {
 public:
  explicit Elementwise(Tf1Graph& graph) : graph_(graph) {}

  Tf1Tensor operator()(std::string_view kind, std::string_view name, std::vector<Tf1Tensor> inputs,
                       std::vector<Tf1Op> after = {}) const {
    Bytes size, traffic;
    for (const Tf1Tensor t : inputs) {
      size = std::max(size, graph_.size(t));
      traffic += graph_.size(t);
    }
    return graph_.add({.kind = kind,
                       .name = name,
                       .inputs = std::move(inputs),
                       .outputs = {size},
                       .controls = std::move(after),
                       .work = {.flops = size.count / word.count, .traffic = traffic + size}});
  }

 private:
  Tf1Graph& graph_;
};

/// Writes over a variable, whose reference is its output.
Tf1Tensor write_over(Tf1Graph& graph, std::string_view kind, std::string_view name,
                     std::vector<Tf1Tensor> inputs, std::vector<Tf1Op> after = {}) {
  Bytes traffic;
  for (const Tf1Tensor t : inputs) traffic += graph.size(t);
  const Bytes size = graph.size(inputs[0]);
  const std::int64_t written = graph.size(inputs.back()).count / word.count;
  return graph.add({.kind = kind,
                    .name = name,
                    .inputs = std::move(inputs),
                    .outputs = {size},
                    .controls = std::move(after),
                    .work = {.flops = written, .traffic = traffic}});
}

/// Of rows that are named more than once the sum.
struct Rows {
  Tf1Tensor values, rows;
};
Rows unique_rows(Tf1Graph& graph, Tf1Tensor gradient, Tf1Tensor rows) {
  const Bytes indices = graph.size(rows), size = graph.size(gradient);
  const Tf1Op unique = graph
                           .add({.kind = "Unique",
                                 .inputs = {rows},
                                 .outputs = {indices, indices},
                                 .work = {.traffic = 3 * indices}})
                           .op;
  const Tf1Tensor shape = graph.add({.kind = "Shape", .inputs = {{unique, 0}}, .outputs = {word}});
  const Tf1Tensor from = graph.constant("strided_slice/stack");
  const Tf1Tensor to = graph.constant("strided_slice/stack_1");
  const Tf1Tensor stride = graph.constant("strided_slice/stack_2");
  const Tf1Tensor count = graph.add({.kind = "StridedSlice",
                                     .name = "strided_slice",
                                     .inputs = {shape, from, to, stride},
                                     .outputs = {word}});
  const Tf1Tensor sum =
      graph.add({.kind = "UnsortedSegmentSum",
                 .inputs = {gradient, {unique, 1}, count},
                 .outputs = {size},
                 .work = {.flops = size.count / word.count, .traffic = 2 * size + indices}});
  return {.values = sum, .rows = {unique, 0}};
}

/// The moments of all rows decay, those of the rows at hand grow, and all weights move.
Tf1Op adam(Tf1Graph& g, std::span<const Tf1Tensor> hyper, Tf1Tensor w,
           std::span<const Tf1Tensor> slots, std::span<const Tf1Tensor> powers, const Rows& d) {
  const Elementwise op(g);
  const Tf1Tensor rate = hyper[0], beta1 = hyper[1], beta2 = hyper[2], epsilon = hyper[3];
  const Tf1Tensor rest2 = op("Sub", "sub", {g.constant("sub/x"), powers[1]});
  const Tf1Tensor root = op("Sqrt", "Sqrt", {rest2});
  const Tf1Tensor scaled = op("Mul", "mul", {rate, root});
  const Tf1Tensor rest1 = op("Sub", "sub", {g.constant("sub_1/x"), powers[0]});
  const Tf1Tensor step = op("RealDiv", "truediv", {scaled, rest1});
  // m = beta1 m + (1 - beta1) d
  const Tf1Tensor share1 = op("Sub", "sub", {g.constant("sub_2/x"), beta1});
  const Tf1Tensor m_new = op("Mul", "mul", {d.values, share1});
  const Tf1Tensor m_old = op("Mul", "mul", {slots[0], beta1});
  const Tf1Tensor m_decayed = write_over(g, "Assign", "Assign", {slots[0], m_old});
  const Tf1Tensor m =
      write_over(g, "ScatterAdd", "ScatterAdd", {slots[0], d.rows, m_new}, {m_decayed.op});
  // v = beta2 v + (1 - beta2) d d
  const Tf1Tensor square = op("Mul", "mul", {d.values, d.values});
  const Tf1Tensor share2 = op("Sub", "sub", {g.constant("sub_3/x"), beta2});
  const Tf1Tensor v_new = op("Mul", "mul", {square, share2});
  const Tf1Tensor v_old = op("Mul", "mul", {slots[1], beta2});
  const Tf1Tensor v_decayed = write_over(g, "Assign", "Assign", {slots[1], v_old});
  const Tf1Tensor v =
      write_over(g, "ScatterAdd", "ScatterAdd", {slots[1], d.rows, v_new}, {v_decayed.op});
  // w -= step m / (sqrt v + epsilon)
  const Tf1Tensor v_root = op("Sqrt", "Sqrt", {v});
  const Tf1Tensor m_step = op("Mul", "mul", {step, m});
  const Tf1Tensor safe = op("Add", "add", {v_root, epsilon});
  const Tf1Tensor change = op("RealDiv", "truediv", {m_step, safe});
  const Tf1Tensor moved = write_over(g, "AssignSub", "AssignSub", {w, change});
  return g.add({.kind = "NoOp", .name = "group_deps", .controls = {moved.op, m.op, v.op}}).op;
}

}  // namespace

Tf1Op tf1_sparse_update(Tf1Graph& graph, Optimizer optimizer, std::span<const Tf1Tensor> hyper,
                        Tf1Tensor w, std::span<const Tf1Tensor> slots,
                        std::span<const Tf1Tensor> powers, Tf1Tensor gradient, Tf1Tensor rows) {
  if (optimizer == Optimizer::sgd) {
    const Tf1Tensor change = Elementwise(graph)("Mul", "mul", {gradient, hyper[0]});
    return write_over(graph, "ScatterSub", "ScatterSub", {w, rows, change}).op;
  }
  const Rows d = unique_rows(graph, gradient, rows);
  if (optimizer == Optimizer::adam) return adam(graph, hyper, w, slots, powers, d);
  const bool momentum = optimizer == Optimizer::momentum;
  std::vector<Tf1Tensor> inputs{w};
  inputs.insert(inputs.end(), slots.begin(), slots.end());
  inputs.insert(inputs.end(), hyper.begin(), hyper.end());
  inputs.insert(inputs.end(), {d.rows, d.values});
  return graph
      .add({.kind = momentum ? "SparseApplyMomentum" : "SparseApplyRMSProp",
            .inputs = std::move(inputs),
            .outputs = {Bytes{}},
            .work = update_work(optimizer, graph.size(d.values).count / word.count)})
      .op;
}

}  // namespace baechi
