#include "scenarios/fit/trials.h"
#include "scenarios/planning/machines.h"

namespace baechi {
namespace {

/// What is trained: all weights, or adapters of all GEMMs (Hu et al., "LoRA", ICLR 2022), also with
/// frozen weights in 4 bits (Dettmers et al., "QLoRA", NeurIPS 2023).
struct Trained {
  std::string name{};
  std::int64_t rank = 0;  ///< of adapters; 0: all weights are trained
  std::string frozen{}, how{};
};
std::vector<Trained> ways_to_train(std::int64_t rank) {
  const std::string peft = fmt::format("peft LoraConfig r={}, ", rank);
  return {{},
          {fmt::format("LoRA {}, ", rank), rank, "", peft},
          {fmt::format("QLoRA {}, ", rank), rank, "nf4_double",
           "load_in_4bit, bnb_4bit_use_double_quant, " + peft}};
}

std::string name_of(const ParallelPlan& plan, std::int64_t batch, const Trained& trained) {
  std::string name = trained.name;
  if (plan.pipeline > 1) name += fmt::format("pipeline {}, ", plan.pipeline);
  if (plan.data > 1) name += fmt::format("data {}, ZeRO {}, ", plan.data, plan.zero);
  if (plan.recompute == Recomputing::full) name += "recompute, ";
  return name + fmt::format("{} micro-batch{} of {}", plan.micro_batches(batch),
                            plan.micro_batches(batch) == 1 ? "" : "es", plan.micro_batch);
}

FitWay way_of(const FitQuestion& q, const Machines& machines, const SimulatedPlan& simulated,
              const Trained& trained) {
  const ParallelPlan& plan = simulated.plan;
  FitWay way{.name = name_of(plan, q.batch, trained), .variant = {.batch = q.batch}};
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
      fmt::format("torchrun --nproc-per-node {} TRAIN  # {}", machines.devices, trained.how) +
      (plan.data > 1 ? fmt::format("DeepSpeed zero_optimization.stage {}, ", plan.zero) : "") +
      fmt::format("micro-batch {}{}", plan.micro_batch,
                  plan.recompute == Recomputing::full ? ", activation checkpointing" : "");
  return way;
}

Options with_adapters(const FitModel& model, const Trained& trained) {
  Options options = model.options;
  const bool size = options.raw("size", "") != nullptr;
  const Options::Value* given = options.raw(size ? "size" : "config", "");
  const std::string base = given == nullptr ? "" : given->text;
  options.set(
      size ? "size" : "config",
      {fmt::format("{}{}lora_rank={}", base, base.empty() ? "" : "+", trained.rank), model.text});
  return options;
}

/// The layers in a line of GPUs, which may be of several kinds, all samples in one pass; and, where
/// the host has memory, the optimizer on it.
void add_lines(FitQuestion q, const Trained& trained, FitAnswer& answer) {
  q.model.train = true;
  q.model.writes = false;
  FitTrials trials(q);
  for (const bool host : {false, true}) {
    if (host && (q.host == Bytes{} || trained.rank > 0)) continue;
    std::string name = fmt::format("{}layers in a line, recompute", trained.name);
    if (host) name += ", optimizer on the host";
    FitWay way = trials.way(name, {.variant = {.weights = trained.frozen, .batch = q.batch},
                                   .elsewhere = {.optimizer = host}});
    if (way.fits && host && trials.gpus() > 1)
      way.command = "no framework we export to";
    else if (way.fits)
      way.command = fmt::format(
          "{} TRAIN  # {}{}, gradient checkpointing", host ? "deepspeed --num_gpus 1" : "python",
          trained.how,
          host ? "zero_optimization: stage 2, offload_optimizer.device cpu" : "device_map auto");
    answer.fits |= way.fits && trained.rank == 0 && !host;
    answer.ways.push_back(std::move(way));
  }
  if (answer.evidence.empty()) answer.evidence = trials.evidence;
}

}  // namespace

FitAnswer fit_training(const FitQuestion& q) {
  if (q.model.generator.empty())
    throw InputError("--train: a graph in a file is trained as it is: baechi place FILE");
  ClusterChoice choice;
  choice.devices = q.gpus;
  choice.link = q.between;
  for (DeviceChoice& gpu : choice.devices) gpu.memory = std::max(Bytes{}, gpu.memory - q.reserve);
  const bool one_kind = std::ranges::all_of(choice.devices, [&](const DeviceChoice& gpu) {
    return gpu.model == q.gpus.front().model && gpu.memory == choice.devices.front().memory;
  });
  Machines machines{.cluster = make_cluster(choice), .gpu = q.gpus.front().model};
  machines.devices = static_cast<std::int64_t>(machines.cluster.num_devices());
  FitAnswer answer;
  for (const Trained& trained : ways_to_train(q.lora_rank)) {
    const bool all = trained.rank == 0;
    if (!all && !q.model.writes) break;
    FitQuestion asked = q;
    if (!all) asked.model.options = with_adapters(q.model, trained);
    TrainingJob job{.generator = q.model.generator,
                    .options = asked.model.options,
                    .batch = q.batch,
                    .frozen = trained.frozen};
    set_training_kernels(job.options, job.frozen);
    if (one_kind) {
      PlanSpace space;
      space.tensor = {1};
      space = with_defaults(space, job, machines);
      std::atomic<std::size_t> done = 0;
      for (const SimulatedPlan& plan : fastest_plans(job, space, machines, 3, done).fastest)
        answer.ways.push_back(way_of(q, machines, plan, trained));
      if (all) answer.fits = !answer.ways.empty();
      if (answer.evidence.empty())
        answer.evidence = evidence_of(rank_graph(job, {}), *machines.gpu);
      const bool divided = machines.devices > 1 && q.batch % machines.devices == 0;
      const ParallelPlan least{.data = divided ? machines.devices : 1,
                               .pipeline = divided ? 1 : machines.devices,
                               .zero = divided ? 3 : 0};
      if (all && !answer.fits)  // what takes the least
        answer.ways.push_back(way_of(q, machines, simulated_plan(job, least, machines), trained));
    }
    if (!one_kind || q.host > Bytes{}) add_lines(std::move(asked), trained, answer);
  }
  std::ranges::stable_sort(answer.ways, {},
                           [](const FitWay& w) { return std::pair(!w.fits, w.step); });
  return answer;
}

}  // namespace baechi
