#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

constexpr Duration not_measured{-1};

/// The longest common module path: "a.b" of "a.b.c" and "a.b".
std::string_view common_module(std::string_view a, std::string_view b) {
  if (a == b) return a;
  std::size_t same = 0;  // length of the common path
  for (std::size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool ends_a = i == a.size() || a[i] == '.', ends_b = i == b.size() || b[i] == '.';
    if (ends_a && ends_b) same = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) break;
  }
  return a.substr(0, same);
}

class Merging {
 public:
  Merging(const OpGraph& graph, const IdVector<OpId, Part>& parts, Workspace workspace)
      : graph_(graph),
        parts_(parts),
        workspace_(workspace),
        num_kinds_(std::max<std::size_t>(1, graph.device_kinds().size())),
        sums_(graph.num_ops()),
        times_(graph.num_ops() * num_kinds_) {
    BAECHI_CHECK(parts.size() == graph.num_ops(), "one part per op");
  }

  Transformed run() {
    for (const OpId v : graph_.ops())
      if (leader(v) != no_op) add_needs(v);
    find_inside();
    if (workspace_ == Workspace::peak) find_peaks();
    for (const OpId v : graph_.ops())
      if (leader(v) == v) add_op(v);
    for (const OpId v : graph_.ops())
      if (whole(v)) add_outputs(v);
    return built();
  }

 private:
  /// The sum over the ops of a merged op, stored at the leader.
  struct Sum {
    std::uint32_t wholes = 0;  // number of ops with Share::whole
    Bytes persistent{}, cache{};
    Bytes temporary{};
    Bytes inside{};  // live internal tensors
    std::vector<OpWork> kernels{};
    Phase phase = Phase::update;
    OpId forward = no_op;       // the first Op::forward of its ops
    std::string_view module{};  // common module
    OpId made = no_op;          // its id in the builder
  };

  OpId leader(OpId v) const { return parts_[v].leader; }
  bool whole(OpId v) const { return leader(v) != no_op && parts_[v].share == Share::whole; }
  Sum& sum_of(OpId v) { return sums_[leader(v)]; }
  Duration& time(OpId leader, std::size_t kind) {
    return times_[index(leader) * num_kinds_ + kind];
  }

  void add_needs(OpId v) {
    BAECHI_CHECK(leader(leader(v)) == leader(v) && whole(leader(v)), "'{}' is led by '{}'",
                 graph_.name(v), graph_.name(leader(v)));
    if (parts_[v].share == Share::nothing) return;
    Sum& sum = sum_of(v);
    const Op& op = graph_.op(v);
    if (parts_[v].share != Share::memory) {
      for (std::size_t k = 0; k < num_kinds_; ++k) {
        Duration& total = time(leader(v), k);
        const auto own = graph_.compute(v, k);
        total = own && total != not_measured ? total + *own : not_measured;
      }
      const auto kernels = graph_.kernels(v);
      sum.kernels.insert(sum.kernels.end(), kernels.begin(), kernels.end());
    }
    sum.persistent += op.persistent;
    sum.cache += graph_.cache(v);
    sum.temporary = std::max(sum.temporary, op.temporary);
    if (!graph_.plain()) refuse_mixing(v);
    if (!whole(v)) return;
    BAECHI_CHECK(op.group == graph_.op(leader(v)).group, "'{}' and '{}' are of two groups",
                 graph_.name(v), graph_.name(leader(v)));
    sum.module = sum.wholes == 0 ? graph_.module(v) : common_module(sum.module, graph_.module(v));
    ++sum.wholes;
    sum.phase = std::min(sum.phase, op.phase);
    if (sum.forward == no_op && op.forward != no_op && leader(op.forward) != leader(v))
      sum.forward = leader(op.forward);
  }

  /// Throws InputError if ops of different lanes, or members of collectives, would be merged.
  void refuse_mixing(OpId v) const {
    const OpId l = leader(v);
    if (l == v) return;
    const auto member = [this](OpId op) { return graph_.collective_of(op) != no_collective; };
    if (graph_.lane(l) == graph_.lane(v) && !member(l) && !member(v)) return;
    throw InputError(
        fmt::format("'{}' and '{}' cannot be merged: {}", graph_.name(l), graph_.name(v),
                    graph_.lane(l) == graph_.lane(v) ? "one is a member of a collective"
                                                     : "they are in different lanes"));
  }

  /// Whether `e` becomes an edge of the merged graph.
  bool stays(EdgeId e) const {
    const auto [src, dst, tensor] = graph_.edge(e);
    return whole(src) && whole(dst) && leader(src) != leader(dst);
  }

  /// Whether `t` is internal: read only within its merged op, which has more than one op.
  bool inside(TensorId t) const { return inside_[t]; }

  void find_inside() {
    inside_.reserve(graph_.num_tensors());
    for (const TensorId t : graph_.tensors()) {
      const OpId producer = graph_.tensor(t).producer;
      inside_.push_back(
          whole(producer) && sum_of(producer).wholes > 1 &&
          std::ranges::none_of(graph_.readers(t), [&](EdgeId e) { return stays(e); }));
    }
  }

