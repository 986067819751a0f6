// FlagPerf (BAAI): the memory of trainings on A100.
#include <array>

#include "scenarios/read/device_table.h"
#include "sim/engine/simulation.h"
#include "validate/published/examples.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

/// The number behind `key` in "bs=256,lr=0.8". Throws InputError if there is none.
std::int64_t setting(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  const auto value = at == std::string_view::npos
                         ? std::nullopt
                         : parse_number<std::int64_t>(
                               text.substr(at + key.size(), text.find(',', at) - at - key.size()));
  if (!value || *value < 1)
    throw InputError(fmt::format("'{}' says no {}number: it is the case's default", text, key));
  return *value;
}

/// The peak of a step on one GPU.
double peak_gib(const OpGraph& graph, const DeviceModel& device) {
  const OpGraph timed = graph.with_times("", roofline_times(graph, device));
  const Cluster cluster = Cluster::uniform(1, device.memory, Link{});
  const ProfiledCosts costs(timed, cluster);
  const StepResult result =
      simulate({.graph = timed,
                .cluster = cluster,
                .costs = costs,
                .engine = {.queue = ReadyOrder::program, .enforce_memory = false}},
               {.device = IdVector<OpId, DeviceId>(timed.num_ops(), DeviceId{0})});
  return static_cast<double>(result.devices[DeviceId{0}].peak.count) / double(1U << 30U);
}

}  // namespace

std::optional<Comparison> compare_flagperf(const std::string& folder) {
  Comparison all;
  const auto table = read_measured(folder, "measured/flagperf/training.csv", all.left);
  if (!table) return std::nullopt;
  const std::size_t model = table->column("model"), gpu = table->column("gpu"),
                    precision = table->column("precision"),
                    settings = table->column("hyperparameters"),
                    memory = table->column("memory_gib");
  each_row(*table, all.left, [&](std::size_t r) {
    if (table->text(r, model) != "resnet50-pytorch" || table->text(r, gpu) != "A100")
      throw InputError(
          fmt::format("no generator makes '{}' as it was trained there", table->text(r, model)));
    const std::string& used = table->text(r, memory);
    const auto gib = parse_number<double>(used.substr(0, used.find('/')));
    if (!gib) throw InputError(fmt::format("memory_gib '{}' is not USED/LIMIT", used));
    const ExampleRow row{.framework = "pytorch",
                         .model = "resnet50",
                         .machine = "dgx-a100-40g",
                         .precision = table->text(r, precision) == "fp32" ? "tf32" : "amp",
                         .training = true,
                         .batch = setting(table->text(r, settings), "bs=")};
    all.rows.push_back({.what = fmt::format("{}, batch {}", row.precision, row.batch),
                        .measured = *gib,
                        .simulated = peak_gib(example_step(row).update,
                                              *built_in_devices().devices.at("a100_40gb_pytorch")),
                        .work = static_cast<double>(row.batch),
                        .lines = {line_of(*table, r)}});
  });
  return all;
}

}  // namespace baechi::validate
