#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/collectives/rings.h"
#include "sim/error.h"
#include "sim/watch.h"
#include "validate/least_deviations.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

/// For the numbers of ranks that are shared; what is kept back is never read.
std::vector<MeasuredAllReduce> measured(const std::string& folder, const std::string& gpu,
                                        const std::vector<std::int64_t>& ranks) {
  Leftovers left;
  std::vector<MeasuredAllReduce> rows = vtrain_all_reduces(folder, gpu, left, ranks);
  left.throw_if_any();
  if (rows.empty())
    throw InputError(fmt::format("{}: no vtrain/allreduce/{}_gpu*.csv", folder, gpu));
  return rows;
}

/// What an all_gather or a reduce_scatter of 8 A100 takes of an all_reduce, by the table of NCCL's
/// tests: the median over 4 MiB, 8 MiB, ... 512 MiB, the largest there.
double part_of_all_reduce() {
  const Cluster cluster = cluster_of(
      "devices: {count: 8, kind: a100}\nlink: {kind: nvlink3}\ncollectives: {kind: a100_nccl}");
  const auto known = cluster.devices();
  const std::vector<DeviceId> devices(known.begin(), known.end());
  const auto us = [&](CollectiveKind kind, Bytes bytes) {
    const auto n = static_cast<std::uint32_t>(devices.size());
    return to_us(cluster.collectives().time(
        {.kind = kind, .bytes = bytes, .ranks = n, .members = n}, devices, cluster));
  };
  std::vector<double> parts;
  for (Bytes bytes{4 << 20}; bytes <= Bytes{512 << 20}; bytes = 2 * bytes)
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter})
      parts.push_back(us(kind, bytes) / us(CollectiveKind::all_reduce, bytes));
  std::ranges::sort(parts);
  return (parts[(parts.size() - 1) / 2] + parts[parts.size() / 2]) / 2.0;
}

/// Through a switch: us = a0 + a1 2 (n - 1) + moved (b0 + b1 / n).
std::string fit_a100(const std::string& folder) {
  std::vector<FitRow> rows;
  for (const MeasuredAllReduce& m : measured(folder, "a100", {2, 4, 8}))
    rows.push_back({{1.0, 2.0 * static_cast<double>(m.ranks - 1), m.moved(),
                     m.moved() / static_cast<double>(m.ranks)},
                    m.us});
  const std::vector<double> x = least_relative_deviations(rows);
  return fmt::format(
      "  a100_nvlink:\n"
      "    {{model: line, latency: {:.2f} us, step_latency: {:.3f} us, bandwidth: {:.1f} GB/s, "
      "loss: "
      "{:.4f}, part: {:.2f},\n"
      "     source: \"fitted to vTrain's all-reduce times of 2, 4, 8 A100 with NVLink; part: the "
      "median of all_gathers and reduce_scatters of 8 from 4 MiB over all_reduces in NCCL's tests "
      "(a100_nccl)\"}}\n",
      x[0], x[1], 1e-3 / x[2], x[3] / x[2], part_of_all_reduce());
}

/// Through wires: us = a0 + a1 2 (n - 1) + moved / (rings x wire).
std::string fit_v100(const std::string& folder) {
  const Cluster cluster = cluster_of("nodes: {kind: dgx1_v100}\ncollectives: ring");
  const auto known = cluster.devices();
  const std::vector<DeviceId> devices(known.begin(), known.end());
  std::vector<FitRow> rows;
  for (const MeasuredAllReduce& m : measured(folder, "v100", {2, 8})) {
    const double rings =
        rings_of(std::span(devices).first(static_cast<std::size_t>(m.ranks)), m.ranks, cluster)
            .bus(m.ranks, Bandwidth{1.0})
            .bytes_per_second;
    rows.push_back({{1.0, 2.0 * static_cast<double>(m.ranks - 1), m.moved() / rings}, m.us});
  }
  const std::vector<double> x = least_relative_deviations(rows);
  return fmt::format(
      "  dgx1_v100:\n"
      "    {{model: line, latency: {:.2f} us, step_latency: {:.3f} us, wire: {:.2f} GB/s,\n"
      "     source: \"fitted to vTrain's all-reduce times of 2 and 8 V100 of a DGX-1\"}}\n",
      x[0], x[1], 1e-3 / x[2]);
}

}  // namespace

std::string fit_collectives(const std::string& folder, const Watch& /*watch*/) {
  return "collectives:\n" + fit_a100(folder) + fit_v100(folder);
}

}  // namespace baechi::validate
