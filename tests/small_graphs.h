/// Graphs and clusters small enough to work out by hand. Moving one byte between devices takes one
/// nanosecond.
#pragma once
#include <initializer_list>

#include "sim/problem/problem.h"

namespace baechi::testing {
using namespace baechi::literals;
using namespace std::chrono_literals;

inline constexpr DeviceId gpu0{0}, gpu1{1}, gpu2{2}, gpu3{3};

/// `count` equal devices with `memory` each.
inline Cluster gpus(std::size_t count, Bytes memory = 1_GiB) {
  return Cluster::uniform(count, memory, {.bandwidth = 1.0_GBps, .latency = 0ns});
}

/// The placement of ops 0, 1, ... on `devices`.
inline Placement on(std::initializer_list<DeviceId> devices) {
  Placement p;
  for (const DeviceId d : devices) p.device.push_back(d);
  return p;
}

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
