#include <fmt/format.h>

#include <filesystem>

#include "cli/arguments.h"
#include "cli/cluster_flags.h"
#include "cli/output.h"
#include "cli/place_plan.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "placers/planners/registry.h"
#include "scenarios/planning/machines.h"
#include "scenarios/planning/plan_scenario.h"
#include "scenarios/run/build.h"
#include "sim/error.h"
#include "sim/find_entry.h"
#include "sim/status.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

struct PlanArguments {
  std::string model, format, planner, output;
  ClusterFlags cluster;
  std::string nodes, as;
  std::int64_t batch = 0;
  std::size_t top = 10;
  std::vector<std::int64_t> tensor, pipeline, micro_batch;
  std::vector<std::string> recompute{"off", "on"}, precision{"fp16"};
  std::vector<int> zero{0, 1, 2, 3};
  std::string gradients, scenario;
};

struct Machines {
  Cluster cluster;
  std::shared_ptr<const DeviceModel> gpu;
};

/// The devices' memory is what --memory says, else that of --as, else their kind's.
Machines machines_of(const PlanArguments& a) {
  ClusterChoice choice = a.nodes.empty() ? read_cluster_flags(a.cluster)
                                         : cluster_of_nodes(a.nodes, a.cluster.devices);
  const auto gpu =
      a.as.empty() ? device_kind(choice.devices.front().kind, "--kind") : device_kind(a.as, "--as");
  require_one_kind(choice);
  for (DeviceChoice& devices : choice.devices) {
    if (!a.as.empty()) devices.memory = gpu->memory;
    if (a.nodes.empty() || a.cluster.memory.empty()) continue;
    const auto memory = parse_bytes(a.cluster.memory);
    if (!memory)
      throw InputError(
          fmt::format("--memory: '{}' is not a size such as '80 GB'", a.cluster.memory));
    devices.memory = *memory;
  }
  return {make_cluster(choice), gpu};
}

/// When gradients are sent with ZeRO 0 and 1: as Megatron-LM or, on other kinds of devices, as
/// PyTorch's DistributedDataParallel and DeepSpeed.
std::array<Sending, 2> sending(const PlanArguments& a, const DeviceModel& gpu) {
  if (const auto given = parse<Sending>(a.gradients)) return {*given, *given};
  const bool megatron = gpu.name.ends_with("_megatron");
  return {megatron ? Sending::after : Sending::beside, Sending::after};
}

/// "after", "beside" or, because nobody keeps whole gradients, "each pass".
std::string sent_text(const ParallelPlan& plan) {
  if (plan.data == 1) return "-";
  const DataParallelOptions options = plan.data_parallel(1);
  if (options.sends_each_pass()) return "each pass";
  return options.sends_after() ? "after" : "beside";
}

PlanSpace space_of(const PlanArguments& a, const DeviceModel& gpu) {
  PlanSpace space{.tensor = a.tensor,
                  .pipeline = a.pipeline,
                  .micro_batch = a.micro_batch,
                  .recompute = {},
                  .precision = a.precision,
                  .zero = a.zero,
                  .send = sending(a, gpu)};
  for (const std::string& word : a.recompute) space.recompute.push_back(word == "on");
  return space;
}

std::string counts_text(const PlanAnswer& answer) {
  return fmt::format(
      "{} plans: {} do not fit by their weights, gradients, optimizer state and what backward "
      "passes wait for; {} simulated, of which {} ran out of memory; {} slower by a lower bound",
      answer.considered, answer.too_large, answer.simulated, answer.out_of_memory, answer.slower);
}

