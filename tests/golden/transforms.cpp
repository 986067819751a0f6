#include "tests/golden/transforms.h"

#include "sim/transform/transform.h"

namespace baechi::golden {
namespace {

OpId op_id(std::size_t i) { return OpId{static_cast<std::uint32_t>(i)}; }

std::vector<FusionEdge> pairs(const original::Graph& graph) {
  std::vector<FusionEdge> edges;
  for (const EdgeId e : graph.edges()) edges.push_back({graph.edge(e).src, graph.edge(e).dst});
  return edges;
}

/// The tensors on some edges: no two equal in name, size and time.
json tensors_on(const std::vector<std::uint32_t>& edges, const NamedGraph& graph) {
  json tensors = json::array();
  for (const std::uint32_t e : edges) {
    for (const original::Graph::Send& s : graph.graph.sends(EdgeId{e})) {
      const json tensor{graph.tensors[index(s.tensor)], s.size.count, us(s.time)};
      if (std::ranges::find(tensors, tensor) == tensors.end()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

/// Sizes by tensor name, as first met; of one name the last.
json sizes_of(const json& tensors) {
  std::vector<std::pair<json, json>> outputs;
  for (const json& tensor : tensors) {
    const auto known = std::ranges::find(outputs, tensor[0], &std::pair<json, json>::first);
    if (known == outputs.end())
      outputs.emplace_back(tensor[0], tensor[1]);
    else
      known->second = tensor[1];
  }
  json sizes = json::array();
  for (const auto& [name, size] : outputs) sizes.push_back(size);
  return sizes;
}

}  // namespace

std::vector<std::string> coplaced_groups(const std::vector<std::vector<std::string>>& labels,
                                         const std::vector<FusionEdge>& edges) {
  OpGraphBuilder builder;
  for (std::size_t v = 0; v < labels.size(); ++v) {
    const OpId op = builder.add_op({.name = std::to_string(v)});
    for (const std::string& label : labels[v]) builder.colocate(op, label);
  }
  for (const FusionEdge& e : edges) {
    if (index(e.src) >= labels.size() || index(e.dst) >= labels.size())
      throw InputError(fmt::format("no such edge: {} -> {}", index(e.src), index(e.dst)));
    builder.add_control(e.src, e.dst);
  }
  IdVector<OpId, OpId> renumbered;
  const OpGraph graph = std::move(builder).build(&renumbered);
  const OpGraph grouped =
      make_transform("coplace", Options("coplace"))->apply(graph).graph;  // ids are kept
  std::vector<std::string> names;
  for (const OpId v : renumbered) {
    const GroupId g = grouped.op(v).group;
    names.push_back(g == no_group ? "" : grouped.group_name(g));
  }
  return names;
}

std::vector<std::string> coplaced_groups(const GoldenGraph& graph) {
  std::vector<std::vector<std::string>> labels;
  for (const GoldenOp& op : graph.ops) labels.push_back(op.labels);
  std::vector<FusionEdge> edges;
  for (const GoldenRead& r : graph.reads) edges.push_back({op_id(r.src), op_id(r.dst)});
  return coplaced_groups(labels, edges);
}

json fused_record(const GoldenGraph& golden, const NamedGraph& grouped, const FusionRules& rules) {
  const original::Graph& graph = grouped.graph;
  IdVector<OpId, GroupId> group;
  for (const OpId v : graph.ops()) group.push_back(graph.op(v).group);
  Fusion::Outputs outputs;
  const Fusion fusion(group, pairs(graph), rules, &outputs);

  IdVector<OpId, std::size_t> id(graph.num_ops());
  std::size_t num_ops = 0;
  for (const OpId v : graph.ops())
    if (fusion.leader(v) == v) id[v] = num_ops++;
  json nodes = json::array(), edges = json::array();
  for (const OpId v : graph.ops()) {
    if (fusion.leader(v) != v) continue;
    original::Graph::Op sum = graph.op(v);
    json members = json::array();
    for (const OpId s : fusion.swallowed(v)) {
      members.push_back(index(s));
      sum.compute += graph.op(s).compute;
      sum.persistent += graph.op(s).persistent;
      sum.temporary = std::max(sum.temporary, graph.op(s).temporary);
    }
    for (const Fusion::Link& link : fusion.out_links(v)) {
      const json tensors = tensors_on(link.edges, grouped);
      std::int64_t weight = 0;
      for (const json& tensor : tensors) weight += tensor[2].get<std::int64_t>();
      edges.push_back({{"id", edges.size()},
                       {"src", id[v]},
                       {"dst", id[link.dst]},
                       {"weight", weight},
                       {"tensors", tensors}});
    }
    nodes.push_back({{"id", id[v]},
                     {"old_id", index(v)},
                     {"members", members},
                     {"compute_us", us(sum.compute)},
                     {"temp_bytes", sum.temporary.count},
                     {"persistent_bytes", sum.persistent.count},
                     {"output_bytes", members.empty() ? json(golden.ops[index(v)].outputs)
                                                      : sizes_of(tensors_on(outputs[v], grouped))},
                     {"topo_order", sum.topo},
                     {"group", grouped.group_names[index(sum.group)]}});
  }
  return {{"num_ops", num_ops},
          {"num_edges", edges.size()},
          {"nodes", std::move(nodes)},
          {"edges", std::move(edges)}};
}

FusionKey fusion_key(const std::string& key) {
  FusionKey result{.grouper = key.substr(0, key.find(':')), .rules = {.requeue = false}};  // Q24
  for (std::size_t at = key.find(':'); at != std::string::npos; at = key.find(':', at + 1)) {
    const std::string rule = key.substr(at + 1, key.find(':', at + 1) - at - 1);
    if (rule == "disjoint" || rule == "disjoint=1")
      result.rules.disjoint_paths = true;
    else if (rule == "cycle=1")
      result.rules.allow_cycle = true;
    else if (rule != "disjoint=0" && rule != "cycle=0")
      throw InputError(fmt::format("no rule '{}' of fusion", rule));
  }
  return result;
}

}  // namespace baechi::golden
