#include <deque>

#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {
namespace {

const GradientRule& gradient_rule(std::string_view kind) {
  for (const auto rules : {image_gradients(), sequence_gradients()}) {
    for (const GradientRule& rule : rules)
      if (rule.kind == kind) return rule;
  }
  BAECHI_CHECK(false, "no gradient of {}", kind);
}

/// gradients() of ops/gradients_impl.py: goes back from `y`; an op follows when all its readers are
/// done.
class Differentiation {
 public:
  Differentiation(Graph& graph, Output y, std::span<const Graph::Variable> variables, bool colocate)
      : graph_(graph),
        scope_(graph.scope("gradients")),
        y_(y),
        variables_(variables),
        colocate_(colocate),
        pending_(graph.ops().size(), 0),
        arrived_(graph.ops().size()) {}

  Sent run() {
    count_pending();
    send(y_, start());
    std::deque<NodeId> ready{y_.op};
    while (!ready.empty()) {
      const NodeId op = ready.front();
      ready.pop_front();
      differentiate(op);
      for (const Output input : graph_.node(op).inputs) {
        if (between_[input.op] && --pending_[input.op] == 0) ready.push_back(input.op);
      }
    }
    Sent result;
    for (const Graph::Variable& w : variables_)
      result.push_back(arrived_[w.ref.op].empty() ? std::nullopt : arrived_[w.ref.op][0].sum);
    return result;
  }

 private:
  struct Arrived {  // gradients that arrived at one output
    std::vector<Output> parts{};
    std::optional<Output> sum{};
  };

  /// For each op on a path from a variable to `y`: counts the inputs on such paths that read it.
  void count_pending() {
    const std::size_t n = pending_.size();
    IdVector<NodeId, bool> reached(n, false);
    for (const Graph::Variable& w : variables_) reached[w.ref.op] = true;
    for (const NodeId op : graph_.ops()) {  // an op comes after the ops that it reads
      for (const Output input : graph_.node(op).inputs)
        if (reached[input.op]) reached[op] = true;
    }
    between_.assign(n, false);
    between_[y_.op] = reached[y_.op];
    for (std::size_t i = n; i-- > 0;) {
      const auto op = static_cast<NodeId>(i);
      if (!between_[op]) continue;
      for (const Output input : graph_.node(op).inputs) {
        if (!reached[input.op]) continue;
        between_[input.op] = true;
        ++pending_[input.op];
      }
    }
  }

  /// dy / dy = 1.
  Output start() {
    const auto backward = graph_.backward_of(y_.op, colocate_);
    const Output shape = graph_.constant("Shape");
    const Output one = graph_.constant("grad_ys_0");
    return graph_.add({.kind = "Fill",
                       .inputs = {shape, one},
                       .outputs = {word},
                       .work = {.flops = 0, .traffic = word}});
  }

  void send(Output to, Output gradient) {
    if (!between_[to.op]) return;
    auto& outputs = arrived_[to.op];
    outputs.resize(graph_.node(to.op).outputs.size());
    outputs[to.port].parts.push_back(gradient);
  }

  void differentiate(NodeId op) {
    std::vector<Arrived>& outputs = arrived_[op];
    if (outputs.empty()) return;
    const auto backward = graph_.backward_of(op, colocate_);
    for (Arrived& a : outputs) a.sum = sum(op, a.parts);
    const std::vector<Output> inputs = graph_.node(op).inputs;
    if (inputs.empty()) return;
    const auto scope = graph_.scope(graph_.node(op).name + "_grad");
    std::vector<Output> arriving;
    arriving.reserve(outputs.size());
    for (std::uint32_t port = 0; port < outputs.size(); ++port) {
      const auto& sum = outputs[port].sum;
      arriving.push_back(sum ? *sum : zeros({op, port}));
    }
    Sent sent(inputs.size());
    gradient_rule(graph_.node(op).kind).send(graph_, op, arriving, sent);
    gate(sent);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const auto& gradient = sent[i]) send(inputs[i], *gradient);
  }

  Output zeros(Output like) {
    const Bytes size = graph_.size(like);
    return graph_.add({.kind = "ZerosLike",
                       .name = "zeros_like",
                       .inputs = {like},
                       .outputs = {size},
                       .work = {.flops = 0, .traffic = size}});
  }

  /// Sums the gradients of one output. TensorFlow adds gradients from one device on that device,
  /// and these sums on the device of the forward op. Here one AddN stands for all of them (the
  /// transform split_sums splits it). It is colocated with the forward op if that is recurrent, so
  /// that the backward pass through the steps stays on one device, else with the last gradient to
  /// arrive.
  std::optional<Output> sum(NodeId op, const std::vector<Output>& parts) {
    if (parts.empty()) return std::nullopt;
    if (parts.size() == 1) return parts[0];
    const bool recurrent = std::ranges::any_of(
        parts, [&](Output t) { return shares_input(op, graph_.node(t.op).forward); });
    const NodeId home = recurrent ? op : graph_.node(parts.back().op).forward;
    const auto place = graph_.backward_of(home, colocate_);
    const auto n = std::ssize(parts);
    const Bytes size = graph_.size(parts[0]);
    return graph_.add(
        {.kind = "AddN",
         .inputs = parts,
         .outputs = {size},
         .work = {.flops = (n - 1) * size.count / word.count, .traffic = {(n + 1) * size.count}}});
  }

  /// Whether the op is recurrent: two steps of one cell share its weights.
  bool shares_input(NodeId a, NodeId b) const {
    const auto& others = graph_.node(b).inputs;
    return std::ranges::any_of(graph_.node(a).inputs, [&](Output t) {
      return std::ranges::find(others, t) != others.end();
    });
  }

  /// If an op sends several gradients, none is used before all are there: a NoOp waits for them,
  /// and an Identity of each gradient waits for the NoOp, all on the device of the gradients.
  /// Source: tuple() and group() of ops/control_flow_ops.py, which gives the NoOp their device.
  void gate(Sent& sent) {
    std::vector<NodeId> writers;
    std::size_t count = 0;
    for (const auto& gradient : sent) {
      if (!gradient) continue;
      ++count;
      if (std::ranges::find(writers, gradient->op) == writers.end())
        writers.push_back(gradient->op);
    }
    if (count < 2) return;
    const auto place = colocate_ ? graph_.colocate_with(writers[0], true) : graph_.apart();
    const auto scope = graph_.scope("tuple");
    const NodeId all = graph_.add({.kind = "NoOp", .name = "group_deps", .controls = writers}).op;
    for (auto& gradient : sent) {
      if (!gradient) continue;
      const auto beside = graph_.colocate_with(gradient->op, true);
      gradient = graph_.add({.kind = "Identity",
                             .name = "control_dependency",
                             .inputs = {*gradient},
                             .outputs = {graph_.size(*gradient)},
                             .controls = {all}});
    }
  }

  Graph& graph_;
  Graph::Scope scope_;
  Output y_;
  std::span<const Graph::Variable> variables_;
  bool colocate_;
  IdVector<NodeId, std::size_t> pending_;
  IdVector<NodeId, bool> between_;
  IdVector<NodeId, std::vector<Arrived>> arrived_;
};

}  // namespace

Sent gradients_of(Graph& graph, Output y, std::span<const Graph::Variable> variables,
                  bool colocate) {
  return Differentiation(graph, y, variables, colocate).run();
}

}  // namespace baechi::generate::tf1
