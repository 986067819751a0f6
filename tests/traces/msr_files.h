/// Workloads of Tarnawski et al., their splits, and the machines they were published for.
#pragma once
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/problem/problem.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi::testing {

/// A workload on its own machine: accelerators, then CPU cores; measured transfers; the backward
/// pass as given, unless `backward` is set.
class MsrProblem {
 public:
  explicit MsrProblem(const std::filesystem::path& file, const std::string& backward = "as_given")
      : MsrProblem(read(file, backward), {}) {}
  /// With given numbers of devices.
  MsrProblem(const std::filesystem::path& file, std::size_t accelerators, std::size_t cores)
      : MsrProblem(read(file, "as_given"), std::pair(accelerators, cores)) {}
  MsrProblem(const MsrProblem&) = delete;
  MsrProblem& operator=(const MsrProblem&) = delete;

  Problem problem() const { return {graph, cluster, costs}; }
  std::size_t accelerators() const { return accelerators_; }

  /// A split of the authors: {"fpgas": [{"nodes": [...]}], "cpus": [...]}. Unlisted ops are placed
  /// with their group.
  Placement split(const std::filesystem::path& workload, const std::filesystem::path& file) const {
    std::map<std::int64_t, OpId> op_of;
    const nlohmann::json nodes = parse(workload)["nodes"];
    for (const auto& node : nodes)
      op_of[node["id"].get<std::int64_t>()] = graph.find(node["name"].get<std::string>()).value();
    const nlohmann::json json = parse(file);
    constexpr DeviceId nowhere{~std::uint32_t{0}};
    Placement p{.device = IdVector<OpId, DeviceId>(graph.num_ops(), nowhere)};
    const auto put = [&](const char* kind, std::size_t first) {
      for (std::size_t i = 0; i < json[kind].size(); ++i) {
        for (const auto& id : json[kind][i]["nodes"])
          if (const auto it = op_of.find(id.get<std::int64_t>()); it != op_of.end())
            p.device[it->second] = static_cast<DeviceId>(first + i);
      }
    };
    put("fpgas", 0);
    put("cpus", accelerators_);
    for (const OpId v : graph.ops()) {
      if (p.device[v] != nowhere) continue;
      for (const OpId mate : graph.members(graph.op(v).group))
        if (p.device[mate] != nowhere) p.device[v] = p.device[mate];
    }
    return p;
  }

 private:
  MsrProblem(const Trace& trace, std::optional<std::pair<std::size_t, std::size_t>> devices)
      : accelerators_(devices ? devices->first : trace.cluster->accelerators),
        graph(trace.graph.with_transfers(trace.cluster->transfer)),
        cluster(machine(*trace.cluster, accelerators_,
                        devices ? devices->second : trace.cluster->cpus)),
        costs(graph, cluster) {}

  static Trace read(const std::filesystem::path& file, const std::string& backward) {
    return read_trace(file.string(), {},
                      Options("dnn_partitioning", {{"backward", {backward, {}, {}}}}));
  }
  static Cluster machine(const ClusterHint& hint, std::size_t accelerators, std::size_t cores) {
    IdVector<DeviceId, Device> devices;
    for (std::size_t i = 0; i < accelerators; ++i)
      devices.push_back({.name = "accelerator", .kind = "accelerator", .memory = hint.memory});
    for (std::size_t i = 0; i < cores; ++i)
      devices.push_back({.name = "cpu", .kind = "cpu", .memory = {std::int64_t{1} << 50}});
    return Cluster::uniform(std::move(devices), {.bandwidth = {0x1p31}, .latency = {}});
  }
  static nlohmann::json parse(const std::filesystem::path& file) {
    return nlohmann::json::parse(read_file(file.string()));
  }

  std::size_t accelerators_;

 public:
  const OpGraph graph;
  const Cluster cluster;
  const ProfiledCosts costs;
};

}  // namespace baechi::testing
