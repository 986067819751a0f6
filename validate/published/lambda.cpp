// Lambda's benchmark of trainings with PyTorch: NVIDIA's examples on machines of its own.
#include <algorithm>
#include <array>

#include "scenarios/read/device_table.h"
#include "validate/published/examples.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

struct LambdaName {
  std::string_view theirs, ours;
};
/// Machines with a kind of device and of node. PCIe variants and the others have none.
constexpr std::array<LambdaName, 5> lambda_machines{{{"V100 16GB", "dgx1-v100-16g"},
                                                     {"A100 80GB SXM4", "dgx-a100-80g"},
                                                     {"H100 80GB SXM5", "h100"},
                                                     {"H100_80GB_SXM5", "h100"},
                                                     {"A100 40GB SXM4", "dgx-a100-40g"}}};
constexpr std::array<LambdaName, 3> lambda_networks{{{"resnet50", "resnet50"},
                                                     {"bert_base_squad", "bert-base-squad"},
                                                     {"bert_large_squad", "bert-large-squad"}}};

std::string ours(std::span<const LambdaName> names, std::string_view text, std::string_view what) {
  for (const LambdaName& name : names)
    if (text.find(name.theirs) != std::string_view::npos) return std::string(name.ours);
  throw InputError(fmt::format("no {} is '{}'", what, text));
}

/// The kind under PyTorch; of a GPU that nobody measured under it, the host times of another.
DeviceModel device_of(const ExampleRow& row) {
  const auto& kinds = built_in_devices().devices;
  if (const auto kind = kind_of(row)) return *kinds.at(*kind);
  DeviceModel device = *kinds.at("h100");
  const DeviceModel& host = *kinds.at("a100_pytorch");
  device.host_op = host.host_op;
  device.host_step = host.host_step;
  return device;
}

}  // namespace

std::optional<Comparison> compare_lambda(const std::string& folder) {
  Comparison all;
  const auto table = read_measured(folder, "measured/lambda/training.csv", all.left);
  if (!table) return std::nullopt;
  const std::size_t machine = table->column("machine"), gpus = table->column("gpus"),
                    precision = table->column("precision"), network = table->column("network"),
                    batch = table->column("global_batch"), rate = table->column("throughput");
  std::map<std::string, std::pair<double, double>> known;  // simulated ms and flops, by row
  each_row(*table, all.left, [&](std::size_t r) {
    ExampleRow row{.framework = "pytorch",
                   .model = ours(lambda_networks, table->text(r, network), "generator's network"),
                   .machine = ours(lambda_machines, table->text(r, machine), "kind of node"),
                   .precision = table->text(r, precision) == "fp16" ? "amp" : "fp32",
                   .training = true,
                   .gpus = table->whole(r, gpus, 1),
                   .batch = table->whole(r, batch, 1),
                   .rate = table->number(r, rate, 1e-6),
                   .line = line_of(*table, r)};
    if (row.batch % row.gpus != 0) throw InputError("the batch is not the same on each GPU");
    row.batch /= row.gpus;
    if (row.precision == "fp32" && row.machine.find("v100") == std::string::npos)
      row.precision = "tf32";
    const auto [found, added] = known.try_emplace(row.text());
    if (added) {
      const ExampleStep step = example_step(row);
      found->second = {1e3 * simulated_seconds(row, step, device_of(row)), flops_of(row, step)};
    }
    all.rows.push_back({.what = row.text(),
                        .group = fmt::format("{} {}", row.machine, row.precision),
                        .measured = 1e3 * measured_seconds(row),
                        .simulated = found->second.first,
                        .work = found->second.second,
                        .alike = fmt::format("{} {}", row.machine, row.precision),
                        .lines = {row.line}});
  });
  return all;
}

}  // namespace baechi::validate
