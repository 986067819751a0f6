#include "sim/cluster/collectives.h"

#include <fmt/format.h>

#include "sim/error.h"
#include "validate/published/collective_files.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

constexpr std::int64_t fewest_bytes = std::int64_t{1} << 20;

void compare_rows(const std::vector<MeasuredCollective>& measured, Comparison& all) {
  std::map<std::string, Cluster> clusters;
  for (const MeasuredCollective& m : measured) {
    if (m.bytes.count < fewest_bytes) {
      all.left.skip(m.line, "below 1 MiB, where the start decides");
      continue;
    }
    const std::string nodes = fmt::format("{} {}", m.kind, m.ranks);
    auto cluster = clusters.find(nodes);
    if (cluster == clusters.end())
      cluster = clusters
                    .emplace(nodes, cluster_of(fmt::format(
                                        "nodes: {{devices: {{count: {}, memory: 1 GB}}, link: "
                                        "{{bandwidth: 1 GB/s}}}}\ncollectives: {{kind: {}}}",
                                        m.ranks, m.kind)))
                    .first;
    std::vector<DeviceId> devices;
    for (const DeviceId d : cluster->second.devices()) devices.push_back(d);
    const auto n = static_cast<std::uint32_t>(m.ranks);
    const Collective collective{.kind = m.op, .bytes = m.bytes, .ranks = n, .members = n};
    const auto bytes = static_cast<double>(m.bytes.count);
    all.rows.push_back(
        {.what = fmt::format("{}, {} MiB", m.key(), m.bytes.count >> 20),
         .group = fmt::format("{} {}", m.system, to_text(m.op)),
         .measured = m.us,
         .simulated =
             to_us(cluster->second.collectives().time(collective, devices, cluster->second)),
         .work = bytes * static_cast<double>(m.ranks - 1) / static_cast<double>(m.ranks),
         .alike = fmt::format("{} {}", m.system, to_text(m.op)),
         .size = bytes,
         .lines = {m.line}});
  }
}

}  // namespace

std::optional<Comparison> compare_collectives(const std::string& folder) {
  Comparison all;
  const auto nccl = measured_collectives(folder, all.left);
  if (all.left.files.empty()) return std::nullopt;
  compare_rows(nccl, all);
  return all;
}

}  // namespace baechi::validate
