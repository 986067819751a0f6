#include "validate/published/examples.h"

#include <algorithm>
#include <array>
#include <utility>

#include "scenarios/read/device_table.h"
#include "sim/error.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

constexpr double gnmt_words = 27.0;

/// A word of the file and ours.
using ModelWords = std::pair<std::string_view, std::string_view>;

/// The first of `words` that `text` contains.
template <std::size_t n>
std::optional<std::string_view> ours(std::string_view text,
                                     const std::array<ModelWords, n>& words) {
  for (const auto& [theirs, word] : words)
    if (text.find(theirs) != std::string_view::npos) return word;
  return std::nullopt;
}

}  // namespace

std::string_view ExampleRow::base_framework() const {
  const std::string_view all = framework;
  return all.substr(0, all.find('-'));
}

std::string ExampleRow::text() const {
  std::string text =
      fmt::format("{} {} {} {}, batch {}", framework, model, machine, precision, batch);
  if (length > 0) text += fmt::format(", length {}", length);
  if (training) text += fmt::format(", {} GPU{}", gpus, gpus == 1 ? "" : "s");
  return text;
}

std::optional<std::vector<ExampleRow>> inference_rows(const std::string& folder, Leftovers& left) {
  const auto table = read_measured(folder, "dlexamples/inference.csv", left);
  if (!table) return std::nullopt;
  const std::size_t framework = table->column("framework"), model = table->column("model"),
                    gpu = table->column("gpu"), precision = table->column("precision"),
                    batch = table->column("batch"), latency = table->column("latency_ms");
  std::vector<ExampleRow> rows;
  each_row(*table, left, [&](std::size_t r) {
    rows.push_back({.framework = table->text(r, framework),
                    .model = table->text(r, model),
                    .machine = table->text(r, gpu),
                    .precision = table->text(r, precision),
                    .batch = table->whole(r, batch, 1),
                    .latency = table->number(r, latency, 1e-6) / 1e3,
                    .line = line_of(*table, r)});
  });
  return rows;
}

std::optional<std::vector<ExampleRow>> training_rows(const std::string& folder, Leftovers& left) {
  const auto table = read_measured(folder, "dlexamples/training.csv", left);
  if (!table) return std::nullopt;
  const std::size_t framework = table->column("framework"), model = table->column("model"),
                    machine = table->column("machine"), nodes = table->column("nodes"),
                    gpus = table->column("gpus"), precision = table->column("precision"),
                    batch = table->column("batch_per_gpu"), length = table->column("sequence"),
                    passes = table->column("accumulation_steps"),
                    rate = table->column("throughput");
  std::vector<ExampleRow> rows;
  each_row(*table, left, [&](std::size_t r) {
    const std::string& of_sample = table->text(r, length);
    const bool numbered = !of_sample.empty() && of_sample != "tokens";
    rows.push_back({.framework = table->text(r, framework),
                    .model = table->text(r, model),
                    .machine = table->text(r, machine),
                    .precision = table->text(r, precision),
                    .training = true,
                    .nodes = table->whole(r, nodes, 1),
                    .gpus = table->whole(r, gpus, 1),
                    .batch = table->whole(r, batch, 1),
                    .length = numbered ? table->whole(r, length, 1) : 0,
                    .passes = table->whole(r, passes, 1),
                    .rate = table->number(r, rate, 1e-6),
                    .line = line_of(*table, r)});
  });
  return rows;
}

std::optional<std::string> kind_of(const ExampleRow& row) {
  static constexpr std::array<ModelWords, 14> gpus{{{"a100-pcie", "a100_pcie"},
                                                    {"h100-pcie", "h100_pcie"},
                                                    {"h200", "h200"},
                                                    {"b200", "b200"},
                                                    {"rtx-3090", "rtx_3090"},
                                                    {"rtx-4090", "rtx_4090"},
                                                    {"rtx-6000-ada", "rtx_6000_ada"},
                                                    {"rtx-a6000", "rtx_a6000"},
                                                    {"a100-80g", "a100"},
                                                    {"a100-40g", "a100_40gb"},
                                                    {"v100-32g", "v100_32gb"},
                                                    {"v100", "v100"},
                                                    {"h100", "h100"},
                                                    {"t4", "t4"}}};
  static constexpr std::array<ModelWords, 4> frameworks{{{"pytorch", "pytorch"},
                                                         {"tensorflow+xla", "xla"},
                                                         {"tensorflow", "tensorflow"},
                                                         {"mxnet", "mxnet"}}};
  const auto gpu = ours(row.machine, gpus);
  const auto framework = ours(row.base_framework(), frameworks);
  if (!gpu || !framework) return std::nullopt;
  std::string kind = fmt::format("{}_{}", *gpu, *framework);
  if (!built_in_devices().devices.contains(kind)) return std::nullopt;
  return kind;
}

