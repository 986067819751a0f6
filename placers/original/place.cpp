#include "placers/original/original.h"

namespace baechi::original {

IdVector<GroupId, Group> groups_of(const Graph& graph) {
  IdVector<GroupId, Group> groups(graph.num_groups() + 1);
  for (const OpId v : graph.ops()) {
    const Graph::Op& op = graph.op(v);
    Group& group = groups[op.group];
    group.members.push_back(v);
    group.temporary_max = std::max(group.temporary_max, op.temporary);
    group.outputs_max = std::max(group.outputs_max, op.outputs);
    group.persistent_sum += op.persistent;
    group.outputs_sum += op.outputs;
  }
  return groups;
}

PlacerResult topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                  const PlacerOptions& options);

namespace {

class Topo {
 public:
  Topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits, const PlacerOptions& options)
      : graph_(graph), limits_(limits), options_(options), groups_(groups_of(graph)) {
    result_.device.assign(graph.num_ops(), no_device);
    result_.used.assign(limits.size(), {});
    if (options.uniform) result_.cap = even_share();
  }

  PlacerResult run() {
    std::vector<OpId> order;
    for (const OpId v : graph_.ops()) order.push_back(v);
    std::ranges::sort(order, {}, [this](OpId v) { return graph_.op(v).topo; });
    auto next = order.begin();
    // Q10: next-fit, a device that was left is never filled further.
    for (const DeviceId d : limits_.ids()) {
      for (; next != order.end(); ++next) {
        if (options_.colocation && result_.device[*next] != no_device) continue;
        if (!fits(*next, d)) break;
        put(*next, d);
      }
    }
    if (next != order.end())
      result_.failure = {
          .type = "RuntimeError",
          .where = "_place_ops",
          .file = "m_topo.py",
          .message = fmt::format("{} operators cannot be placed on devices.", order.end() - next)};
    return std::move(result_);
  }

 private:
  static Bytes memory(const Graph::Op& op) { return op.temporary + op.outputs; }

  Bytes even_share() const {
    Bytes total;
    Bytes largest;
    for (const OpId v : graph_.ops()) {
      total += memory(graph_.op(v));
      largest = std::max(largest, memory(graph_.op(v)));
    }
    return Bytes{total.count / static_cast<std::int64_t>(limits_.size())} + largest;
  }

  /// Q10: with groups, the tested memory is not the charged memory, and the test is `<` instead of
  /// `<=`; against an even share that ignores the device's limit. Q25: where persistent bytes are
  /// not part of the outputs, the share omits them, and a group may fit on no device at any limit.
  bool fits(OpId v, DeviceId d) const {
    const Bytes used = result_.used[d];
    if (options_.colocation) {
      const Group& group = groups_[graph_.op(v).group];
      const Bytes need = group.temporary_max + group.persistent_sum;
      return result_.cap ? used + need < *result_.cap : need <= limits_[d] - used;
    }
    const Bytes need = memory(graph_.op(v));
    return result_.cap ? used + need <= *result_.cap : need <= limits_[d] - used;
  }

  void put(OpId v, DeviceId d) {
    const auto charge = [this, d](OpId member) {
      result_.device[member] = d;
      result_.used[d] += memory(graph_.op(member));
    };
    if (options_.colocation) {
      std::ranges::for_each(groups_[graph_.op(v).group].members, charge);
    } else {
      charge(v);
    }
  }

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  const PlacerOptions& options_;
  IdVector<GroupId, Group> groups_;
  PlacerResult result_;
};

/// The Python exception of the failure, and its meaning.
std::string explained(const Failure& failure, const OpGraph& graph) {
  std::string text = fmt::format("{} in {} ({})", failure.type, failure.where, failure.file);
  if (!failure.message.empty()) text += fmt::format(": {}", failure.message);
  if (failure.op != no_op) text += fmt::format(", at op '{}'", graph.name(failure.op));
  if (failure.where == "run") text += ": no ready op fits on any device";
  return text;
}

}  // namespace

PlacerResult topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                  const PlacerOptions& options) {
  return Topo(graph, limits, options).run();
}

std::optional<PlacerOptions> read_options(Options& options, PlacerOptions from) {
  const bool compat =
      options.get("compat", false, "reproduce the original's code, quirks included");
  from.colocation = options.get("colocation", true,
                                "with compat: respect groups (pytorch: never); without, always");
  const bool pytorch = from.variant == Variant::pytorch;
  if (pytorch && from.reserve)
    options.mistake("reserve", "has no meaning for the pytorch variant, which never frees memory");
  if (pytorch) from.colocation = false;
  if (compat && !pytorch && from.reserve && !from.colocation)
    options.mistake("reserve",
                    "with compat it needs colocation: the original stops at the first "
                    "op (KeyError)");
  return compat ? std::optional(from) : std::nullopt;
}

PlacerResult place(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                   const PlacerOptions& options, std::span<const std::uint32_t> favourites,
                   Log* log) {
  BAECHI_CHECK(!limits.empty(), "no devices");
  const bool pytorch = options.variant == Variant::pytorch;
  if (options.algorithm == Algorithm::m_topo)
    return (pytorch ? pytorch_topo : topo)(graph, limits, options);
  if (options.algorithm == Algorithm::m_etf) {
    favourites = {};
  } else {
    BAECHI_CHECK(favourites.size() == graph.num_ops(), "favourites of {} ops for {}",
                 favourites.size(), graph.num_ops());
  }
  return (pytorch ? pytorch_scheduler : tensorflow_scheduler)(graph, limits, options, favourites,
                                                              log)
      ->run();
}

SctGraph sct_graph(const Graph& graph) {
  SctGraph result;
  for (const OpId v : graph.ops()) result.compute.push_back(graph.op(v).compute);
  for (const EdgeId e : graph.edges()) {
    const Graph::Edge& edge = graph.edge(e);
    result.edges.push_back({static_cast<std::uint32_t>(edge.src),
                            static_cast<std::uint32_t>(edge.dst), graph.time(e)});
  }
  return result;
}

Placement place(const Problem& problem, const PlacerOptions& options) {
  const Graph graph = options.variant == Variant::pytorch
                          ? pytorch_graph(problem)
                          : Graph::from(problem.graph, problem.costs, problem.cluster);
  IdVector<DeviceId, Bytes> limits;
  for (const DeviceId d : problem.cluster.devices())
    limits.push_back(problem.cluster.device(d).memory);

  Placement placement;
  Favourites chosen;
  if (options.algorithm == Algorithm::m_sct) {
    const SctGraph program = sct_graph(graph);
    const SctSolution solution = solve_sct(program);
    constexpr bool compat = true;
    chosen = favourites(program, favourite_edges(program, solution.x, options.threshold, compat),
                        compat);
    placement.facts["lp_us"] = solution.w / 1e3;
  }
  PlacerResult result = place(graph, limits, options, chosen.favourite);
  if (result.failure)
    throw InfeasibleError(fmt::format("{}, as the original: {}", to_text(options.algorithm),
                                      explained(*result.failure, problem.graph)));
  placement.device = std::move(result.device);
  if (options.algorithm != Algorithm::m_topo)
    placement.facts["planned_step_us"] = to_us(result.makespan);
  return placement;
}

}  // namespace baechi::original
