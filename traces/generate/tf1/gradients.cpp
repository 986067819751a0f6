#include <algorithm>
#include <deque>

#include "sim/error.h"
#include "traces/generate/tf1/graph.h"

namespace baechi {
namespace {

const Tf1Gradient& rule_for(std::string_view kind) {
  for (const auto rules : {tf1_image_gradients(), tf1_sequence_gradients()}) {
    for (const Tf1Gradient& rule : rules)
      if (rule.kind == kind) return rule;
  }
  BAECHI_CHECK(false, "no gradient of {}", kind);
}

/// gradients() of ops/gradients_impl.py: from `y` back, an op once all its readers are done.
class Differentiation {
 public:
  Differentiation(Tf1Graph& graph, Tf1Tensor y, std::span<const Tf1Graph::Variable> variables,
                  bool colocate)
      : graph_(graph),
        scope_(graph.scope("gradients")),
        y_(y),
        variables_(variables),
        colocate_(colocate),
        pending_(graph.ops().size(), 0),
        arrived_(graph.ops().size()) {}

  Tf1Sent run() {
    count_pending();
    send(y_, start());
    std::deque<Tf1Op> ready{y_.op};
    while (!ready.empty()) {
      const Tf1Op op = ready.front();
      ready.pop_front();
      differentiate(op);
      for (const Tf1Tensor input : graph_.node(op).inputs) {
        if (between_[input.op] && --pending_[input.op] == 0) ready.push_back(input.op);
      }
    }
    Tf1Sent result;
    for (const Tf1Graph::Variable& w : variables_)
      result.push_back(arrived_[w.ref.op].empty() ? std::nullopt : arrived_[w.ref.op][0].sum);
    return result;
  }

 private:
  struct Arrived {  // at one output
    std::vector<Tf1Tensor> parts{};
    std::optional<Tf1Tensor> sum{};
  };

  /// Counts, for each op between the variables and `y`, the inputs between that read it.
  void count_pending() {
    const std::size_t n = pending_.size();
    IdVector<Tf1Op, bool> reached(n, false);
    for (const Tf1Graph::Variable& w : variables_) reached[w.ref.op] = true;
    for (const Tf1Op op : graph_.ops()) {  // written after all that it reads
      for (const Tf1Tensor input : graph_.node(op).inputs)
        if (reached[input.op]) reached[op] = true;
    }
    between_.assign(n, false);
    between_[y_.op] = reached[y_.op];
    for (std::size_t i = n; i-- > 0;) {
      const auto op = static_cast<Tf1Op>(i);
      if (!between_[op]) continue;
      for (const Tf1Tensor input : graph_.node(op).inputs) {
        if (!reached[input.op]) continue;
        between_[input.op] = true;
        ++pending_[input.op];
      }
    }
  }

  /// dy / dy = 1.
  Tf1Tensor start() {
    const auto backward = graph_.backward_of(y_.op, colocate_);
    const Tf1Tensor shape = graph_.constant("Shape");
    const Tf1Tensor one = graph_.constant("grad_ys_0");
    return graph_.add({.kind = "Fill",
                       .inputs = {shape, one},
                       .outputs = {word},
                       .work = {.flops = 0, .traffic = word}});
  }

  void send(Tf1Tensor to, Tf1Tensor gradient) {
    if (!between_[to.op]) return;
    auto& outputs = arrived_[to.op];
    outputs.resize(graph_.node(to.op).outputs.size());
    outputs[to.port].parts.push_back(gradient);
  }

  void differentiate(Tf1Op op) {
    std::vector<Arrived>& outputs = arrived_[op];
    if (outputs.empty()) return;
    const auto backward = graph_.backward_of(op, colocate_);
    for (Arrived& a : outputs) a.sum = sum(op, a.parts);
    const std::vector<Tf1Tensor> inputs = graph_.node(op).inputs;
    if (inputs.empty()) return;
    const auto scope = graph_.scope(graph_.node(op).name + "_grad");
    std::vector<Tf1Tensor> arriving;
    arriving.reserve(outputs.size());
    for (std::uint32_t port = 0; port < outputs.size(); ++port) {
      const auto& sum = outputs[port].sum;
      arriving.push_back(sum ? *sum : zeros({op, port}));
    }
    Tf1Sent sent(inputs.size());
    rule_for(graph_.node(op).kind).send(graph_, op, arriving, sent);
    gate(sent);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const auto& gradient = sent[i]) send(inputs[i], *gradient);
  }

  Tf1Tensor zeros(Tf1Tensor like) {
    const Bytes size = graph_.size(like);
    return graph_.add({.kind = "ZerosLike",
                       .name = "zeros_like",
                       .inputs = {like},
                       .outputs = {size},
                       .work = {.flops = 0, .traffic = size}});
  }

  /// TensorFlow sums what comes from one device there, and such sums where the forward op is. One
  /// AddN stands for these. It goes with the forward op if that is recurrent, so that the way back
  /// through the steps stays on one device, else with the last gradient to arrive.
  std::optional<Tf1Tensor> sum(Tf1Op op, const std::vector<Tf1Tensor>& parts) {
    if (parts.empty()) return std::nullopt;
    if (parts.size() == 1) return parts[0];
    const bool recurrent = std::ranges::any_of(
        parts, [&](Tf1Tensor t) { return shares_input(op, graph_.node(t.op).forward); });
    const Tf1Op home = recurrent ? op : graph_.node(parts.back().op).forward;
    const auto place = graph_.backward_of(home, colocate_);
    const auto n = std::ssize(parts);
    const Bytes size = graph_.size(parts[0]);
    return graph_.add(
        {.kind = "AddN",
         .inputs = parts,
         .outputs = {size},
         .work = {.flops = (n - 1) * size.count / word.count, .traffic = {(n + 1) * size.count}}});
  }

  /// As two steps of one cell share its weights.
  bool shares_input(Tf1Op a, Tf1Op b) const {
    const auto& others = graph_.node(b).inputs;
    return std::ranges::any_of(graph_.node(a).inputs, [&](Tf1Tensor t) {
      return std::ranges::find(others, t) != others.end();
    });
  }

  /// Of an op that sends several, none goes on before all are there: a NoOp waits for them, an
  /// Identity of each waits for it, all where the gradients are written. Source: tuple() and
  /// group() of ops/control_flow_ops.py, which gives the NoOp their device.
  void gate(Tf1Sent& sent) {
    std::vector<Tf1Op> writers;
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
    const Tf1Op all = graph_.add({.kind = "NoOp", .name = "group_deps", .controls = writers}).op;
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

  Tf1Graph& graph_;
  Tf1Graph::Scope scope_;
  Tf1Tensor y_;
  std::span<const Tf1Graph::Variable> variables_;
  bool colocate_;
  IdVector<Tf1Op, std::size_t> pending_;
  IdVector<Tf1Op, bool> between_;
  IdVector<Tf1Op, std::vector<Arrived>> arrived_;
};

}  // namespace

Tf1Sent tf1_gradients(Tf1Graph& graph, Tf1Tensor y, std::span<const Tf1Graph::Variable> variables,
                      bool colocate) {
  return Differentiation(graph, y, variables, colocate).run();
}

}  // namespace baechi
