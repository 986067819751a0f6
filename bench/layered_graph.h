/// The graph, cluster and placement that every benchmark shares.
#pragma once
#include <map>

#include "sim/problem/problem.h"
#include "sim/random.h"
#include "traces/generator.h"

namespace baechi::bench {

/// The synthetic layered graph of `ops` ops, made once per process. For one thread.
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

inline Cluster cluster(std::size_t devices) {
  return Cluster::uniform(devices, {std::int64_t{1} << 50},
                          {.bandwidth = {12e9}, .latency = std::chrono::microseconds{5}});
}

/// Ops stay with their first predecessor in 19 cases of 20, else go anywhere.
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
