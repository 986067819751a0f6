#include "tests/golden/graph.h"

#include "sim/error.h"

namespace baechi::golden {
namespace {

OpId op_id(std::size_t i) { return OpId{static_cast<std::uint32_t>(i)}; }

Duration from_microseconds(std::int64_t us) { return std::chrono::microseconds(us); }

/// Numbers for names, in order of first use.
class Interned {
 public:
  explicit Interned(std::vector<std::string>& names) : names_(names) {
    for (const std::string& name : names) ids_.try_emplace(name, ids_.size());
  }
  std::uint32_t operator()(const std::string& name) {
    const auto [it, fresh] = ids_.try_emplace(name, names_.size());
    if (fresh) names_.push_back(name);
    return static_cast<std::uint32_t>(it->second);
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, std::size_t> ids_;
};

void check_read(const GoldenRead& r, std::size_t num_ops) {
  if (r.src >= num_ops || r.dst >= num_ops || r.src == r.dst || r.us < 0)
    throw InputError(
        fmt::format("no such edge among {} ops: {} -> {}, {} us", num_ops, r.src, r.dst, r.us));
}

/// Throws InputError on a cycle: its ops are left without a number, as only the first may be.
void check_acyclic(const original::Graph& graph) {
  std::size_t zeros = 0;
  for (const OpId v : graph.ops()) zeros += graph.op(v).topo == 0 ? 1U : 0U;
  if (zeros > 1) throw InputError("the graph has a cycle");
}

GoldenOp read_op(const json& op) {
  return {.name = at(op, "name").get<std::string>(),
          .compute_us = at(op, "compute_us").get<std::int64_t>(),
          .temporary = at(op, "temp_bytes").get<std::int64_t>(),
          .persistent = at(op, "persistent_bytes").get<std::int64_t>(),
          .outputs = at(op, "output_bytes").get<std::vector<std::int64_t>>(),
          .labels = at(op, "colocation_group").get<std::vector<std::string>>()};
}

original::Graph::Op baechi_op(const GoldenOp& op, std::uint32_t group) {
  if (op.compute_us < 0) throw InputError(fmt::format("op '{}': negative time", op.name));
  Bytes outputs;
  for (const std::int64_t port : op.outputs) outputs += Bytes{port};
  return {.compute = from_microseconds(op.compute_us),
          .temporary = Bytes{op.temporary},
          .persistent = Bytes{op.persistent},
          .outputs = outputs,
          .group = GroupId{group}};
}

}  // namespace

GoldenGraph read_graph(const json& file) {
  GoldenGraph graph{.devices = at(file, "devices").get<std::size_t>(), .ops = {}, .reads = {}};
  if (graph.devices == 0) throw InputError("no devices");
  for (const json& op : at(file, "ops")) graph.ops.push_back(read_op(op));
  for (const json& edge : at(file, "edges")) {
    graph.reads.push_back({.src = at(edge, "src").get<std::size_t>(),
                           .dst = at(edge, "dst").get<std::size_t>(),
                           .tensor = at(edge, "tensor").get<std::string>(),
                           .bytes = at(edge, "bytes").get<std::int64_t>(),
                           .us = at(edge, "comm_us").get<std::int64_t>()});
    check_read(graph.reads.back(), graph.ops.size());
  }
  return graph;
}

NamedGraph named_graph(const GoldenGraph& graph, const std::vector<std::string>& group_of) {
  std::vector<std::string> tensors;
  std::vector<std::string> group_names{"(none)\n"};  // no_group, which no op is in
  Interned tensor_ids(tensors);
  Interned group_ids(group_names);
  IdVector<OpId, original::Graph::Op> ops;
  for (std::size_t v = 0; v < graph.ops.size(); ++v)
    ops.push_back(baechi_op(graph.ops[v], group_ids(group_of.at(v))));
  std::vector<original::Graph::Read> reads;
  for (const GoldenRead& r : graph.reads)
    reads.push_back({op_id(r.src),
                     op_id(r.dst),
                     {.tensor = TensorId{tensor_ids(r.tensor)},
                      .size = Bytes{r.bytes},
                      .time = from_microseconds(r.us)}});
  original::Graph made(std::move(ops), reads);
  check_acyclic(made);
  return {std::move(made), std::move(tensors), std::move(group_names)};
}

FusedGraph read_fused(const json& record) {
  GoldenGraph graph;
  std::vector<std::string> group_of;
  std::vector<std::uint32_t> topo;
  std::vector<std::vector<std::size_t>> members;
  for (const json& node : at(record, "nodes")) {
    graph.ops.push_back({.name = "",
                         .compute_us = at(node, "compute_us").get<std::int64_t>(),
                         .temporary = at(node, "temp_bytes").get<std::int64_t>(),
                         .persistent = at(node, "persistent_bytes").get<std::int64_t>(),
                         .outputs = at(node, "output_bytes").get<std::vector<std::int64_t>>(),
                         .labels = {}});
    group_of.push_back(at(node, "group").get<std::string>());
    topo.push_back(at(node, "topo_order").get<std::uint32_t>());
    members.push_back(at(node, "members").get<std::vector<std::size_t>>());
    members.back().push_back(at(node, "old_id").get<std::size_t>());
  }
  for (const json& edge : at(record, "edges")) {
    for (const json& tensor : at(edge, "tensors"))
      graph.reads.push_back({.src = at(edge, "src").get<std::size_t>(),
                             .dst = at(edge, "dst").get<std::size_t>(),
                             .tensor = tensor.at(0).get<std::string>(),
                             .bytes = tensor.at(1).get<std::int64_t>(),
                             .us = tensor.at(2).get<std::int64_t>()});
  }
  for (const GoldenRead& r : graph.reads) check_read(r, graph.ops.size());
  NamedGraph named = named_graph(graph, group_of);
  // Q13: a fused op keeps the number of the op it began with.
  IdVector<OpId, original::Graph::Op> ops;
  for (const OpId v : named.graph.ops()) {
    ops.push_back(named.graph.op(v));
    ops[v].topo = topo[index(v)];
  }
  std::vector<original::Graph::Read> reads;
  for (const EdgeId e : named.graph.edges()) {
    for (const original::Graph::Send& s : named.graph.sends(e))
      reads.push_back({named.graph.edge(e).src, named.graph.edge(e).dst, s});
  }
  named.graph = original::Graph(std::move(ops), reads, true);
  return {std::move(named), std::move(members)};
}

std::vector<std::string> tf_groups(const std::vector<std::vector<std::string>>& labels) {
  OpGraphBuilder builder;
  for (std::size_t v = 0; v < labels.size(); ++v) {
    const OpId op = builder.add_op({.name = std::to_string(v)});
    for (const std::string& label : labels[v]) builder.colocate(op, label);
  }
  const OpGraph graph = std::move(builder).build();  // no edges: ids are kept
  std::vector<std::string> names;
  for (const OpId v : graph.ops()) {
    const GroupId g = graph.op(v).group;
    names.push_back(g == no_group ? "" : graph.group_name(g));
  }
  return names;
}

std::vector<std::string> tf_groups(const GoldenGraph& graph) {
  std::vector<std::vector<std::string>> labels;
  for (const GoldenOp& op : graph.ops) labels.push_back(op.labels);
  return tf_groups(labels);
}

}  // namespace baechi::golden
