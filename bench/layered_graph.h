/// The layered graph, uniform cluster and mostly local placement that the benchmarks share.
#pragma once

#include "sim/problem/problem.h"
#include "sim/random.h"
#include "traces/generator.h"

namespace baechi::bench {

/// The synthetic layered graph with `ops` ops, made once per process. Not thread-safe.
inline const OpGraph& layered(std::int64_t ops) {
  static std::map<std::int64_t, OpGraph> made;
  auto it = made.find(ops);
  if (it == made.end()) {
    Options options("layered",
                    {{"ops", {.text = std::to_string(ops), .where = {}, .children = {}}}});
    it = made.emplace(ops, std::move(generate_trace("layered", std::move(options)).graph)).first;
  }
  return it->second;
}

/// A uniform cluster: links of 12 GB/s and 5 us, memory that never runs out (2^50 bytes per
/// device).
inline Cluster cluster(std::size_t devices) {
  return Cluster::uniform(devices, {std::int64_t{1} << 50},
                          {.bandwidth = {12e9}, .latency = std::chrono::microseconds{5}});
}

/// Puts an op on its first predecessor's device with probability 0.95, else on a random device. An
/// op without predecessors goes to a random device. The same placement in every call.
inline Placement mostly_local(const OpGraph& graph, std::size_t devices) {
  Random random(1);
  Placement p{.device = IdVector<OpId, DeviceId>(graph.num_ops())};
  for (const OpId v : graph.ops()) {
    const auto before = graph.predecessors(v);
    p.device[v] = !before.empty() && random.uniform() < 0.95
                      ? p.device[before[0]]
                      : DeviceId{random.below(static_cast<std::uint32_t>(devices))};
  }
  return p;
}

}  // namespace baechi::bench
