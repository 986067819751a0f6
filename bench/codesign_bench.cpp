/// The search for architectures: op times, and schedules of a layer.
#include <benchmark/benchmark.h>

#include "scenarios/studies/codesign/design_plans.h"

namespace {

using namespace baechi;
using namespace baechi::literals;

constexpr AcceleratorRates rates{.clock = 1.05e9, .memory = {900e9}, .word = Bytes{2}};

TrainingWork gpt_work() {
  TrainingJob job{.generator = "gpt", .options = Options("gpt"), .batch = 1};
  for (const auto& [key, value] : {std::pair{"num_hidden_layers", "4"}, {"hidden_size", "1024"}})
    job.options.set(key, {value, {}, {}});
  return training_work(job, 1, 1, Cluster::uniform(1, 1_GiB, Link{.bandwidth = {1e9}}));
}

/// Architectures that differ in all parameters.
Accelerator architecture(std::int64_t i) {
  return {.tensor_cores = std::int64_t{1} << (i % 13),
          .vector_cores = std::int64_t{1} << (i / 13 % 13),
          .width = std::int64_t{2} << (i / 169 % 8),
          .depth = std::int64_t{2} << (i / 1352 % 8),
          .buffer = Bytes{std::int64_t{2 << 20} << (i % 7)}};
}

/// Thirty op shapes of GPT on each of N architectures; items: op times.
void core_costs(benchmark::State& state) {
  std::vector<CoreOp> shapes;
  const TrainingWork work = gpt_work();
  for (const LayerWork& layer : work.kinds)
    for (const auto& pass : layer.passes)
      for (const CoreTask& task : pass)
        if (shapes.size() < 30 && std::ranges::find(shapes, task.op) == shapes.end())
          shapes.push_back(task.op);
  for (auto _ : state)
    for (std::int64_t i = 0; i < state.range(0); ++i)
      for (const CoreOp& op : shapes)
        benchmark::DoNotOptimize(core_cost(op, architecture(i), rates));
  state.SetItemsProcessed(state.iterations() * state.range(0) *
                          static_cast<std::int64_t>(shapes.size()));
}
BENCHMARK(core_costs)->Arg(29'360)->Unit(benchmark::kMillisecond);

/// The forward pass of a layer of GPT, op times included; items: schedules.
void layer_schedules(benchmark::State& state) {
  const TrainingWork work = gpt_work();
  const std::vector<CoreTask>& layer = work.kinds[work.blocks[1]].passes[0];
  std::int64_t i = 0;
  for (auto _ : state) {
    const Accelerator a = architecture(i++);
    benchmark::DoNotOptimize(list_schedule(pool_tasks(layer, a, rates), a, rates));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(layer_schedules);

}  // namespace
