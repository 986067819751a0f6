// The blocks of NVIDIA's examples on one GPU.
#include <algorithm>

#include "scenarios/read/device_table.h"
#include "validate/published/examples.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

double simulated(const ExampleRow& row) {
  return simulated_seconds(row, *built_in_devices().devices.at(kind_of(row).value()));
}

/// The rows that `counts`, each as milliseconds.
std::vector<PublishedRow> milliseconds(const std::vector<ExampleRow>& rows, const auto& counts,
                                       const auto& group) {
  std::vector<PublishedRow> out;
  for (const ExampleRow& row : rows)
    if (has_known_speed(row) && counts(row))
      out.push_back({.what = row.text(),
                     .group = group(row),
                     .measured = 1e3 * measured_seconds(row),
                     .simulated = 1e3 * simulated(row)});
  return out;
}

std::string gpu_and_format(const ExampleRow& row) {
  return fmt::format("{} {}", row.machine, row.precision);
}

bool is_pytorch(const ExampleRow& row) {
  return row.base_framework() == "pytorch";
}

}  // namespace

std::optional<std::vector<PublishedRow>> compare_inference(const std::string& folder) {
  const auto rows = inference_rows(folder);
  if (!rows) return std::nullopt;
  return milliseconds(*rows, is_pytorch, gpu_and_format);
}

std::optional<std::vector<PublishedRow>> compare_other_inference(const std::string& folder) {
  const auto rows = inference_rows(folder);
  if (!rows) return std::nullopt;
  return milliseconds(
      *rows, [](const ExampleRow& row) { return !is_pytorch(row); },
      [](const ExampleRow& row) { return row.framework; });
}

std::optional<std::vector<PublishedRow>> compare_training(const std::string& folder) {
  const auto rows = training_rows(folder);
  if (!rows) return std::nullopt;
  return milliseconds(
      *rows, [](const ExampleRow&) { return true; },
      [](const ExampleRow& row) { return row.framework; });
}

/// Per sample, how much faster mixed precision is than the other format on the same machine. Of
/// PyTorch's BERT pretraining, too: it skips the same padding in both.
std::optional<std::vector<PublishedRow>> compare_mixed_precision(const std::string& folder) {
  const auto rows = training_rows(folder);
  if (!rows) return std::nullopt;
  std::vector<PublishedRow> out;
  const auto countable = [](const ExampleRow& row) {
    return row.gpus == 1 && has_model(row) && kind_of(row);
  };
  const auto per_sample = [](const ExampleRow& row, double seconds) {
    return seconds / static_cast<double>(row.batch * row.passes);
  };
  for (const ExampleRow& mixed : *rows) {
    if (!mixed.mixed() || !countable(mixed)) continue;
    const auto plain = std::ranges::find_if(*rows, [&](const ExampleRow& row) {
      return !row.mixed() && countable(row) && row.framework == mixed.framework &&
             row.model == mixed.model && row.machine == mixed.machine && row.length == mixed.length;
    });
    if (plain == rows->end()) continue;
    out.push_back(
        {.what = fmt::format("{}, against {}", mixed.text(), plain->precision),
         .group = fmt::format("{} against {}", mixed.framework, plain->precision),
         .measured = per_sample(*plain, measured_seconds(*plain)) /
                     per_sample(mixed, measured_seconds(mixed)),
         .simulated = per_sample(*plain, simulated(*plain)) / per_sample(mixed, simulated(mixed))});
  }
  return out;
}

}  // namespace baechi::validate
