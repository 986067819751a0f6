/// Graphs small enough to work out by hand, on devices where one byte takes one nanosecond.
#pragma once
#include <initializer_list>

#include "sim/problem/problem.h"
#include "tests/graph_text.h"

namespace baechi::testing {
using namespace baechi::literals;
using namespace std::chrono_literals;

inline constexpr DeviceId gpu0{0}, gpu1{1}, gpu2{2}, gpu3{3};

inline Cluster gpus(std::size_t count, Bytes memory = 1_GiB) {
  return Cluster::uniform(count, memory, {.bandwidth = 1.0_GBps, .latency = 0ns});
}

inline Placement on(std::initializer_list<DeviceId> devices) {
  Placement p;
  for (const DeviceId d : devices) p.device.push_back(d);
  return p;
}

//   a(10) --100 B--> b(20)
//     \-----100 B--> c(30)     b and c read the same tensor
inline OpGraph one_tensor_two_readers() {
  return graph_of("a10 -t100> b20; a -t> c30");
}

}  // namespace baechi::testing
