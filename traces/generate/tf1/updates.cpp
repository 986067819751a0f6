#include <cctype>

#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {
namespace {

/// What differs between optimizers. Hyper-parameters are in the order of the update op's inputs,
/// slots in the order of their creation.
struct Rule {
  Optimizer optimizer;
  std::string_view name;
  std::vector<std::string_view> hyper;
  std::vector<Initializer> slots;
};

Rule rule_of(Optimizer optimizer) {
  using enum Initializer;
  switch (optimizer) {
    case Optimizer::none:
    case Optimizer::sgd:
      return {optimizer, "GradientDescent", {"learning_rate"}, {}};
    case Optimizer::momentum:
      return {optimizer, "Momentum", {"learning_rate", "momentum"}, {zeros}};
    case Optimizer::adam:
      return {optimizer, "Adam", {"learning_rate", "beta1", "beta2", "epsilon"}, {zeros, zeros}};
    case Optimizer::rmsprop:
      return {
          optimizer, "RMSProp", {"learning_rate", "decay", "momentum", "epsilon"}, {ones, zeros}};
  }
  return {};
}

}  // namespace

void add_updates(Graph& graph, Optimizer optimizer, std::span<const Graph::Variable> variables,
                 const Sent& gradients) {
  if (optimizer == Optimizer::none) return;
  const auto updates = graph.updates();
  const Rule rule = rule_of(optimizer);
  const bool adam = optimizer == Optimizer::adam;
  const Graph::Variable step = graph.variable("global_step", 1, Initializer::zeros);
  std::vector<Output> powers;  // the powers of Adam's betas, made with the first variable
  std::vector<Graph::Variable> betas;
  if (adam) {
    const auto place = graph.colocate_with(variables[0].ref.op);
    for (const char* name : {"beta1_power", "beta2_power"})
      betas.push_back(graph.variable(name, 1, Initializer::zeros));
    for (const Graph::Variable& beta : betas) powers.push_back(beta.read);
  }
  std::vector<std::vector<Output>> slots(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i]) continue;
    const auto place = graph.colocate_with(variables[i].ref.op);
    for (const Initializer init : rule.slots) {
      slots[i].push_back(graph
                             .variable(fmt::format("{}/{}", variables[i].name, rule.name),
                                       variables[i].elements, init)
                             .ref);
    }
  }
  const auto scope = graph.scope(rule.name);
  std::vector<Output> hyper;
  hyper.reserve(rule.hyper.size());
  for (const std::string_view name : rule.hyper) hyper.push_back(graph.constant(name));
  std::vector<NodeId> applied;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!gradients[i]) continue;
    const Graph::Variable& w = variables[i];
    const auto place = graph.colocate_with(w.ref.op);
    if (const auto rows = graph.rows(*gradients[i])) {
      const auto update = graph.scope(fmt::format("update_{}", w.name));
      applied.push_back(add_sparse_update(graph, optimizer, hyper, w.ref, slots[i], powers,
                                          *gradients[i], *rows));
      continue;
    }
    std::vector<Output> inputs{w.ref};
    inputs.insert(inputs.end(), slots[i].begin(), slots[i].end());
    inputs.insert(inputs.end(), powers.begin(), powers.end());
    inputs.insert(inputs.end(), hyper.begin(), hyper.end());
    inputs.push_back(*gradients[i]);
    applied.push_back(graph
                          .add({.kind = update_kind(optimizer),
                                .name = fmt::format("update_{}/{}", w.name, update_kind(optimizer)),
                                .inputs = std::move(inputs),
                                .outputs = {Bytes{}},
                                .work = update_work(optimizer, w.elements)})
                          .op);
  }
  if (adam) {  // the powers of the next step
    const auto place = graph.colocate_with(variables[0].ref.op);
    const std::vector<NodeId> updated = applied;
    for (std::size_t b = 0; b < 2; ++b) {
      const Output power = graph.add({.kind = "Mul",
                                      .name = "mul",
                                      .inputs = {betas[b].read, hyper[1 + b]},
                                      .outputs = {word},
                                      .controls = updated,
                                      .work = {.flops = 1, .traffic = 3 * word}});
      applied.push_back(graph
                            .add({.kind = "Assign",
                                  .inputs = {betas[b].ref, power},
                                  .outputs = {Bytes{}},
                                  .work = {.flops = 0, .traffic = 2 * word}})
                            .op);
    }
  }
  const NodeId all = graph.add({.kind = "NoOp", .name = "update", .controls = applied}).op;
  const auto place = graph.colocate_with(step.ref.op);
  const Output one = graph.constant("value");
  graph.add({.kind = "AssignAdd",
             .name = "AssignAdd",
             .inputs = {step.ref, one},
             .outputs = {Bytes{}},
             .controls = {all},
             .work = {.flops = 1, .traffic = 3 * word}});
}

}  // namespace baechi::generate::tf1
