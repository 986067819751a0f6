#include <cmath>
#include <tuple>

#include "sim/transform/grouping/fusion.h"
#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

enum class MergeBy : std::uint8_t { all, chain, layer, group };
constexpr auto names_of(MergeBy) {
  return std::to_array<Named<MergeBy>>(
      {{MergeBy::all, "all", "all selected ops"},
       {MergeBy::chain, "chain", "neighbours without another path between them"},
       {MergeBy::layer, "layer", "ops of one module and phase"},
       {MergeBy::group, "group", "ops of one colocation group"}});
}

enum class MergedTime : std::uint8_t { sum, max, least, work };
constexpr auto names_of(MergedTime) {
  return std::to_array<Named<MergedTime>>(
      {{MergedTime::sum, "sum"},
       {MergedTime::max, "max"},
       {MergedTime::least, "least", "the least above 0"},
       {MergedTime::work, "work", "of one kernel without traffic of internal tensors"}});
}

namespace {

/// A partition of the ops into merged ops, each named by its leader.
struct Merged {
  IdVector<OpId, OpId> leader;         // [num_ops]
  IdVector<OpId, std::uint32_t> size;  // [num_ops], valid at leaders
};

/// Merges ops (sim/transform/merge.h) within a lane, and after placing within a device.
///   time work: one kernel with all flops. Its traffic is the sum without reads of internal
///     tensors, and without writes that no other op reads. Without work: the time of memory-bound
///     ops is reduced in proportion to the bytes saved.
class Merge final : public Verb {
 public:
  explicit Merge(Options& o)
      : by_(read_enum(o, "by", MergeBy::all, "which ops are merged")),
        time_(read_enum(o, "time", MergedTime::sum, "time of a merged op")) {}

  bool needs_times() const override {
    return time_ == MergedTime::max || time_ == MergedTime::least;
  }

  Change apply(const Scope& scope, const Selection& selected) const override {
    const OpGraph& graph = scope.graph();
    const Merged sets =
        by_ == MergeBy::chain ? chains(scope.step, selected) : by_key(scope.step, selected);
    IdVector<OpId, Part> parts;
    for (const OpId v : graph.ops()) parts.push_back({.leader = sets.leader[v]});
    Transformed merged = merge(in_common_groups(scope.step, sets), parts);
    Change change{.graph = std::move(merged.graph), .mapped_op = std::move(merged.mapped_op)};
    change.anchor.assign(change.graph.num_ops(), OpId{});
    for (const OpId v : graph.ops())
      if (sets.leader[v] == v) change.anchor[change.mapped_op[v]] = v;
    if (needs_times()) change = with_one_of(graph, sets, std::move(change));
    if (time_ == MergedTime::work) change = with_one_kernel(scope, sets, std::move(change));
    return change;
  }

 private:
  Merged by_key(const Step& step, const Selection& selected) const {
    using Key = std::tuple<DeviceId, LaneKind, std::string_view, Phase, GroupId>;
    const OpGraph& graph = step.graph;
    std::map<Key, OpId> first;
    Merged sets{.leader = {}, .size = IdVector<OpId, std::uint32_t>(graph.num_ops())};
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      const bool layer = by_ == MergeBy::layer, group = by_ == MergeBy::group;
      const bool alone =
          !selected[v] || (layer && graph.module(v).empty()) || (group && op.group == no_group);
      const OpId leader =
          alone ? v
                : first
                      .try_emplace(
                          {step.device_of(v), op.lane, layer ? graph.module(v) : std::string_view(),
                           layer ? op.phase : Phase::forward, group ? op.group : no_group},
                          v)
                      .first->second;
      sets.leader.push_back(leader);
      ++sets.size[leader];
    }
    return sets;
  }

  static Merged chains(const Step& step, const Selection& selected) {
    const OpGraph& graph = step.graph;
    std::map<std::pair<DeviceId, LaneKind>, GroupId> kinds;
    IdVector<OpId, GroupId> group(graph.num_ops(), no_group);
    for (const OpId v : graph.ops())
      if (selected[v] && graph.collective_of(v) == no_collective)
        group[v] = kinds
                       .try_emplace({step.device_of(v), graph.lane(v)},
                                    static_cast<GroupId>(kinds.size() + 1))
                       .first->second;
    std::vector<FusionEdge> pairs;
    for (const OpId v : graph.ops()) {
      OpId last = no_op;
      for (const EdgeId e : graph.out_edges(v)) {
        const OpId dst = graph.edge(e).dst;
        if (dst != last) pairs.push_back({v, dst});
        last = dst;
      }
    }
    const Fusion fusion(group, pairs, {.disjoint_paths = true});
    Merged sets{.leader = {}, .size = IdVector<OpId, std::uint32_t>(graph.num_ops())};
    for (const OpId v : graph.ops()) {
      sets.leader.push_back(fusion.leader(v));
      ++sets.size[fusion.leader(v)];
    }
    return sets;
  }

  /// Ops to be merged must be in one group; after placing, groups have no meaning and are dropped.
  static OpGraph in_common_groups(const Step& step, const Merged& sets) {
    if (step.placed()) return step.graph.without_groups();
    GroupSets groups(step.graph);
    for (const OpId v : step.graph.ops())
      if (sets.leader[v] != v) groups.join(sets.leader[v], v);
    return groups.regrouped();
  }

