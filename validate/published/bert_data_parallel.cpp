#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/read/device_table.h"
#include "sim/engine/simulation.h"
#include "sim/transform/transform.h"
#include "validate/published/examples.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

/// A machine of the file: its nodes, and their kind of device.
struct BertMachine {
  std::string name, nodes, device;
};
const BertMachine* machine_of(const ExampleRow& row) {
  static const BertMachine known[] = {{"dgx-a100-80g", "dgx_a100", "a100"},
                                      {"dgx1-v100-32g", "dgx1_v100", "v100"},
                                      {"dgx1-v100-16g", "dgx1_v100", "v100"}};
  const auto* found = std::ranges::find(known, row.machine, &BertMachine::name);
  return found == std::end(known) ? nullptr : found;
}

bool is_bert(const ExampleRow& row) {
  return row.base_framework() == "pytorch" && row.model.starts_with("bert-large") &&
         machine_of(row) != nullptr;
}

/// Whether one GPU of the row `one` computes what each GPU of `row` does, maybe in more passes.
bool is_alone(const ExampleRow& one, const ExampleRow& row) {
  return is_bert(one) && one.gpus == 1 && one.model == row.model && one.machine == row.machine &&
         one.framework == row.framework && one.precision == row.precision &&
         one.batch == row.batch && one.length == row.length;
}

Duration on_one_gpu(const OpGraph& graph, const BertMachine& machine) {
  Duration total{};
  for (const Duration time : roofline_times(graph, *built_in_devices().devices.at(machine.device)))
    total += time;
  return total;
}

/// The last pass with its updates, of which each op takes `scale` of its roofline time, and the sum
/// of the gradients. Gradients of several passes are summed after the last; of one, as they come.
Duration with_replicas(const OpGraph& graph, const ExampleRow& row, const BertMachine& machine,
                       double scale) {
  IdVector<OpId, Duration> times =
      roofline_times(graph, *built_in_devices().devices.at(machine.device));
  for (Duration& time : times)
    time = Duration{std::llround(scale * static_cast<double>(time.count()))};
  const auto text = [](std::int64_t n) { return Options::Value{std::to_string(n), {}, {}}; };
  const auto parallel = make_transform(
      "data_parallel",
      Options("data_parallel", {{"replicas", text(row.gpus)},
                                {"nodes", text(row.nodes)},
                                {"mode", {row.passes > 1 ? "after" : "ddp", {}, {}}}}));
  const OpGraph replica = parallel->apply(graph.with_times(machine.device, times)).graph;
  const PlacedStep step =
      parallel->after_placing(replica, IdVector<OpId, DeviceId>(replica.num_ops()));
  const Cluster cluster =
      cluster_of(fmt::format("nodes: {{kind: {}, count: {}}}", machine.nodes, row.nodes));
  const ProfiledCosts costs(step.graph, cluster);
  return simulate({step.graph, cluster, costs, {.enforce_memory = false, .count_memory = false}},
                  {.device = step.device})
      .makespan;
}

}  // namespace

/// What more GPUs add to the step of one, whose time is taken from the file: the roofline's times
/// are scaled to it, so that only the sums of gradients are predicted.
std::optional<Comparison> compare_bert_data_parallel(const std::string& folder) {
  Comparison all;
  const auto rows = training_rows(folder, all.left);
  if (!rows) return std::nullopt;
  for (const ExampleRow& row : *rows) {
    if (!is_bert(row) || row.gpus == 1) continue;
    const auto one =
        std::ranges::find_if(*rows, [&](const ExampleRow& other) { return is_alone(other, row); });
    if (one == rows->end()) {
      all.left.skip(row.line, "no row of the same step on one GPU");
      continue;
    }
    const BertMachine& machine = *machine_of(row);
    const ExampleStep step = example_step(row), alone = example_step(*one);
    const auto ms = [](Duration time) { return to_us(time) / 1e3; };
    const auto earlier = [&](const ExampleRow& of, const OpGraph& pass) {
      return static_cast<double>(of.passes - 1) * ms(on_one_gpu(pass, machine));
    };
    const double scale = 1e3 * measured_seconds(*one) /
                         (earlier(*one, alone.pass) + ms(on_one_gpu(alone.update, machine)));
    all.rows.push_back({.what = row.text(),
                        .group = fmt::format("{} GPUs", row.gpus),
                        .measured = 1e3 * measured_seconds(row),
                        .simulated = scale * earlier(row, step.pass) +
                                     ms(with_replicas(step.update, row, machine, scale)),
                        .work = 1e3 * measured_seconds(*one) * static_cast<double>(row.passes) /
                                static_cast<double>(one->passes),
                        .lines = {row.line, one->line}});
  }
  return all;
}

}  // namespace baechi::validate
