#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {
namespace {

/// Adds elementwise ops with one operation per element that they write.
class Elementwise {
 public:
  explicit Elementwise(Graph& graph) : graph_(graph) {}

  Output operator()(std::string_view kind, std::string_view name, std::vector<Output> inputs,
                    std::vector<NodeId> after = {}) const {
    Bytes size, traffic;
    for (const Output t : inputs) {
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
  Graph& graph_;
};

/// Adds an op that overwrites a variable; its output is the variable's reference.
Output write_over(Graph& graph, std::string_view kind, std::string_view name,
                  std::vector<Output> inputs, std::vector<NodeId> after = {}) {
  Bytes traffic;
  for (const Output t : inputs) traffic += graph.size(t);
  const Bytes size = graph.size(inputs[0]);
  const std::int64_t written = graph.size(inputs.back()).count / word.count;
  return graph.add({.kind = kind,
                    .name = name,
                    .inputs = std::move(inputs),
                    .outputs = {size},
                    .controls = std::move(after),
                    .work = {.flops = written, .traffic = traffic}});
}

/// Sums the gradients of rows that occur more than once.
struct Rows {
  Output values, rows;
};
Rows unique_rows(Graph& graph, Output gradient, Output rows) {
  const Bytes indices = graph.size(rows), size = graph.size(gradient);
  const NodeId unique = graph
                            .add({.kind = "Unique",
                                  .inputs = {rows},
                                  .outputs = {indices, indices},
                                  .work = {.traffic = 3 * indices}})
                            .op;
  const Output shape = graph.add({.kind = "Shape", .inputs = {{unique, 0}}, .outputs = {word}});
  const Output from = graph.constant("strided_slice/stack");
  const Output to = graph.constant("strided_slice/stack_1");
  const Output stride = graph.constant("strided_slice/stack_2");
  const Output count = graph.add({.kind = "StridedSlice",
                                  .name = "strided_slice",
                                  .inputs = {shape, from, to, stride},
                                  .outputs = {word}});
  const Output sum =
      graph.add({.kind = "UnsortedSegmentSum",
                 .inputs = {gradient, {unique, 1}, count},
                 .outputs = {size},
                 .work = {.flops = size.count / word.count, .traffic = 2 * size + indices}});
  return {.values = sum, .rows = {unique, 0}};
}

/// Adam: the moments of all rows decay, the moments of the given rows grow, all weights change.
NodeId adam(Graph& g, std::span<const Output> hyper, Output w, std::span<const Output> slots,
            std::span<const Output> powers, const Rows& d) {
  const Elementwise op(g);
  const Output rate = hyper[0], beta1 = hyper[1], beta2 = hyper[2], epsilon = hyper[3];
  const Output rest2 = op("Sub", "sub", {g.constant("sub/x"), powers[1]});
  const Output root = op("Sqrt", "Sqrt", {rest2});
  const Output scaled = op("Mul", "mul", {rate, root});
  const Output rest1 = op("Sub", "sub", {g.constant("sub_1/x"), powers[0]});
  const Output step = op("RealDiv", "truediv", {scaled, rest1});
  // m = beta1 m + (1 - beta1) d
  const Output share1 = op("Sub", "sub", {g.constant("sub_2/x"), beta1});
  const Output m_new = op("Mul", "mul", {d.values, share1});
  const Output m_old = op("Mul", "mul", {slots[0], beta1});
  const Output m_decayed = write_over(g, "Assign", "Assign", {slots[0], m_old});
  const Output m =
      write_over(g, "ScatterAdd", "ScatterAdd", {slots[0], d.rows, m_new}, {m_decayed.op});
  // v = beta2 v + (1 - beta2) d d
  const Output square = op("Mul", "mul", {d.values, d.values});
  const Output share2 = op("Sub", "sub", {g.constant("sub_3/x"), beta2});
  const Output v_new = op("Mul", "mul", {square, share2});
  const Output v_old = op("Mul", "mul", {slots[1], beta2});
  const Output v_decayed = write_over(g, "Assign", "Assign", {slots[1], v_old});
  const Output v =
      write_over(g, "ScatterAdd", "ScatterAdd", {slots[1], d.rows, v_new}, {v_decayed.op});
  // w -= step m / (sqrt v + epsilon)
  const Output v_root = op("Sqrt", "Sqrt", {v});
  const Output m_step = op("Mul", "mul", {step, m});
  const Output safe = op("Add", "add", {v_root, epsilon});
  const Output change = op("RealDiv", "truediv", {m_step, safe});
  const Output moved = write_over(g, "AssignSub", "AssignSub", {w, change});
  return g.add({.kind = "NoOp", .name = "group_deps", .controls = {moved.op, m.op, v.op}}).op;
}

}  // namespace

NodeId add_sparse_update(Graph& graph, Optimizer optimizer, std::span<const Output> hyper, Output w,
                         std::span<const Output> slots, std::span<const Output> powers,
                         Output gradient, Output rows) {
  if (optimizer == Optimizer::sgd) {
    const Output change = Elementwise(graph)("Mul", "mul", {gradient, hyper[0]});
    return write_over(graph, "ScatterSub", "ScatterSub", {w, rows, change}).op;
  }
  const Rows d = unique_rows(graph, gradient, rows);
  if (optimizer == Optimizer::adam) return adam(graph, hyper, w, slots, powers, d);
  const bool momentum = optimizer == Optimizer::momentum;
  std::vector<Output> inputs{w};
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

}  // namespace baechi::generate::tf1
