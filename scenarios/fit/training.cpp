#include "scenarios/fit/fit.h"
#include "scenarios/planning/machines.h"
#include "scenarios/run/experiment.h"

namespace baechi {
namespace {

/// LoRA by Hu et al., ICLR 2022: adapters beside all products are trained.
constexpr const char* adapters = "lora_rank=16";

std::string name_of(const ParallelPlan& plan, std::int64_t batch, bool lora) {
  std::string name = lora ? "LoRA 16, " : "";
  if (plan.pipeline > 1) name += fmt::format("pipeline {}, ", plan.pipeline);
  if (plan.data > 1) name += fmt::format("data {}, ZeRO {}, ", plan.data, plan.zero);
  if (plan.recompute == Recomputing::full) name += "recompute, ";
  return name + fmt::format("{} micro-batch{} of {}", plan.micro_batches(batch),
                            plan.micro_batches(batch) == 1 ? "" : "es", plan.micro_batch);
}

FitWay way_of(const FitQuestion& q, const Machines& machines, const SimulatedPlan& simulated,
              bool lora) {
  const ParallelPlan& plan = simulated.plan;
  FitWay way{.name = name_of(plan, q.batch, lora), .variant = {.batch = q.batch}};
  for (std::size_t s = 0; s < simulated.stages.size(); ++s) {
    const PeakMemory& m = simulated.stages[s].by_kind;
    way.memory.push_back(
        {.device = fmt::format("stage {}", s),
         .limit = machines.cluster.device(DeviceId{}).memory + q.reserve,
         .weights = m.weights + m.gradients + m.optimizer_state,
         .buffers = simulated.stages[s].peak - m.weights - m.gradients - m.optimizer_state,
         .reserve = q.reserve});
    way.lacks = std::max(way.lacks, Bytes{} - way.memory.back().spare());
  }
  way.fits = way.lacks <= Bytes{};
  way.step = simulated.step;
  way.per_second = static_cast<double>(q.batch) * 1e9 / static_cast<double>(way.step.count());
  way.command =
      fmt::format("torchrun --nproc-per-node {} TRAIN  # ", machines.devices) +
      (plan.data > 1 ? fmt::format("DeepSpeed zero_optimization.stage {}, ", plan.zero) : "") +
      fmt::format("micro-batch {}{}", plan.micro_batch,
                  plan.recompute == Recomputing::full ? ", activation checkpointing" : "");
  return way;
}

}  // namespace

FitAnswer fit_training(const FitQuestion& q) {
  if (q.model.generator.empty())
    throw InputError("--train: a graph in a file is trained as it is: baechi place FILE");
  ClusterChoice choice;
  choice.devices = q.gpus;
  choice.link = q.between;
  for (DeviceChoice& gpu : choice.devices) gpu.memory = std::max(Bytes{}, gpu.memory - q.reserve);
  require_one_kind(choice);
  Machines machines{.cluster = make_cluster(choice), .gpu = q.gpus.front().model};
  machines.devices = static_cast<std::int64_t>(machines.cluster.num_devices());
  FitAnswer answer;
  for (const bool lora : {false, true}) {
    TrainingJob job{.generator = q.model.generator, .options = q.model.options, .batch = q.batch};
    if (lora && !q.model.writes) break;
    if (lora) {
      const Options::Value* config = job.options.raw("config", "");
      const Options::Value* size = job.options.raw("size", "");
      const std::string base = config != nullptr ? config->text : size != nullptr ? size->text : "";
      job.options.set(
          size != nullptr ? "size" : "config",
          {fmt::format("{}{}{}", base, base.empty() ? "" : "+", adapters), q.model.text});
    }
    PlanSpace space;
    space.tensor = {1};
    space = with_defaults(space, job, machines);
    std::atomic<std::size_t> done = 0;
    for (const SimulatedPlan& plan : fastest_plans(job, space, machines, 6, done).fastest)
      answer.ways.push_back(way_of(q, machines, plan, lora));
    if (!lora) answer.fits = !answer.ways.empty();
    if (answer.evidence.empty()) answer.evidence = evidence_of(rank_graph(job, {}), *machines.gpu);
    if (!lora && !answer.fits)  // what takes the least
      answer.ways.push_back(
          way_of(q, machines, simulated_plan(job, {.data = machines.devices, .zero = 3}, machines),
                 false));
  }
  std::ranges::stable_sort(answer.ways, {},
                           [](const FitWay& w) { return std::pair(!w.fits, w.step); });
  return answer;
}

}  // namespace baechi