Report report_of(const PlanAnswer& answer, const TrainingJob& job) {
  Report report({{"", ""},
                 {"tensor", "tensor"},
                 {"data", "data"},
                 {"pipeline", "pipeline"},
                 {"", "micro-batch"},
                 {"micro_batch", {}},
                 {"micro_batches", {}},
                 {"recompute", "recompute"},
                 {"precision", "precision"},
                 {"zero", "ZeRO"},
                 {"gradients_sent", "sent"},
                 {"step_time_us", "step"},
                 {"samples_per_s", "samples/s"},
                 {"bubble", "bubble"},
                 {"peak_bytes", "memory"},
                 {"weights_bytes", "weights"},
                 {"gradients_bytes", "gradients"},
                 {"optimizer_state_bytes", "optimizer"},
                 {"activations_bytes", "activations"},
                 {"workspace_bytes", {}},
                 {"copies_bytes", {}}});
  std::size_t rank = 0;
  for (const SimulatedPlan& row : answer.fastest) {
    const ParallelPlan& p = row.plan;
    const PeakMemory& memory = row.fullest.by_kind;
    const std::int64_t passes = p.micro_batches(job.batch);
    const double samples = static_cast<double>(job.batch) / (to_us(row.step) / 1e6);
    report.add({++rank,
                p.tensor,
                p.data,
                p.pipeline,
                fmt::format("{} x {}", passes, p.micro_batch),
                p.micro_batch,
                passes,
                p.recompute,
                p.precision,
                p.zero,
                sent_text(p),
                row.step,
                Cell(samples, fmt::format("{:.4g}", samples)),
                Cell(row.bubble, fmt::format("{:.1f} %", 100.0 * row.bubble)),
                memory.total(),
                memory.weights,
                memory.gradients,
                memory.optimizer_state,
                memory.activations,
                memory.workspace,
                memory.copies});
  }
  return report;
}

nlohmann::ordered_json json_of(const PlanAnswer& answer, const Report& plans,
                               const DeviceModel& gpu) {
  return {{"status", to_text(answer.fastest.empty() ? Status::infeasible : Status::ok)},
          {"plans", plans.json()},
          {"considered", answer.considered},
          {"too_large", answer.too_large},
          {"simulated", answer.simulated},
          {"out_of_memory", answer.out_of_memory},
          {"slower", answer.slower},
          {"times_of", {{"kind", gpu.name}, {"source", gpu.source}}}};
}

/// The fastest plan as a scenario and, with several stages, the placement beside it.
void write_scenario(const PlanArguments& a, const TrainingJob& job, const ParallelPlan& plan,
                    const Machines& machines) {
  const auto devices = static_cast<std::int64_t>(machines.cluster.num_devices()),
             nodes = static_cast<std::int64_t>(machines.cluster.num_nodes());
  const std::filesystem::path placement = a.scenario + ".placement.json";
  write_file(a.scenario, plan_scenario(a.model, job, plan,
                                       {.kind = a.nodes,
                                        .count = nodes,
                                        .devices = devices / nodes,
                                        .gpu = machines.gpu.get(),
                                        .memory = machines.cluster.device(DeviceId{}).memory},
                                       placement.filename().string()));
  if (plan.pipeline > 1)
    write_file(placement.string(), placement_of_stages(job, plan, machines.cluster.num_devices()));
}

int plan_by_planner(const PlanArguments& a) {
  Choice choice = parse_choice(a.planner, "--planner");
  const auto& entry = find_entry(planners::planners(), "planner", choice.name, "--planner");
  return place_plan({.file = a.model,
                     .planner = std::move(choice),
                     .planner_text = a.planner,
                     .output = a.output,
                     .format = a.format},
                    entry, a.cluster);
}

