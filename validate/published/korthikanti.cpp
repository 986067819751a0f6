// Steps of Korthikanti et al., "Reducing activation recomputation in large transformer models",
// MLSys 2023, table 5.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "validate/published/measured_files.h"
#include "validate/published/published.h"
#include "validate/published/vtrain.h"

namespace baechi::validate {
namespace {

/// The models of its table 3.
struct PaperModel {
  std::string_view name;
  std::int64_t hidden = 0, layers = 0, heads = 0;
};
constexpr std::array<PaperModel, 4> paper_models{{{"megatron-22B", 6144, 48, 64},
                                                  {"gpt3-175B", 12'288, 96, 96},
                                                  {"turing-530B", 20'480, 105, 128},
                                                  {"megatron-1T", 25'600, 128, 160}}};
constexpr std::int64_t paper_length = 2048;

/// Stages with several parts each wait a part of the time for the first micro-batch (Narayanan et
/// al., SC 2021): of M + p - 1 times of a micro-batch, M + (p - 1) / parts are left.
double interleaved(double ms, const GptStep& s, std::int64_t parts) {
  const auto m = static_cast<double>(s.micro_batches()), p = static_cast<double>(s.pipeline);
  return ms * (m + (p - 1.0) / static_cast<double>(parts)) / (m + p - 1.0);
}

}  // namespace

std::optional<Comparison> compare_korthikanti(const std::string& folder) {
  Comparison all;
  const auto table = read_measured(folder, "measured/korthikanti/selective.csv", all.left);
  if (!table) return std::nullopt;
  const std::size_t name = table->column("model"), gpus = table->column("gpus"),
                    tensor = table->column("tensor"), pipeline = table->column("pipeline"),
                    data = table->column("data"), batch = table->column("batch"),
                    micro = table->column("micro_batch"), parts = table->column("interleaving"),
                    quantity = table->column("quantity"), how = table->column("how"),
                    value = table->column("value");
  each_row(*table, all.left, [&](std::size_t row) {
    if (table->text(row, quantity) != "step_s")
      throw InputError("memory by the paper's formulas, not measured");
    if (table->text(row, how) != "full recompute")
      throw InputError("no plan has sequence parallelism or recomputes parts of a layer");
    const auto model = std::ranges::find(paper_models, table->text(row, name), &PaperModel::name);
    if (model == paper_models.end())
      throw InputError(fmt::format("no model '{}'", table->text(row, name)));
    const GptStep step{.gpus = table->whole(row, gpus, 1),
                       .batch = table->whole(row, batch, 1),
                       .micro_batch = table->whole(row, micro, 1),
                       .hidden = model->hidden,
                       .heads = model->heads,
                       .layers = model->layers,
                       .length = paper_length,
                       .tensor = table->whole(row, tensor, 1),
                       .data = table->whole(row, data, 1),
                       .pipeline = table->whole(row, pipeline, 1)};
    const std::int64_t v = table->whole(row, parts, 1);
    const double ms = simulated_ms(parallel_step(step), megatron_gpu());
    all.rows.push_back(
        {.what = fmt::format("{}, t {} p {}", model->name, step.tensor, step.pipeline),
         .measured = table->number(row, value),
         .simulated = interleaved(ms, step, v) / 1e3,
         .work = static_cast<double>(step.layers) * layer_flops(step) + head_flops(step),
         .lines = {line_of(*table, row)}});
  });
  return all;
}

}  // namespace baechi::validate