  /// Composes `change` with `copying`, a changed copy of its graph.
  static Change copied(Copying&& copying, Change change) {
    Change second = std::move(copying).whole();
    for (OpId& v : change.mapped_op)
      if (v != no_op) v = second.mapped_op[v];
    for (OpId& v : second.anchor) v = change.anchor[v];
    second.mapped_op = std::move(change.mapped_op);
    return second;
  }

  /// Gives merged ops the longest time of their parts, or the least above 0.
  Change with_one_of(const OpGraph& graph, const Merged& sets, Change change) const {
    const std::size_t kinds = std::max<std::size_t>(1, graph.device_kinds().size());
    std::vector<IdVector<OpId, Duration>> one(kinds,
                                              IdVector<OpId, Duration>(change.graph.num_ops()));
    for (const OpId v : graph.ops())
      for (std::size_t k = 0; k < kinds; ++k) {
        Duration& chosen = one[k][change.mapped_op[v]];
        const Duration time = graph.compute(v, k).value_or(Duration{});
        const bool less = time > Duration{} && time < chosen;
        if (chosen == Duration{} || (time_ == MergedTime::max ? time > chosen : less))
          chosen = time;
      }
    const OpGraph merged = change.graph;
    Copying copying(merged);
    copying.retime = [&](OpId v, Duration time, std::size_t k) {
      return sets.size[change.anchor[v]] > 1 ? one[k][v] : time;
    };
    return copied(std::move(copying), change);
  }

  /// Bytes of reads and writes that merging saves, at the leaders. [num_ops]
  static IdVector<OpId, Bytes> saved_bytes(const OpGraph& graph, const Merged& sets) {
    IdVector<OpId, Bytes> saved(graph.num_ops());
    for (const TensorId t : graph.tensors()) {
      const Tensor& tensor = graph.tensor(t);
      const OpId leader = sets.leader[tensor.producer];
      if (tensor.control || sets.size[leader] < 2) continue;
      bool outside = false;
      int inside = 0;
      for (const EdgeId e : graph.readers(t)) {
        const bool same = sets.leader[graph.edge(e).dst] == leader;
        inside += same ? 1 : 0;
        outside = outside || !same;
      }
      if (inside > 0) saved[leader] += (inside + (outside ? 0 : 1)) * tensor.size;
    }
    return saved;
  }

  static Change with_one_kernel(const Scope& scope, const Merged& sets, Change change) {
    const OpGraph& graph = scope.graph();
    const IdVector<OpId, Bytes> saved = saved_bytes(graph, sets);
    const IdVector<OpId, double> left = time_left(scope, sets, saved);
    const OpGraph merged = change.graph;
    Copying copying(merged);
    OpId last = no_op;
    const auto grew = [&](OpId v) { return sets.size[change.anchor[v]] > 1; };
    copying.rework = [&](OpId v, OpWork kernel) {
      if (!grew(v)) return kernel;
      if (v == last) return OpWork{};  // only the first of its kernels stays
      last = v;
      OpWork all = merged.work(v);
      all.traffic = std::max(all.weights, all.traffic - saved[change.anchor[v]]);
      return all;
    };
    copying.retime = [&](OpId v, Duration time, std::size_t) {
      if (!grew(v)) return time;
      return Duration{
          saturated(std::round(left[change.anchor[v]] * static_cast<double>(time.count())))};
    };
    return copied(std::move(copying), change);
  }

  /// For merged ops without work: the remaining fraction of the time, at the leaders. [num_ops]
  static IdVector<OpId, double> time_left(const Scope& scope, const Merged& sets,
                                          const IdVector<OpId, Bytes>& saved) {
    const OpGraph& graph = scope.graph();
    const IdVector<OpId, Bound> bounds = bounds_of(scope);
    IdVector<OpId, double> fraction(graph.num_ops(), 1.0);
    IdVector<OpId, Duration> of_memory(graph.num_ops()), all(graph.num_ops());
    IdVector<OpId, Bytes> bytes(graph.num_ops());
    IdVector<OpId, bool> works(graph.num_ops());
    for (const OpId v : graph.ops()) {
      const OpId leader = sets.leader[v];
      if (sets.size[leader] < 2) continue;
      if (!graph.kernels(v).empty()) works[leader] = true;
      const Duration time = graph.compute(v, 0).value_or(Duration{});
      all[leader] += time;
      if (bounds[v] == Bound::memory) of_memory[leader] += time;
      const auto add = [&](TensorId t) {
        if (!graph.tensor(t).control) bytes[leader] += graph.tensor(t).size;
      };
      for (const TensorId t : graph.outputs(v)) add(t);
      for (const EdgeId e : graph.in_edges(v)) add(graph.edge(e).tensor);
    }
    for (const OpId v : graph.ops()) {
      if (works[v] || all[v] <= Duration{} || bytes[v] <= Bytes{}) continue;
      const double less = static_cast<double>(saved[v].count) / static_cast<double>(bytes[v].count);
      fraction[v] = 1.0 - less * static_cast<double>(of_memory[v].count()) /
                              static_cast<double>(all[v].count());
    }
    return fraction;
  }

  MergeBy by_;
  MergedTime time_;
};

}  // namespace

std::unique_ptr<Verb> make_merge(Options& o) { return std::make_unique<Merge>(o); }

}  // namespace baechi::what_if