int plan(const PlanArguments& a) {
  if (!a.planner.empty()) return plan_by_planner(a);
  if (a.batch == 0) throw InputError("--batch is required");
  if (!a.scenario.empty() && a.nodes.empty())
    throw InputError("--write-scenario needs --nodes, the machines that the scenario names");
  const Choice model = parse_choice(a.model, "MODEL");
  const TrainingJob job{.generator = model.name, .options = model.options, .batch = a.batch};
  const Machines machines = machines_of(a);
  std::atomic<std::size_t> done = 0;
  PlanAnswer answer;
  {
    const PlanSpace space = with_defaults(space_of(a, *machines.gpu), job, machines.cluster);
    const std::size_t total =
        plans_of(space, static_cast<std::int64_t>(machines.cluster.num_devices()), job.batch)
            .size();
    const Stage stage("simulating plans", &done, total);
    answer = fastest_plans(job, space, machines.cluster, *machines.gpu, a.top, done);
  }
  if (!a.scenario.empty() && !answer.fastest.empty())
    write_scenario(a, job, answer.fastest.front().plan, machines);
  const Report plans = report_of(answer, job);
  if (a.format == "json")
    print_json(json_of(answer, plans, *machines.gpu));
  else
    print_out(fmt::format("{}\n{}\ntimes of {}: {}\n",
                          answer.fastest.empty() ? bold("no plan fits\n") : plans.table(),
                          counts_text(answer), machines.gpu->name, machines.gpu->source));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Verb& chosen) {
  const auto a = std::make_shared<PlanArguments>();
  CLI::App* verb = app.add_subcommand(
      "plan", "Find how data, tensor and pipeline parallelism train a model fastest");
  verb->add_option(
          "MODEL", a->model,
          "A generator of a model, with options: gpt:layers=96,hidden=12288; gpt, gpt2, bert "
          "and transformer divide theirs among ranks of tensor parallelism, too; with --planner, "
          "an input of Piper's program")
      ->required()
      ->type_name("");
  verb->add_option("--batch", a->batch, "Samples of a step, over all replicas (needed)")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  verb->add_option("--nodes", a->nodes,
                   "Kind of machine, one of 'baechi list nodes'; --devices says how many GPUs")
      ->type_name("KIND");
  verb->add_option("--as", a->as,
                   "Kind of device whose numbers time the ops, and whose memory counts, such as "
                   "a100_megatron [the cluster's kind]")
      ->type_name("KIND");
  const auto list = [&](const char* name, auto& values, const char* type, const char* help) {
    return verb->add_option(name, values, help)->delimiter(',')->type_name(type);
  };
  list("--tensor", a->tensor, "N,...",
       "Ranks of tensor parallelism to try [1, 2, 4, ... in a node that divide the "
       "model evenly]");
  list("--pipeline", a->pipeline, "N,...", "Stages to try [1, 2, 4, ...]");
  list("--micro-batch", a->micro_batch, "N,...", "Samples of a pass to try [1, 2, 4, ... 64]");
  list("--recompute", a->recompute, "WORD,...",
       "Whether every layer is computed again: off, on [both]")
      ->check(CLI::IsMember({"on", "off"}));
  list("--precision", a->precision, "WORD,...",
       "Number formats to try: fp32, tf32, amp, fp16, bf16 [fp16]")
      ->check(CLI::IsMember({"fp32", "tf32", "amp", "fp16", "bf16"}));
  list("--zero", a->zero, "N,...",
       "Stages of ZeRO to try; replicas divide nothing (0), the optimizer state (1), also "
       "gradients (2), also weights (3) [0,1,2,3]")
      ->check(CLI::Range(0, 3));
  verb->add_option(
          "--gradients", a->gradients,
          "When ZeRO 0 and 1 send gradients: after the last backward pass, or beside it in "
          "buckets [after, as Megatron-LM; on other kinds ZeRO 0 beside it, as PyTorch]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"after", "beside"}));
  verb->add_option(
          "--write-scenario", a->scenario,
          "Write the fastest plan to this file, for 'baechi run'; its placement, if it has "
          "stages, beside it")
      ->type_name("FILE");
  verb->add_option("--top", a->top, "Plans to show [10]")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  const std::vector<CLI::Option*> others = verb->get_options();
  CLI::Option* planner =
      verb->add_option("--planner", a->planner,
                       "Plan MODEL by a published planner, whose stages may differ: piper, "
                       "pipedream_2bw (placers/README.md)")
          ->type_name("NAME[:k=v,...]");
  for (CLI::Option* other : others)
    if (other->get_name().starts_with("--") && other->get_name() != "--help")
      planner->excludes(other);
  verb->add_option("-o,--output", a->output, "Write the planner's plan to FILE")
      ->type_name("FILE")
      ->needs(planner);
  add_format(*verb, a->format, {"table", "json"});
  add_cluster_flags(*verb, a->cluster);
  verb->footer(
      "Every combination that uses all devices is a plan: 1F1B with a flush over equal stages. "
      "The\n"
      "engine simulates one rank of each stage, until no plan is left whose lower bound is below\n"
      "the slowest one shown. Unlike 'simulate --pipeline', it counts the time in which the host\n"
      "launches kernels and gradients of micro-batches are added up.\n"
      "Example: GPT-3 on 512 A100\n"
      "  baechi plan gpt:layers=96,hidden=12288,heads=96,length=2048,vocabulary=51200,tied=false "
      "\\\n"
      "    --batch 1536 --nodes dgx_a100 --devices 512 --as a100_megatron\n"
      "Example: Piper's plan of its own input\n"
      "  baechi plan bert32a100.json --planner piper:micro_batches=1920 --devices 64 \\\n"
      "    --memory '8 GiB' --bandwidth '26843545600 B/s'");
  verb->callback([&chosen, a] { chosen = [a] { return plan(*a); }; });
}

}  // namespace baechi