std::string nodes_of(const ExampleRow& row) {
  // Of GPUs on PCIe the collectives are those measured on others with the same links; so are those
  // of GPUs that send through the host's memory. Nobody measured V100's.
  static constexpr std::array<ModelWords, 4> through_host{
      {{"dgx-a100",
        "{devices: {count: 8, kind: a100}, link: {kind: pcie4}, collectives: {kind: l40s_nccl}, "},
       {"h100-pcie", ""},
       {"h100",
        "{devices: {count: 8, kind: h100}, link: {kind: pcie5}, collectives: "
        "{kind: rtx_pro_6000_nccl}, "},
       {"h200",
        "{devices: {count: 8, kind: h200}, link: {kind: pcie5}, collectives: "
        "{kind: rtx_pro_6000_nccl}, "}}};
  if (row.through_host)
    if (const auto found = ours(row.machine, through_host); found && !found->empty())
      return fmt::format("{}count: {}}}", *found, row.nodes);
  static constexpr std::array<ModelWords, 12> machines{
      {{"a100-pcie",
        "{devices: {count: 8, kind: a100_pcie}, link: {kind: pcie4}, collectives: "
        "{kind: l40s_nccl}, "},
       {"h100-pcie",
        "{devices: {count: 8, kind: h100_pcie}, link: {kind: pcie5}, collectives: "
        "{kind: rtx_pro_6000_nccl}, "},
       {"rtx-3090",
        "{devices: {count: 8, kind: rtx_3090}, link: {kind: pcie4}, collectives: "
        "{kind: l40s_nccl}, "},
       {"rtx-4090",
        "{devices: {count: 8, kind: rtx_4090}, link: {kind: pcie4}, collectives: "
        "{kind: l40s_nccl}, "},
       {"rtx-6000-ada",
        "{devices: {count: 8, kind: rtx_6000_ada}, link: {kind: pcie4}, "
        "collectives: {kind: l40s_nccl}, "},
       {"rtx-a6000",
        "{devices: {count: 8, kind: rtx_a6000}, link: {kind: pcie4}, collectives: "
        "{kind: l40s_nccl}, "},
       {"dgx-a100", "{kind: dgx_a100, "},
       {"dgx1-v100", "{kind: dgx1_v100, "},
       {"dgx2-v100", "{devices: {count: 16, kind: v100}, link: {kind: nvlink2}, "},
       {"h100", "{kind: dgx_h100, "},
       {"h200", "{kind: dgx_h200, "},
       {"b200", "{kind: dgx_b200, "}}};
  const auto machine = ours(row.machine, machines);
  return machine ? fmt::format("{}count: {}}}", *machine, row.nodes) : "";
}

std::string unknown_speed(const ExampleRow& row) {
  if (!has_model(row)) return fmt::format("no generator makes the model '{}'", row.model);
  if (!kind_of(row))
    return fmt::format("no kind of device is '{}' under '{}'", row.machine, row.framework);
  if (row.gpus > 1 && nodes_of(row).empty())
    return fmt::format("no kind of node is '{}'", row.machine);
  if (row.training && row.framework == "pytorch" && row.model == "bert-large-pretrain")
    return "its flops are unknown: it probably skips padding";
  if (!row.training && row.framework == "mxnet" && !row.mixed())
    return "computed from a printed ratio";
  return "";
}

double measured_seconds(const ExampleRow& row) {
  if (!row.training) return row.latency;
  double units = static_cast<double>(row.gpus * row.batch * row.passes);
  if (row.model == "gnmt-v2") units *= 2.0 * gnmt_words;  // tokens of both sides
  return units / row.rate;
}

}  // namespace baechi::validate
