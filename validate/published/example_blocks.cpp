// The blocks of NVIDIA's examples on one GPU.
#include <algorithm>

#include "scenarios/read/device_table.h"
#include "validate/published/examples.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

/// The rows that `counts`, each as milliseconds; rows whose speed is unknown are skipped.
std::optional<Comparison> milliseconds(const std::string& folder, const auto& read,
                                       const auto& counts, const auto& group) {
  Comparison all;
  const auto rows = read(folder, all.left);
  if (!rows) return std::nullopt;
  for (const ExampleRow& row : *rows) {
    if (!counts(row)) continue;
    if (const std::string why = unknown_speed(row); !why.empty()) {
      all.left.skip(row.line, why);
      continue;
    }
    const ExampleStep step = example_step(row);
    const DeviceModel& device = *built_in_devices().devices.at(kind_of(row).value());
    all.rows.push_back({.what = row.text(),
                        .group = group(row),
                        .measured = 1e3 * measured_seconds(row),
                        .simulated = 1e3 * simulated_seconds(row, step, device),
                        .work = flops_of(row, step),
                        .alike = fmt::format("{} {}", row.machine, row.precision),
                        .lines = {row.line}});
  }
  return all;
}

std::string gpu_and_format(const ExampleRow& row) {
  return fmt::format("{} {}", row.machine, row.precision);
}

bool is_pytorch(const ExampleRow& row) {
  return row.base_framework() == "pytorch";
}

}  // namespace

std::optional<Comparison> compare_inference(const std::string& folder) {
  return milliseconds(folder, inference_rows, is_pytorch, gpu_and_format);
}

std::optional<Comparison> compare_other_inference(const std::string& folder) {
  return milliseconds(
      folder, inference_rows, [](const ExampleRow& row) { return !is_pytorch(row); },
      [](const ExampleRow& row) { return row.framework; });
}

std::optional<Comparison> compare_training(const std::string& folder) {
  return milliseconds(
      folder, training_rows, [](const ExampleRow& row) { return row.gpus == 1; },
      [](const ExampleRow& row) { return row.framework; });
}

/// Rows of several GPUs, but for those of bert_data_parallel. Where images are decoded, or
/// sentences are of unequal length, more than the sum of gradients slows them; nothing here knows
/// of it.
std::optional<Comparison> compare_training_parallel(const std::string& folder) {
  return milliseconds(
      folder, training_rows,
      [](const ExampleRow& row) {
        return row.gpus > 1 && !(is_pytorch(row) && row.model.starts_with("bert-large"));
      },
      [](const ExampleRow& row) { return row.framework; });
}

/// Per sample, how much faster mixed precision is than the other format on the same machine. Of
/// PyTorch's BERT pretraining, too: it skips the same padding in both.
std::optional<Comparison> compare_mixed_precision(const std::string& folder) {
  Comparison all;
  const auto rows = training_rows(folder, all.left);
  if (!rows) return std::nullopt;
  const auto per_sample = [](const ExampleRow& row, double seconds) {
    return seconds / static_cast<double>(row.batch * row.passes);
  };
  const auto simulated = [](const ExampleRow& row) {
    return simulated_seconds(row, *built_in_devices().devices.at(kind_of(row).value()));
  };
  for (const ExampleRow& mixed : *rows) {
    if (!mixed.mixed() || mixed.gpus != 1) continue;
    const auto plain = std::ranges::find_if(*rows, [&](const ExampleRow& row) {
      return !row.mixed() && row.gpus == 1 && row.framework == mixed.framework &&
             row.model == mixed.model && row.machine == mixed.machine && row.length == mixed.length;
    });
    const bool asked = has_model(mixed) && kind_of(mixed).has_value();
    if (!asked || plain == rows->end()) {
      all.left.skip(mixed.line, asked ? "no row of the same step in another number format"
                                      : unknown_speed(mixed));
      continue;
    }
    all.rows.push_back(
        {.what = fmt::format("{}, against {}", mixed.text(), plain->precision),
         .group = fmt::format("{} against {}", mixed.framework, plain->precision),
         .measured = per_sample(*plain, measured_seconds(*plain)) /
                     per_sample(mixed, measured_seconds(mixed)),
         .simulated = per_sample(*plain, simulated(*plain)) / per_sample(mixed, simulated(mixed)),
         .work = 1.0,
         .alike = fmt::format("{} {}", mixed.machine, plain->precision),
         .lines = {mixed.line, plain->line}});
  }
  return all;
}

}  // namespace baechi::validate
