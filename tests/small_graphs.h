/// Graphs and clusters small enough to work out by hand. Moving one byte between devices takes one
/// nanosecond.
#pragma once
#include <fmt/format.h>

#include <initializer_list>

#include "sim/problem/problem.h"

namespace baechi::testing {
using namespace std::chrono_literals;

constexpr Bytes operator""_B(unsigned long long n) { return {static_cast<std::int64_t>(n)}; }
constexpr Bytes operator""_MiB(unsigned long long n) {
  return {static_cast<std::int64_t>(n) << 20};
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return {static_cast<std::int64_t>(n) << 30};
}
constexpr Bandwidth operator""_GBps(long double n) { return {static_cast<double>(n) * 1e9}; }

inline constexpr DeviceId gpu0{0}, gpu1{1}, gpu2{2}, gpu3{3};

/// `count` equal devices with `memory` each.
inline Cluster gpus(std::size_t count, Bytes memory = 1_GiB) {
  return Cluster::uniform(count, memory, {.bandwidth = 1.0_GBps, .latency = 0ns});
}

/// Devices of these types, each named after its type, with `memory` each.
inline Cluster of_kinds(std::initializer_list<const char*> kinds, Bytes memory = 1_GiB) {
  IdVector<DeviceId, Device> all;
  for (const char* kind : kinds) all.push_back({.name = kind, .kind = kind, .memory = memory});
  return Cluster::uniform(std::move(all), {.bandwidth = 1.0_GBps, .latency = 0ns});
}

/// Devices of one type with different memory.
inline Cluster of_memories(std::initializer_list<Bytes> memories) {
  IdVector<DeviceId, Device> all;
  for (const Bytes memory : memories)
    all.push_back({.name = fmt::format("gpu{}", all.size()), .kind = {}, .memory = memory});
  return Cluster::uniform(std::move(all), {.bandwidth = 1.0_GBps, .latency = 0ns});
}

/// The placement of ops 0, 1, ... on `devices`.
inline Placement on(std::initializer_list<DeviceId> devices) {
  Placement p;
  for (const DeviceId d : devices) p.device.push_back(d);
  return p;
}

/// An op of small_graph(): the bytes of its weights, workspace and one output.
struct SmallOp {
  Bytes output{}, persistent{}, temporary{};
  const char* group = "";
  Duration compute = 1ns;
};

/// Ops a, b, c, ... Edges {from, to}: the reader reads the output.
inline OpGraph small_graph(
    std::initializer_list<SmallOp> ops,
    std::initializer_list<std::pair<std::uint32_t, std::uint32_t>> edges = {}) {
  OpGraphBuilder g;
  std::string name = "a";
  for (const SmallOp& op : ops) {
    const OpId v = g.add_op({.name = name,
                             .compute = op.compute,
                             .persistent = op.persistent,
                             .temporary = op.temporary});
    ++name[0];
    g.add_tensor(v, op.output);
    if (*op.group != 0) g.colocate(v, op.group);
  }
  for (const auto& [from, to] : edges) g.add_edge(TensorId{from}, OpId{to});
  return std::move(g).build();
}

/// A chain of `n` ops of 1 ns, each with `weights`, that write `output` each.
inline OpGraph chain_of(int n, Bytes weights, Bytes output = 1_B, Duration compute = 1ns) {
  OpGraphBuilder g;
  TensorId last{};
  for (int i = 0; i < n; ++i) {
    const OpId v =
        g.add_op({.name = "op" + std::to_string(i), .compute = compute, .persistent = weights});
    if (i > 0) g.add_edge(last, v);
    last = g.add_tensor(v, output);
  }
  return std::move(g).build();
}

/// A problem with its parts: const auto& [graph, cluster, costs, problem] = OwnedProblem(...).
struct OwnedProblem {
  OwnedProblem(OpGraph g, Cluster c, const EngineOptions& engine = {})
      : graph(std::move(g)),
        cluster(std::move(c)),
        costs(graph, cluster),
        problem{graph, cluster, costs, engine} {}
  OwnedProblem(const OwnedProblem&) = delete;

  OpGraph graph;
  Cluster cluster;
  ProfiledCosts costs;
  Problem problem;
};

//   a(10) --100 B--> b(20)
//     \-----100 B--> c(30)     b and c read the same tensor
inline OpGraph one_tensor_two_readers() {
  OpGraphBuilder g;
  const OpId a = g.add_op({.name = "a", .compute = 10ns});
  const OpId b = g.add_op({.name = "b", .compute = 20ns});
  const OpId c = g.add_op({.name = "c", .compute = 30ns});
  const TensorId t = g.add_tensor(a, 100_B);
  g.add_edge(t, b);
  g.add_edge(t, c);
  return std::move(g).build();
}

}  // namespace baechi::testing
