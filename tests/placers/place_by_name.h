/// Placers by name, with options as a scenario gives them, and small problems for their tests.
#pragma once

#include "placers/interface/registry.h"
#include "tests/small_graphs.h"

namespace baechi::testing {

using Values = std::map<std::string, Options::Value>;

inline Options::Value value(std::string text, std::string where = {}) {
  return {.text = std::move(text), .where = std::move(where), .children = {}};
}

inline std::unique_ptr<Placer> placer(const std::string& name, const Values& values = {}) {
  return make_placer(name, Options(name, values));
}

inline Placement place(const std::string& name, const OpGraph& graph, const Cluster& cluster,
                       const Values& values = {}, std::uint64_t seed = 0) {
  const ProfiledCosts costs(graph, cluster);
  return placer(name, values)->place({graph, cluster, costs}, seed);
}

/// The devices of the ops in id order, as "0 1 1".
inline std::string devices(const Placement& placement) {
  std::string text;
  for (const DeviceId d : placement.device)
    text += fmt::format("{}{}", text.empty() ? "" : " ", index(d));
  return text;
}

/// Ops named a, b, c, ... of these persistent bytes, without edges, 1 ns each.
inline OpGraph weights(std::initializer_list<std::int64_t> bytes) {
  OpGraphBuilder g;
  char name = 'a';
  for (const std::int64_t b : bytes)
    g.add_op({.name = std::string(1, name++), .compute = 1ns, .persistent = {b}});
  return std::move(g).build();
}

/// Two devices, the second 2.5 times as fast and with a worse link back.
inline Cluster faster_second(Bytes memory) {
  IdVector<DeviceId, Device> all;
  all.push_back({.name = "slow", .kind = {}, .memory = memory, .speed = 1.0});
  all.push_back({.name = "fast", .kind = {}, .memory = memory, .speed = 2.5});
  Cluster cluster = Cluster::uniform(all, {.bandwidth = 1.0_GBps, .latency = 10ns});
  cluster.set_link(gpu1, gpu0, {.bandwidth = 0.5_GBps, .latency = 300ns});
  return cluster;
}

}  // namespace baechi::testing
