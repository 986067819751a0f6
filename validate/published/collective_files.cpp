#include "validate/published/collective_files.h"

#include <fmt/format.h>

#include <array>

#include "sim/error.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

/// Systems whose GPUs are joined by the same links share a table.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> tables{
    {{"a100_sxm", "a100_nccl"},
     {"h100_sxm", "h100_nccl"},
     {"h200_sxm", "h100_nccl"},
     {"b200_sxm", "b200_nccl"},
     {"b300_sxm", "b200_nccl"},
     {"gb200", "b200_nccl"},
     {"gb300", "b200_nccl"},
     {"l40s", "l40s_nccl"},
     {"rtx_pro_6000_server", "rtx_pro_6000_nccl"},
     {"h100_8_one_node", "h100_nccl"},
     {"b200_8_one_node", "b200_nccl"},
     {"azure_mi300x_v5", "mi300x_rccl"}}};

std::string table_of(std::string_view system) {
  for (const auto& [name, kind] : tables)
    if (name == system) return std::string(kind);
  throw InputError(fmt::format("no kind of collectives for the system '{}'", system));
}

CollectiveKind op_of(std::string_view word) {
  if (const auto op = parse<CollectiveKind>(word == "alltoall" ? "all_to_all" : word)) return *op;
  throw InputError(fmt::format("no collective '{}'", word));
}

}  // namespace

std::string MeasuredCollective::key() const {
  return fmt::format("{} {} {}", system, to_text(op), ranks);
}

std::vector<MeasuredCollective> measured_collectives(const std::string& folder, Leftovers& left) {
  std::vector<MeasuredCollective> rows;
  const auto table = read_packed(folder, "measured/aiconfigurator/nccl.csv", left);
  if (!table) return rows;
  const std::size_t system = table->column("system"), op = table->column("op"),
                    gpus = table->column("gpus"), bytes = table->column("bytes"),
                    ms = table->column("ms");
  each_row(*table, left, [&](std::size_t row) {
    rows.push_back({.system = table->text(row, system),
                    .kind = table_of(table->text(row, system)),
                    .op = op_of(table->text(row, op)),
                    .ranks = table->whole(row, gpus, 2),
                    .bytes = {table->whole(row, bytes, 1)},
                    .us = 1e3 * table->number(row, ms, 1e-6),
                    .line = line_of(*table, row)});
  });
  return rows;
}

std::vector<MeasuredCollective> public_all_reduces(const std::string& folder, Leftovers& left) {
  std::vector<MeasuredCollective> rows;
  const auto table = read_measured(folder, "measured/public_logs/allreduce.csv", left);
  if (!table) return rows;
  const std::size_t system = table->column("system"), ranks = table->column("ranks"),
                    nodes = table->column("nodes"), bytes = table->column("bytes"),
                    bus = table->column("busbw_gb_s");
  each_row(*table, left, [&](std::size_t row) {
    if (table->whole(row, nodes, 1) > 1) throw InputError("of several nodes");
    const std::int64_t n = table->whole(row, ranks, 2);
    const double moved = 2.0 * static_cast<double>(n - 1) / static_cast<double>(n);
    const std::int64_t size = table->whole(row, bytes, 1);
    rows.push_back({.system = table->text(row, system),
                    .kind = table_of(table->text(row, system)),
                    .op = CollectiveKind::all_reduce,
                    .ranks = n,
                    .bytes = {size},
                    .us = static_cast<double>(size) * moved / (1e3 * table->number(row, bus, 1e-6)),
                    .line = line_of(*table, row)});
  });
  return rows;
}

}  // namespace baechi::validate
