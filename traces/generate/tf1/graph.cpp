#include "traces/generate/tf1/graph.h"

namespace baechi::generate::tf1 {

std::string Graph::unique(std::string_view name) {
  std::string full = state_.prefix + std::string(name);
  const int before = names_[full]++;
  return before == 0 ? full : unique(fmt::format("{}_{}", name, before));
}

Output Graph::add(const NodeSpec& spec) {
  const auto id = static_cast<NodeId>(ops_.size());
  Node node{.name = unique(spec.name.empty() ? spec.kind : spec.name),
            .kind = spec.kind,
            .inputs = spec.inputs,
            .outputs = spec.outputs,
            .controls = spec.controls,
            .work = spec.work,
            .temporary = spec.temporary,
            .over_input = spec.over_input,
            .phase = state_.phase,
            .forward = state_.forward,
            .groups = state_.groups};
  constexpr std::array<std::string_view, 5> views{"Reshape", "Squeeze", "ExpandDims", "Identity",
                                                  "PreventGradient"};
  if (std::ranges::find(views, spec.kind) != views.end()) node.over_input = 0;
  if (node.groups.empty()) node.groups = {id};
  ops_.push_back(std::move(node));
  return {id, 0};
}

Graph::Scope Graph::scope(std::string_view name) {
  State inner = state_;
  inner.prefix = unique(name) + '/';
  return {*this, std::move(inner)};
}

Graph::Scope Graph::colocate_with(NodeId op, bool alone) {
  State inner = state_;
  if (alone) inner.groups.clear();
  for (const NodeId group : ops_[op].groups) {
    if (std::ranges::find(inner.groups, group) == inner.groups.end()) inner.groups.push_back(group);
  }
  return {*this, std::move(inner)};
}

Graph::Scope Graph::apart() {
  State inner = state_;
  inner.groups.clear();
  return {*this, std::move(inner)};
}

Graph::Scope Graph::backward_of(NodeId forward, bool together) {
  State inner = state_;
  if (together) inner.groups = ops_[forward].groups;
  inner.phase = Phase::backward;
  inner.forward = forward;
  return {*this, std::move(inner)};
}

std::optional<Output> Graph::rows(Output gradient) const {
  const auto it = std::ranges::find(rows_, gradient, &std::pair<Output, Output>::first);
  return it == rows_.end() ? std::nullopt : std::optional(it->second);
}

Graph::Scope Graph::updates() {
  State inner = state_;
  inner.phase = Phase::update;
  return {*this, std::move(inner)};
}

/// Source: ops/init_ops.py. Zeros and ones of fewer than 1000 elements are a constant, of more a
/// Fill (ops/array_ops.py).
Output Graph::initial_value(const std::string& path, std::int64_t n, Initializer initializer) {
  const auto op = [&](std::string_view kind, std::string_view what,
                      std::vector<Output> inputs = {}) {
    return add({.kind = kind,
                .name = fmt::format("{}/Initializer/{}", path, what),
                .inputs = std::move(inputs),
                .outputs = {Bytes{}}});
  };
  Output value;
  switch (initializer) {
    case Initializer::zeros:
    case Initializer::ones: {
      const std::string_view what = initializer == Initializer::zeros ? "zeros" : "ones";
      if (n < 1000) {
        value = op("Const", what);
      } else {
        const Output shape = op("Const", fmt::format("{}/shape_as_tensor", what));
        const Output fill = op("Const", fmt::format("{}/Const", what));
        value = op("Fill", what, {shape, fill});
      }
      break;
    }
    case Initializer::constant:
      value = op("Const", "Const");
      break;
    case Initializer::truncated_normal: {
      const Output shape = op("Const", "truncated_normal/shape");
      const Output mean = op("Const", "truncated_normal/mean");
      const Output deviation = op("Const", "truncated_normal/stddev");
      const Output random = op("TruncatedNormal", "truncated_normal/TruncatedNormal", {shape});
      const Output scaled = op("Mul", "truncated_normal/mul", {random, deviation});
      value = op("Add", "truncated_normal", {scaled, mean});
      break;
    }
    case Initializer::uniform: {
      const Output shape = op("Const", "random_uniform/shape");
      const Output least = op("Const", "random_uniform/min");
      const Output most = op("Const", "random_uniform/max");
      const Output random = op("RandomUniform", "random_uniform/RandomUniform", {shape});
      const Output range = op("Sub", "random_uniform/sub", {most, least});
      const Output scaled = op("Mul", "random_uniform/mul", {random, range});
      value = op("Add", "random_uniform", {scaled, least});
      break;
    }
  }
  return value;
}

/// Source: ops/variables.py.
Graph::Variable Graph::variable(std::string_view name, std::int64_t elements,
                                Initializer initializer) {
  State inner = state_;
  inner.prefix.clear();
  const Scope unscoped(*this, std::move(inner));
  const std::string path = unique(name);
  const std::size_t first = ops_.size();
  const Output value = initial_value(path, elements, initializer);
  const auto variable = static_cast<NodeId>(ops_.size());
  std::vector<NodeId> groups = state_.groups;
  if (groups.empty()) groups = {variable};
  ops_.push_back({.name = path,
                  .kind = "VariableV2",
                  .inputs = {},
                  .outputs = {bytes_of(elements)},
                  .controls = {},
                  .persistent = bytes_of(elements),
                  .reference = true,
                  .phase = state_.phase,
                  .forward = state_.forward,
                  .groups = groups});
  for (std::size_t i = first; i < index(variable); ++i)
    ops_[static_cast<NodeId>(i)].groups = groups;
  const Scope together = colocate_with(variable);
  const Output ref{variable, 0};
  add({.kind = "Assign", .name = path + "/Assign", .inputs = {ref, value}, .outputs = {Bytes{}}});
  const Output read = add({.kind = "Identity",
                           .name = path + "/read",
                           .inputs = {ref},
                           .outputs = {bytes_of(elements)}});
  ops_[read.op].reference = true;
  return {.ref = ref, .read = read, .elements = elements, .name = path};
}

IdVector<NodeId, bool> Graph::stop_all_but(std::optional<NodeId> fetch) {
  IdVector<NodeId, bool> needed(ops_.size(), !fetch);
  if (!fetch) return needed;
  needed[*fetch] = true;
  for (std::size_t i = ops_.size(); i-- > 0;) {  // an op comes after the ops that it reads
    Node& n = ops_[static_cast<NodeId>(i)];
    if (!needed[static_cast<NodeId>(i)]) {
      n.work = {};
      n.temporary = {};
      std::ranges::fill(n.outputs, Bytes{});
      continue;
    }
    for (const Output t : n.inputs) needed[t.op] = true;
    for (const NodeId before : n.controls) needed[before] = true;
  }
  return needed;
}

IdVector<NodeId, std::vector<bool>> Graph::passed_on(const IdVector<NodeId, bool>& running) const {
  IdVector<NodeId, std::vector<int>> readers(ops_.size());
  IdVector<NodeId, std::vector<bool>> result(ops_.size());
  for (const NodeId v : ops_.ids()) {
    readers[v].assign(ops_[v].outputs.size(), 0);
    result[v].assign(ops_[v].outputs.size(), false);
    if (!running[v]) continue;
    for (const Output t : ops_[v].inputs) ++readers[t.op][t.port];
  }
  for (const NodeId v : ops_.ids()) {
    const Node& n = ops_[v];
    if (n.over_input < 0 || !running[v]) continue;
    const Output t = n.inputs[static_cast<std::size_t>(n.over_input)];
    if (readers[t.op][t.port] == 1 && size(t) == n.outputs.back()) result[t.op][t.port] = true;
  }
  return result;
}

std::string Graph::module_of(NodeId op) const {
  const Node& n = ops_[op];
  if (n.phase == Phase::backward && n.forward != op) return module_of(n.forward);
  if (n.phase == Phase::update && n.groups.front() != op) return module_of(n.groups.front());
  const std::size_t end = n.name.rfind('/');
  return end == std::string::npos ? "" : module_path(std::string_view(n.name).substr(0, end));
}

OpGraph Graph::build(std::optional<NodeId> fetch) && {
  const IdVector<NodeId, std::vector<bool>> passed = passed_on(stop_all_but(fetch));
  OpGraphBuilder builder;
  IdVector<NodeId, std::vector<TensorId>> tensors(ops_.size());
  for (const NodeId v : ops_.ids()) {
    const Node& n = ops_[v];
    const OpId id = builder.add_op({.name = n.name,
                                    .kind = n.kind,
                                    .persistent = n.persistent,
                                    .temporary = n.temporary,
                                    .phase = n.phase,
                                    .module = module_of(v)});
    builder.add_kernel(id, n.work);
    if (n.phase == Phase::backward) builder.set_forward(id, static_cast<OpId>(index(n.forward)));
    for (std::size_t port = 0; port < n.outputs.size(); ++port) {
      tensors[v].push_back(builder.add_tensor(id, n.outputs[port], n.reference || passed[v][port]));
    }
    for (const NodeId group : n.groups) builder.colocate(id, ops_[group].name);
  }
  for (const NodeId v : ops_.ids()) {
    const auto id = static_cast<OpId>(index(v));
    for (const Output t : ops_[v].inputs) builder.add_edge(tensors[t.op][t.port], id);
    for (const NodeId before : ops_[v].controls)
      builder.add_control(static_cast<OpId>(index(before)), id);
  }
  return std::move(builder).build();
}

Output Writer::variable(VariableId w) {
  auto& known = variables[w];
  if (!known) {
    const Variable& v = model.variable(w);
    known = graph.variable(v.name, elements(v.shape), v.initializer);
  }
  return known->read;
}

namespace {

/// The input pipeline. Only its iterator runs in a step; the ops for the data and for how often to
/// repeat them are in the graph, too. Source: data/ops/{dataset,iterator}_ops.py.
void write_inputs(Writer& m) {
  const auto scope = m.graph.scope("dataset");
  std::vector<Bytes> sizes;
  for (const ValueId v : m.model.values()) {
    if (m.model.value(v).producer) continue;
    m.graph.constant(fmt::format("tensors/component_{}", sizes.size()), Bytes{});
    m.values[v].port = static_cast<std::uint32_t>(sizes.size());
    sizes.push_back(m.model.value(v).size());
  }
  m.graph.constant("count", Bytes{});
  const Output iterator = m.graph.add({.kind = "OneShotIterator", .outputs = {word}});
  m.graph.add({.kind = "IteratorToStringHandle", .inputs = {iterator}, .outputs = {word}});
  const Output next =
      m.graph.add({.kind = "IteratorGetNext", .inputs = {iterator}, .outputs = sizes});
  for (const ValueId v : m.model.values())
    if (!m.model.value(v).producer) m.values[v].op = next.op;
}

/// Throws InputError if level tf1 does not have this kind of layer.
const LayerWriter& rule_for(const Model& model, LayerKind kind) {
  for (const auto rules : {image_layers(), sequence_layers()}) {
    for (const LayerWriter& rule : rules)
      if (rule.kind == kind) return rule;
  }
  throw InputError(fmt::format("{}: level tf1 has no ops for {}; level module has one",
                               model.name(), to_text(kind)));
}

}  // namespace

OpGraph op_graph(const Model& model, const Expansion& options) {
  Graph graph;
  Writer m{
      .graph = graph,
      .model = model,
      .values = IdVector<ValueId, Output>(model.values().size()),
      .variables = IdVector<VariableId, std::optional<Graph::Variable>>(model.variables().size())};
  write_inputs(m);
  for (const LayerId l : model.layers()) {
    const Layer& layer = model.layer(l);
    const auto scope = graph.scope(layer.name);
    rule_for(model, layer.kind).write(m, layer);
  }
  const std::optional<NodeId> loss = m.loss ? std::optional(m.loss->op) : std::nullopt;
  if (!options.training) return std::move(graph).build(loss);
  BAECHI_CHECK(m.loss, "{} has no loss", model.name());
  std::vector<Graph::Variable> trained;
  for (const VariableId w : model.variables())
    if (const auto& v = m.variables[w]; v && model.variable(w).trainable) trained.push_back(*v);
  const Sent gradients = gradients_of(graph, *m.loss, trained, options.kernels.colocate_gradients);
  add_updates(graph, options.optimizer, trained, gradients);
  if (options.optimizer == Optimizer::none) return std::move(graph).build(std::nullopt);
  const auto train_op = static_cast<NodeId>(graph.ops().size() - 1);
  return std::move(graph).build(train_op);
}

}  // namespace baechi::generate::tf1
