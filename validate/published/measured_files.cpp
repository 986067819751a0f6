#include "validate/published/measured_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "scenarios/run/build.h"
#include "sim/cluster/collectives.h"
#include "sim/error.h"
#include "traces/format/compressed_file.h"

namespace baechi::validate {
namespace {

constexpr std::int64_t most_ranks = 8;

}  // namespace

std::optional<std::string> measured_path(const std::string& folder, std::string_view file) {
  constexpr std::string_view inner = "measured/";
  std::filesystem::path path = std::filesystem::path(folder) / file;
  if (!std::filesystem::exists(path) && file.starts_with(inner))
    path = std::filesystem::path(folder) / file.substr(inner.size());
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

std::optional<CsvTable> read_measured(const std::string& folder, const std::string& file,
                                      Leftovers& left) {
  const auto path = measured_path(folder, file);
  if (!path) return std::nullopt;
  std::vector<std::string> odd;
  CsvTable table(TextFile(*path).rest(), *path, &odd);
  left.files[*path] = table.num_rows() + odd.size();
  for (const std::string& mistake : odd)
    left.skipped.push_back({mistake.substr(0, mistake.find(": ")), mistake});
  return table;
}

Cluster cluster_of(const std::string& block) {
  Mistakes mistakes;
  const ClusterChoice choice =
      read_cluster(parse_yaml(block, "cluster"), "", built_in_devices(), mistakes);
  mistakes.throw_if_any();
  return make_cluster(choice);
}

std::vector<MeasuredAllReduce> vtrain_all_reduces(const std::string& folder, const std::string& gpu,
                                                  Leftovers& left,
                                                  const std::vector<std::int64_t>& ranks) {
  std::vector<MeasuredAllReduce> rows;
  for (std::int64_t n = 2; n <= most_ranks; ++n) {
    if (!ranks.empty() && std::ranges::find(ranks, n) == ranks.end()) continue;
    const auto table =
        read_measured(folder, fmt::format("vtrain/allreduce/{}_gpu{}.csv", gpu, n), left);
    if (!table) continue;
    const std::size_t bytes = table->column("size(B)"), time = table->column("time(ns)");
    each_row(*table, left, [&](std::size_t row) {
      rows.push_back({.ranks = n,
                      .bytes = {table->whole(row, bytes, 1)},
                      .us = table->number(row, time, 1.0) / 1e3,
                      .line = line_of(*table, row)});
    });
  }
  return rows;
}

double simulated_us(const MeasuredAllReduce& measured, const Cluster& cluster) {
  const auto n = static_cast<std::uint32_t>(measured.ranks);
  std::vector<DeviceId> devices;
  for (const DeviceId d : cluster.devices())
    if (index(d) < n) devices.push_back(d);
  const Collective all_reduce{.kind = CollectiveKind::all_reduce,
                              .bytes = measured.bytes,
                              .ranks = n,
                              .members = static_cast<std::uint32_t>(devices.size())};
  return to_us(cluster.collectives().time(all_reduce, devices, cluster));
}

}  // namespace baechi::validate
