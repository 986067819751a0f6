#include <fmt/format.h>

#include <array>

#include "sim/find_entry.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

/// Line rates in GB/s of one direction, from data sheets. None of them is fitted.
struct MeasuredSystem {
  std::string_view name;  ///< as in the file
  int devices = 0;        ///< of a node
  double inside = 0.0;    ///< of a device to those of its node
  std::string_view hardware;
  int nics = 0;  ///< 0: it is one node
  double nic = 0.0;
};

constexpr std::array<MeasuredSystem, 10> systems{{
    // 12 NVLink3 links of 25 GB/s through switches
    {"a100_80_x8_mpi", 8, 300.0, "nvlink", 0, 0.0},
    {"a100_80_x8_1proc", 8, 300.0, "nvlink", 0, 0.0},
    {"a100_40_x8", 8, 300.0, "nvlink", 0, 0.0},
    // 18 NVLink4 links of 25 GB/s
    {"h100_x4", 4, 450.0, "nvlink", 0, 0.0},
    // 7 Infinity Fabric links of 64 GB/s, one to each other device
    {"mi300x_x8", 8, 448.0, "nvlink", 0, 0.0},
    // 18 NVLink4 links, 6 to each other device; 4 Slingshot NICs of 200 Gb/s
    {"gh200_2nodes_x4", 4, 450.0, "nvlink", 4, 25.0},
    // DGX A100: 8 NICs of 200 Gb/s
    {"a100_4dgx_x8", 8, 300.0, "nvlink", 8, 25.0},
    // the log does not say which network: the 8 NICs of 400 Gb/s of a DGX H100
    {"h100_2nodes_x8", 8, 450.0, "nvlink", 8, 50.0},
    // bridge of 2 NVLink2 links of 25 GB/s
    {"rtx2080ti_x2_nvlink", 2, 50.0, "nvlink", 0, 0.0},
    // PCIe 3.0 x16
    {"v100_pcie_x2", 2, 15.75, "pcie", 0, 0.0},
}};

Cluster cluster_of_system(const MeasuredSystem& system, std::int64_t nodes) {
  const std::string network =
      system.nics == 0
          ? ""
          : fmt::format(", nics: {}, network: {{bandwidth: {} GB/s}}", system.nics, system.nic);
  return cluster_of(fmt::format(
      "nodes: {{count: {}, devices: {{count: {}, memory: 1 GB}}, link: {{bandwidth: {} GB/s}}{}}}\n"
      "collectives: {{model: nccl, hardware: {}}}",
      nodes, system.devices, system.inside, network, system.hardware));
}

constexpr std::int64_t least_bytes = 1'000'000;

}  // namespace

std::optional<Comparison> compare_nccl_unfitted(const std::string& folder) {
  Comparison all;
  const auto table = read_measured(folder, "papers/nccl_allreduce.csv", all.left);
  if (!table) return std::nullopt;
  const std::size_t name = table->column("system"), gpus = table->column("gpus"),
                    nodes = table->column("nodes"), bytes = table->column("bytes"),
                    time = table->column("time_us");
  each_row(*table, all.left, [&](std::size_t row) {
    const MeasuredAllReduce measured{.ranks = table->whole(row, gpus, 1),
                                     .bytes = {table->whole(row, bytes)},
                                     .us = table->number(row, time, 1e-3)};
    if (measured.bytes.count < least_bytes)
      throw InputError("below a megabyte, where start-up decides");
    const MeasuredSystem& system =
        find_entry(systems, "system", table->text(row, name), table->where(row, name));
    const Cluster cluster = cluster_of_system(system, table->whole(row, nodes, 1));
    all.rows.push_back({.what = fmt::format("{}, {} MiB", system.name, measured.bytes.count >> 20),
                        .group = std::string(system.name),
                        .measured = measured.us,
                        .simulated = simulated_us(measured, cluster),
                        .work = measured.moved(),
                        .alike = std::string(system.name),
                        .size = static_cast<double>(measured.bytes.count),
                        .lines = {line_of(*table, row)}});
  });
  return all;
}

}  // namespace baechi::validate
