/// Random problems with many edge cases: ties, zero-time ops, empty
/// tensors, several outputs and readers, control edges, groups, unequal devices and links.
#pragma once

#include "sim/problem/problem.h"
#include "sim/random.h"

namespace baechi::testing {

/// `cluster` with the memory of one device changed.
inline Cluster with_memory(const Cluster& cluster, DeviceId changed, Bytes memory) {
  Cluster copy = cluster;
  copy.set_memory(changed, memory);
  return copy;
}

/// Every combination of the engine options under Semantics::event, with memory enforced.
inline std::vector<EngineOptions> all_engines() {
  std::vector<EngineOptions> engines;
  for (const Transfers transfers :
       {Transfers::sequential, Transfers::parallel, Transfers::duplex, Transfers::shared}) {
    for (const ReadyOrder queue : all<ReadyOrder>()) {
      for (const bool cache : {true, false}) {
        for (const bool overlap : {true, false})
          engines.push_back(
              {.transfers = transfers, .queue = queue, .cache_tensors = cache, .overlap = overlap});
      }
    }
  }
  return engines;
}

/// The shape of a random graph.
struct GraphShape {
  std::uint32_t ops = 1;     ///< number of ops
  std::uint32_t degree = 4;  ///< largest number of edges into an op
  std::uint32_t reach = 60;  ///< an op reads only from this many ops before it
  std::uint32_t lanes = 1;   ///< number of lanes
  std::uint32_t ranks = 0;   ///< members of each collective; about every tenth op is a member
};

/// Makes zero-time ops without edges between them members of collectives of `ranks` members.
inline void add_collectives(OpGraphBuilder& b, std::uint32_t ranks,
                            const std::vector<OpId>& members, Random& random) {
  for (std::size_t i = 0; i + ranks <= members.size(); i += ranks) {
    const auto kind = static_cast<CollectiveKind>(random.below(5));
    b.add_collective(
        {.kind = kind, .bytes = Bytes{random.below(300)}, .ranks = ranks * (1 + random.below(2))},
        std::span(members).subspan(i, ranks));
  }
}

inline OpGraph random_graph(GraphShape shape, Random& random) {
  OpGraphBuilder b;
  constexpr std::string_view lanes[] = {"compute", "host", "copy"};
  std::vector<OpId> members;
  const std::uint32_t longest = random.below(2) == 0 ? 4 : 1000;  // few values: ties
  const bool measured = random.below(3) == 0;
  const bool grouped = random.below(3) == 0;
  const bool referring = random.below(3) == 0;
  std::vector<std::vector<TensorId>> outputs;
  for (std::uint32_t i = 0; i < shape.ops; ++i) {
    const auto bytes = [&](std::uint32_t out_of) {
      return random.below(out_of) == 0 ? Bytes{} : Bytes{random.below(200)};
    };
    // The members of one collective follow each other and do not read each other.
    const std::size_t gathered = shape.ranks == 0 ? 0 : members.size() % shape.ranks;
    const bool member = shape.ranks > 0 && (gathered > 0 || random.below(10) == 0);
    const OpId v = b.add_op({.name = "op" + std::to_string(i),
                             .compute = Duration{member ? 0 : random.below(longest)},
                             .persistent = bytes(2),
                             .temporary = bytes(2),
                             .lane = lanes[shape.lanes == 1 ? 0 : random.below(shape.lanes)]});
    if (member) members.push_back(v);
    const auto skipped = static_cast<std::uint32_t>(member ? gathered : 0);
    const std::uint32_t before = std::min(i - skipped, shape.reach);
    for (std::uint32_t k = random.below(shape.degree + 1); before > 0 && k > 0; --k) {
      const OpId u{i - skipped - 1 - random.below(before)};
      const std::vector<TensorId>& tensors = outputs[index(u)];
      if (tensors.empty() || random.below(10) == 0)
        b.add_control(u, v);
      else
        b.add_edge(tensors[random.below(static_cast<std::uint32_t>(tensors.size()))], v);
    }
    outputs.emplace_back();
    for (std::uint32_t k = random.below(4); k > 0; --k) {
      const TensorId t = b.add_tensor(v, bytes(5), referring && random.below(4) == 0);
      if (measured && random.below(2) == 0) b.set_transfer(t, Duration{random.below(300)});
      outputs.back().push_back(t);
    }
    if (grouped && !member && random.below(3) == 0)
      b.colocate(v, "g" + std::to_string(random.below(6)));
  }
  if (shape.ranks > 0) add_collectives(b, shape.ranks, members, random);
  OpGraph graph = std::move(b).build();
  return random.below(4) == 0 ? graph.with_free_controls() : std::move(graph);
}

/// A random cluster of `devices` devices with ample memory; in nodes with few NICs if `in_nodes`.
inline Cluster random_cluster(std::uint32_t devices, Random& random, bool in_nodes = false) {
  constexpr double speeds[] = {1.0, 1.0, 0.5, 2.0, 0.7};
  const bool equal = random.below(2) == 0;
  const auto link = [&] {
    return Link{.bandwidth = {1e9 * (1 + random.below(3))}, .latency = Duration{random.below(20)}};
  };
  IdVector<DeviceId, Device> all;
  for (std::uint32_t i = 0; i < devices; ++i)
    all.push_back({.name = "gpu" + std::to_string(i),
                   .kind = {},
                   .memory = {std::int64_t{1} << 50},
                   .speed = speeds[equal ? 0 : random.below(5)]});
  if (in_nodes) {
    std::vector<Node> nodes;
    for (std::uint32_t left = devices; left > 0; left -= nodes.back().devices)
      nodes.push_back({.devices = 1 + random.below(std::min(left, 4U)),
                       .nics = 1 + random.below(2),
                       .network = link(),
                       .inside = link()});
    return Cluster::of_nodes(std::move(all), std::move(nodes));
  }
  Cluster cluster = Cluster::uniform(std::move(all), link());
  for (const DeviceId src : cluster.devices()) {
    for (const DeviceId dst : cluster.devices())
      if (!equal) cluster.set_link(src, dst, link());
  }
  return cluster;
}

/// Random devices, one for each group; with random priorities in two of three placements.
inline Placement random_placement(const OpGraph& graph, const Cluster& cluster, Random& random) {
  const auto any = [&] {
    return DeviceId{random.below(static_cast<std::uint32_t>(cluster.num_devices()))};
  };
  const std::uint32_t spread = 1 + random.below(4);  // 1: ops are placed apart from their inputs
  Placement p{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  std::vector<DeviceId> of_group;
  for (std::size_t g = 0; g <= graph.num_groups(); ++g) of_group.push_back(any());
  for (const OpId v : graph.ops()) {
    const auto before = graph.predecessors(v);
    p.device[v] = before.empty() || random.below(spread) == 0 ? any() : p.device[before[0]];
    if (graph.op(v).group != no_group) p.device[v] = of_group[index(graph.op(v).group)];
  }
  for (const Collective& c : graph.collectives())
    for (const OpId v : c.member_ids())
      p.device[v] = static_cast<DeviceId>((index(v) - index(c.first) + index(p.device[c.first])) %
                                          cluster.num_devices());
  if (random.below(3) > 0) {
    for ([[maybe_unused]] const OpId v : graph.ops())
      p.priority.push_back(static_cast<std::int32_t>(random.below(7)) - 3);
  }
  return p;
}

/// A random problem that owns its parts.
class RandomProblem {
 public:
  RandomProblem(GraphShape shape, std::uint32_t devices, std::uint64_t seed, bool in_nodes = false)
      : random_(seed),
        graph(random_graph(shape, random_)),
        cluster(random_cluster(devices, random_, in_nodes)),
        costs(graph, cluster),
        placement(random_placement(graph, cluster, random_)) {}
  RandomProblem(const RandomProblem&) = delete;
  RandomProblem& operator=(const RandomProblem&) = delete;

  Problem under(EngineOptions engine) const { return {graph, cluster, costs, engine}; }
  /// The same on another cluster, such as the result of with_memory().
  Problem under(EngineOptions engine, const Cluster& other) const {
    return {graph, other, costs, engine};
  }

 private:
  Random random_;

 public:
  const OpGraph graph;
  const Cluster cluster;
  const ProfiledCosts costs;
  const Placement placement;
};

}  // namespace baechi::testing
