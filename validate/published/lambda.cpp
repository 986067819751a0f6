// Lambda's benchmark of trainings with PyTorch: NVIDIA's examples on machines of its own. What its
// scripts say (github lambdal/deeplearning-benchmark, pytorch/scripts): images are not channels
// last, GPUs do not send to each other (NCCL_P2P_DISABLE), and BERT's throughput is that of 100
// steps, though it stops after 101, or when the samples have passed twice.
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
/// Machines with a kind of device and of node.
constexpr std::array<LambdaName, 13> lambda_machines{{{"V100 16GB", "dgx1-v100-16g"},
                                                      {"A100 80GB SXM4", "dgx-a100-80g"},
                                                      {"A100 40GB SXM4", "dgx-a100-40g"},
                                                      {"A100 80GB PCIe", "a100-pcie"},
                                                      {"H100 80GB SXM5", "h100"},
                                                      {"H100_80GB_SXM5", "h100"},
                                                      {"H100 80GB PCIe", "h100-pcie"},
                                                      {"H200_140GB_SXM", "h200"},
                                                      {"B200_192GB", "b200"},
                                                      {"RTX 3090", "rtx-3090"},
                                                      {"RTX 4090", "rtx-4090"},
                                                      {"RTX 6000 Ada", "rtx-6000-ada"},
                                                      {"RTX A6000", "rtx-a6000"}}};
constexpr std::array<LambdaName, 3> lambda_networks{{{"resnet50", "resnet50"},
                                                     {"bert_base_squad", "bert-base-squad"},
                                                     {"bert_large_squad", "bert-large-squad"}}};

std::string ours(std::span<const LambdaName> names, std::string_view text, std::string_view what) {
  for (const LambdaName& name : names)
    if (text.find(name.theirs) != std::string_view::npos) return std::string(name.ours);
  throw InputError(fmt::format("no {} is '{}'", what, text));
}

/// Samples of SQuAD 1.1 for training, of at most 384 tokens, 128 apart: a count that was not looked
/// up again. With another tokenizer they are 88,524, which moves no row by more than 0.2 %.
constexpr double squad_samples = 88'641.0;

/// What a GPU trained while the clock ran, over what BERT's throughput counts.
double trained_share(const ExampleRow& row) {
  constexpr double counted = 100.0, most = 101.0, epochs = 2.0;
  const auto of_step = static_cast<double>(row.batch * row.gpus);
  return std::min(most, epochs * squad_samples / of_step) / counted;
}

/// 2 of "LambdaOD_8x_Texas_2xH100_80GB_SXM5": the last number before an x. The column of GPUs has
/// 8 there, but the throughput is twice that of "1xH100".
std::int64_t gpus_of(std::string_view machine) {
  for (std::size_t at = machine.rfind('x'); at != std::string_view::npos && at > 0;
       at = machine.rfind('x', at - 1)) {
    std::size_t from = at;
    while (from > 0 && machine[from - 1] >= '0' && machine[from - 1] <= '9') --from;
    if (const auto number = parse_number<std::int64_t>(machine.substr(from, at - from));
        number && *number > 0)
      return *number;
  }
  throw InputError(fmt::format("machine '{}' names no number of GPUs", machine));
}

/// The rows of the file that can be asked. Those of its second version name no batch: they have
/// that of the same GPU, network and format in the first.
std::vector<ExampleRow> lambda_rows(const CsvTable& table, Leftovers& left) {
  const std::size_t machine = table.column("machine"), precision = table.column("precision"),
                    network = table.column("network"), batch = table.column("global_batch"),
                    rate = table.column("throughput");
  std::vector<ExampleRow> rows;
  std::map<std::string, std::int64_t> batches;  // of a GPU, by machine, network and format
  const auto alike = [](const ExampleRow& row) {
    return fmt::format("{} {} {}", row.machine, row.model, row.precision);
  };
  each_row(table, left, [&](std::size_t r) {
    ExampleRow row{.framework = "pytorch",
                   .model = ours(lambda_networks, table.text(r, network), "generator's network"),
                   .machine = ours(lambda_machines, table.text(r, machine), "kind of node"),
                   .precision = table.text(r, precision) == "fp16" ? "amp" : "fp32",
                   .training = true,
                   .gpus = gpus_of(table.text(r, machine)),
                   .batch = 0,
                   .rate = table.number(r, rate, 1e-6),
                   .channels_last = false,
                   .through_host = true,
                   .line = line_of(table, r)};
    // The software allows it.
    if (row.precision == "fp32" && row.machine.find("v100") == std::string::npos)
      row.precision = "tf32";
    if (!table.text(r, batch).empty()) {
      row.batch = table.whole(r, batch, 1);
      if (row.batch % row.gpus != 0) throw InputError("the batch is not the same on each GPU");
      row.batch /= row.gpus;
      batches.try_emplace(alike(row), row.batch);
    }
    rows.push_back(std::move(row));
  });
  std::erase_if(rows, [&](ExampleRow& row) {
    if (row.batch > 0) return false;
    const auto known = batches.find(alike(row));
    if (known == batches.end())
      left.skip(row.line, "nothing says the batch");
    else
      row.batch = known->second;
    return row.batch == 0;
  });
  for (ExampleRow& row : rows)
    if (row.model.starts_with("bert")) row.rate *= trained_share(row);
  return rows;
}

}  // namespace

std::optional<Comparison> compare_lambda(const std::string& folder) {
  Comparison all;
  const auto table = read_measured(folder, "measured/lambda/training.csv", all.left);
  if (!table) return std::nullopt;
  std::map<std::string, std::pair<double, double>> known;  // simulated ms and flops, by row
  for (const ExampleRow& row : lambda_rows(*table, all.left)) {
    const auto [found, added] = known.try_emplace(row.text());
    if (added) {
      const ExampleStep step = example_step(row);
      found->second = {
          1e3 * simulated_seconds(row, step, *built_in_devices().devices.at(kind_of(row).value())),
          flops_of(row, step)};
    }
    all.rows.push_back({.what = row.text(),
                        .group = fmt::format("{} {}", row.machine, row.precision),
                        .measured = 1e3 * measured_seconds(row),
                        .simulated = found->second.first,
                        .work = found->second.second,
                        .alike = fmt::format("{} {}", row.machine, row.precision),
                        .lines = {row.line}});
  }
  return all;
}

}  // namespace baechi::validate