  void find_peaks() {
    IdVector<TensorId, std::uint32_t> unread(
        graph_.num_tensors());  // internal readers that have not run
    for (const OpId v : graph_.ops()) {
      if (!whole(v) || sum_of(v).wholes < 2) continue;
      Sum& sum = sum_of(v);
      std::vector<TensorId> own;
      for (const TensorId t : graph_.outputs(v)) {
        if (!inside(t)) continue;
        own.push_back(t);
        sum.inside += graph_.tensor(t).held();
        for (const EdgeId e : graph_.readers(t)) unread[t] += whole(graph_.edge(e).dst) ? 1U : 0U;
      }
      sum.temporary = std::max(sum.temporary, sum.inside + graph_.op(v).temporary);
      for (const EdgeId e : graph_.in_edges(v)) {
        const TensorId t = graph_.edge(e).tensor;
        if (unread[t] == 0) continue;
        --unread[t];
        if (unread[t] == 0) sum.inside -= graph_.tensor(t).held();
      }
      for (const TensorId t : own)
        if (unread[t] == 0) sum.inside -= graph_.tensor(t).held();
    }
  }

  void add_op(OpId v) {
    Sum& sum = sums_[v];
    const auto& kinds = graph_.device_kinds();
    sum.made = builder_.add_op({.name = graph_.name(v),
                                .kind = graph_.kind(v),
                                .compute = kinds.empty() ? time(v, 0) : Duration::zero(),
                                .persistent = sum.persistent,
                                .temporary = sum.temporary,
                                .phase = sum.phase,
                                .lane = graph_.lanes()[index(graph_.lane(v))],
                                .module = sum.module,
                                .cache = sum.cache});
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const Duration total = time(v, k);
      builder_.set_compute(sum.made, kinds[k],
                           total == not_measured ? std::nullopt : std::optional(total));
    }
    for (const OpWork& kernel : sum.kernels) builder_.add_kernel(sum.made, kernel);
  }

  /// Adds the tensors of `v` and their readers, in the order of the graph's edges.
  void add_outputs(OpId v) {
    const Sum& sum = sum_of(v);
    std::vector<EdgeId> edges;
    for (const EdgeId e : graph_.out_edges(v))
      if (stays(e)) edges.push_back(e);
    const auto added = [this](EdgeId e) { return graph_.added(e); };
    if (!std::ranges::is_sorted(edges, {}, added)) std::ranges::sort(edges, {}, added);
    std::vector<TensorId> made;  // [as outputs(v)], ids in the builder
    for (const TensorId t : graph_.outputs(v)) {
      if (graph_.tensor(t).control) continue;  // always the last output
      if (inside(t)) {
        made.push_back(TensorId{});
        continue;
      }
      const Tensor& tensor = graph_.tensor(t);
      made.push_back(builder_.add_tensor(sum.made, tensor.size, tensor));
      if (const auto measured = graph_.measured_transfer(t))
        builder_.set_transfer(made.back(), *measured);
    }
    for (const EdgeId e : edges) {
      const auto [src, dst, tensor] = graph_.edge(e);
      if (graph_.tensor(tensor).control)
        builder_.add_control(sum.made, sum_of(dst).made);
      else
        builder_.add_edge(made[index(tensor) - index(*graph_.outputs(v).begin())],
                          sum_of(dst).made);
    }
  }

  Transformed built() {
    for (const Sum& sum : sums_)
      if (sum.made != no_op && sum.phase != Phase::forward && sum.forward != no_op)
        builder_.set_forward(sum.made, sums_[sum.forward].made);
    for (const OpId v : graph_.ops()) {
      const auto [first, number] = graph_.micro_batch(v);
      if (leader(v) == v && leader(first) != no_op && leader(first) != v)
        builder_.set_micro_batch(sums_[v].made, {sum_of(first).made, number});
    }
    add_collectives();
    IdVector<OpId, OpId> renumbered;
    OpGraph merged = std::move(builder_).build(&renumbered);
    Transformed result;
    IdVector<OpId, GroupId> group(merged.num_ops());
    for (const OpId v : graph_.ops()) {
      const OpId l = leader(v);
      result.mapped_op.push_back(l == no_op ? no_op : renumbered[sums_[l].made]);
      if (l == v) group[result.mapped_op[v]] = graph_.op(v).group;
    }
    std::vector<std::string> names;
    for (const GroupId g : graph_.groups()) names.push_back(graph_.group_name(g));
    result.graph = merged.with_groups(group, names);
    if (graph_.free_controls()) result.graph = result.graph.with_free_controls();
    return result;
  }

  void add_collectives() {
    for (const Collective& c : graph_.collectives()) {
      std::vector<OpId> members;
      for (const OpId v : c.member_ids())
        if (leader(v) != no_op) members.push_back(sums_[v].made);
      if (members.size() == c.members)
        builder_.add_collective(c, members);
      else if (!members.empty())
        throw InputError(fmt::format("the {} of '{}' cannot lose some of its members",
                                     to_text(c.kind), graph_.name(c.first)));
    }
  }

  const OpGraph& graph_;
  const IdVector<OpId, Part>& parts_;
  const Workspace workspace_;
  const std::size_t num_kinds_;
  IdVector<OpId, Sum> sums_;
  IdVector<TensorId, bool> inside_;
  std::vector<Duration> times_;  // [num_ops, num_kinds], in the leader's row
  OpGraphBuilder builder_;
};

}  // namespace

Transformed merge(const OpGraph& graph, const IdVector<OpId, Part>& parts, Workspace workspace) {
  return Merging(graph, parts, workspace).run();
}

}  // namespace baechi
