/// The transforms that are a few lines each.
#include "sim/transform/graph_copy.h"
#include "sim/transform/grouping/fusion.h"

namespace baechi {

/// Drops ops that have no edge. Source: Baechi's code, which does so when it reads a graph.
std::unique_ptr<Transform> make_prune(Options& /*o*/) {
  return transform_of([](const OpGraph& graph) {
    IdVector<OpId, Part> parts;
    parts.reserve(graph.num_ops());
    for (const OpId v : graph.ops()) {
      const bool dangling = graph.in_edges(v).empty() && graph.out_edges(v).empty();
      parts.push_back({.leader = dangling ? no_op : v});
    }
    return merge(graph, parts);
  });
}

/// Sets the cost of a control dependency between two devices. TensorFlow sends it like a tensor of
/// 4 bytes, which takes the latency and a channel (Q19 in placers/README.md). If free, it is known
/// on all devices as soon as its op has ended.
std::unique_ptr<Transform> make_control_edges(Options& o) {
  const bool free =
      o.get("as", {"cost", "free"},
            "cost: sent between devices as 4 bytes; free: known everywhere at once") == "free";
  return transform_of(
      [free](const OpGraph& graph) { return same_ops(free ? graph.with_free_controls() : graph); });
}

/// Colocates the ops of each module, and with them the groups that they were in. A module of depth
/// 2 is named by the first two parts of a path: "layer1.0" of "layer1.0.conv1"; an op of a
/// shallower module is in the group of that module. Ops without a module are unchanged.
std::unique_ptr<Transform> make_by_module(Options& o) {
  const std::int64_t depth =
      o.get("depth", std::int64_t{0},
            "number of parts of a module's path that identify a group; 0: the whole path");
  const auto beginning = [depth](std::string_view path) {
    std::size_t end = path.size();
    std::int64_t parts = 0;
    for (std::size_t i = 0; i < path.size() && end == path.size(); ++i)
      if (path[i] == '.' && ++parts == depth) end = i;
    return path.substr(0, end);
  };
  return transform_of([beginning](const OpGraph& graph) {
    GroupSets sets(graph);
    std::map<std::string_view, OpId> first;  // of each module
    for (const OpId v : graph.ops()) {
      const std::string_view path = graph.module(v);
      if (path.empty()) continue;
      const auto [known, fresh] = first.try_emplace(beginning(path), v);
      if (!fresh) sets.join(v, known->second);
    }
    return same_ops(sets.regrouped());
  });
}

/// Co-placement: an op that exactly one other op reads joins the group of that op. Merging groups
/// changes no op's readers, so one pass reaches the fixed point.
/// Source: Baechi (SoCC'20), section 3.1.
std::unique_ptr<Transform> make_coplace(Options& o) {
  const bool control_edges = o.get(
      "control_edges", true, "an op that waits for another by a control edge counts as its reader");
  const auto only_reader = [control_edges](const OpGraph& graph, OpId v) {
    std::optional<OpId> reader;
    for (const EdgeId e : graph.out_edges(v)) {
      const Edge& edge = graph.edge(e);
      if (!control_edges && graph.tensor(edge.tensor).control) continue;
      if (reader && *reader != edge.dst) return std::optional<OpId>();
      reader = edge.dst;
    }
    return reader;
  };
  return transform_of([only_reader](const OpGraph& graph) {
    GroupSets sets(graph);
    for (const OpId v : graph.ops())
      if (const auto reader = only_reader(graph, v)) sets.join(v, *reader);
    return same_ops(sets.regrouped());
  });
}

/// Baechi's preprocessing: colocate, forward_only, coplace, fuse, each optional, in this order.
/// Source: Baechi (SoCC'20), section 3.1.
std::unique_ptr<Transform> make_baechi(Options& o) {
  const bool colocate = o.get("colocate", true, "groups by TensorFlow's rules");
  const bool forward_only = o.get("forward_only", true, "place forward ops alone");
  const bool coplace = o.get("coplace", true, "ops with one reader go where it goes");
  const bool fuse = o.get("fuse", true, "neighbours of one group become one op");
  const bool force = o.get("force", false, "of forward_only");
  const bool compat = o.get("compat", false, "of fuse");
  std::vector<std::shared_ptr<const Transform>> parts;
  const auto add = [&parts](const std::string& name, const std::string& key, bool value) {
    Options options(name);
    if (!key.empty()) options.set(key, {value ? "true" : "false", "", {}});
    parts.push_back(make_transform(name, std::move(options)));
  };
  if (colocate) add("colocate", "", false);
  if (forward_only) add("forward_only", "force", force);
  if (coplace) add("coplace", "", false);
  if (fuse) add("fuse", "compat", compat);
  return transform_of([parts](const OpGraph& graph) {
    Transformed result = same_ops(graph);
    for (const auto& part : parts) result = then(std::move(result), *part);
    return result;
  });
}

}  // namespace baechi
