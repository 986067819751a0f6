#include "validate/published/vtrain.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/read/device_table.h"
#include "sim/cluster/device_model.h"
#include "sim/error.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

constexpr const char* gpu_kind = "a100_megatron";
constexpr std::int64_t per_node = 8;
/// Words that are not padded: each rank has as many as all have.
constexpr std::int64_t unpadded = 50'257;

std::vector<GptStep> read_steps(const CsvTable& table, Leftovers& left) {
  const std::size_t first = table.column("# GPUs");
  std::vector<GptStep> steps;
  each_row(table, left, [&](std::size_t row) {
    const auto whole = [&](std::size_t i) { return table.whole(row, first + i, 1); };
    GptStep s{.gpus = whole(0),
              .batch = whole(1),
              .micro_batch = whole(2),
              .hidden = whole(3),
              .heads = whole(4),
              .layers = whole(5),
              .length = whole(6),
              .tensor = whole(7),
              .data = whole(8),
              .pipeline = whole(9),
              .ms = table.number(row, first + 10),
              .line = line_of(table, row)};
    if (s.tensor * s.data * s.pipeline > s.gpus || s.micro_batches() < 1)
      throw InputError(table.where(row, first) + ": no such step: " + s.what());
    steps.push_back(std::move(s));
  });
  return steps;
}

Cluster cluster_for(const GptStep& s, const std::string& network) {
  const std::int64_t nodes = (s.tensor * s.data * s.pipeline + per_node - 1) / per_node;
  return cluster_of(fmt::format("nodes: {{kind: dgx_a100, nics: 4, count: {}{}{}}}", nodes,
                                network.empty() ? "" : ", ", network));
}

}  // namespace

std::string network_text(double efficiency, double nics_per_group) {
  return fmt::format(
      "network_efficiency: {:g}, collectives: {{model: hierarchical, nics_per_group: {:g}, inside: "
      "{{kind: a100_nvlink}}}}",
      efficiency, nics_per_group);
}

ParallelStep parallel_step(const GptStep& s, const std::string& network) {
  const auto text = [](std::int64_t n) { return Options::Value{std::to_string(n), {}, {}}; };
  const TrainingJob job{
      .generator = "gpt",
      .options = Options("gpt", {{"layers", text(s.layers)},
                                 {"hidden", text(s.hidden)},
                                 {"heads", text(s.heads)},
                                 {"length", text(s.length)},
                                 {"vocabulary", text(s.vocabulary)},
                                 {"tied", {"false", {}, {}}},
                                 {"kernels", {"megatron", {}, {}}},
                                 {"loss", {s.one_loss ? "fused" : "separate", {}, {}}}}),
      .batch = s.batch};
  const ParallelPlan plan{.tensor = s.tensor,
                          .data = s.data,
                          .pipeline = s.pipeline,
                          .micro_batch = s.micro_batch,
                          .recompute = s.recompute};
  return {rank_graph(job, plan), job, plan,
          std::make_shared<const Cluster>(cluster_for(s, network))};
}

double simulated_ms(const ParallelStep& step, const DeviceModel& gpu) {
  return to_us(step.simulated(gpu, false).makespan) / 1e3;
}

const DeviceModel& megatron_gpu() {
  return *built_in_devices().devices.at(gpu_kind);
}

/// vTrain's program makes them of the kernels of one traced step: nothing is computed again, a rank
/// has 50 257 words divided by the ranks and rounded down, and the loss is PyTorch's, in 16 bits.
/// Source: VIA-Research/vTrain, src/model/gpt_modeling.py, src/trainer.py. Rows of several stages
/// say of recomputing: a stage before the last takes no longer than the last one, which that
/// program never lets compute again.
std::optional<std::vector<GptStep>> vtrain_single_node(const std::string& folder, Leftovers& left) {
  const auto table = read_measured(folder, "vtrain/measured_single_node.csv", left);
  if (!table) return std::nullopt;
  auto steps = read_steps(*table, left);
  for (GptStep& s : steps) {
    s.vocabulary = unpadded / s.tensor * s.tensor;
    s.recompute = Recomputing::off;
    s.one_loss = true;
  }
  return steps;
}

std::optional<std::vector<GptStep>> vtrain_multi_node(const std::string& folder, Leftovers& left) {
  const auto table = read_measured(folder, "vtrain/measured_multi_node.csv", left);
  if (!table) return std::nullopt;
  return read_steps(*table, left);
}

namespace {

double product(std::initializer_list<std::int64_t> factors) {
  double all = 1.0;
  for (const std::int64_t f : factors) all *= static_cast<double>(f);
  return all;
}

}  // namespace

double layer_flops(const GptStep& s) {
  const std::int64_t passes = s.recompute == Recomputing::full ? 4 : 3;
  return product({2 * passes, s.batch, s.length, s.hidden, 12 * s.hidden + 2 * s.length}) /
         product({s.tensor, s.data, s.pipeline});
}
double head_flops(const GptStep& s) {
  return product({6, s.batch, s.length, s.hidden, s.vocabulary}) /
         product({s.tensor, s.data, s.pipeline});
}

}  // namespace baechi::validate
