#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "cli/arguments.h"
#include "cli/cluster_flags.h"
#include "cli/output.h"
#include "cli/place_plan.h"
#include "cli/plan_answer.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "placers/planners/registry.h"
#include "scenarios/planning/framework.h"
#include "scenarios/planning/machines.h"
#include "scenarios/planning/plan_scenario.h"
#include "scenarios/run/build.h"
#include "sim/error.h"
#include "sim/find_entry.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

struct PlanArguments {
  std::string model, format, planner, output;
  ClusterFlags cluster;
  std::string nodes, as, attention, framework = "none", masters = "whole";
  std::vector<std::string> recompute_modules, whole_products;
  bool short_sums = false, short_attention = false;
  std::int64_t launch = 0;  ///< microseconds; 0: the kind's
  std::int64_t batch = 0;
  std::size_t top = 10;
  PlanSpace space;  ///< as given; empty lists are defaults
  std::vector<std::string> recompute{"off", "full"}, sequence{"off"}, overlap{"off"},
      overlap_experts{"off"};
  std::string gradients, scenario;
  bool check = false;
};

/// The devices' memory is what --memory says, else that of --as, else their kind's.
Machines machines_of(const PlanArguments& a, std::vector<Evidence>& evidence) {
  std::int64_t devices = 0;
  if (!a.nodes.empty()) {
    const auto count = parse_number<std::int64_t>(a.cluster.devices);
    if (!count || *count < 1 || *count > most_planned_devices)
      throw InputError(fmt::format("--devices: '{}' is not a number from 1 to {}",
                                   a.cluster.devices, most_planned_devices));
    devices = *count;
  }
  ClusterChoice choice =
      a.nodes.empty() ? read_cluster_flags(a.cluster) : cluster_of_nodes(a.nodes, devices);
  const DeviceChoice& first = choice.devices.front();
  const auto gpu = !a.as.empty()            ? device_kind(a.as, "--as")
                   : first.model != nullptr ? first.model  // a scenario's own kind
                                            : device_kind(first.kind, "--kind");
  require_one_kind(choice);
  if (const std::string& given = a.cluster.memory_fraction; !a.nodes.empty() && !given.empty()) {
    const auto fraction = parse_number<double>(given);
    if (!fraction || !(*fraction > 0.0 && *fraction <= 1.0))
      throw InputError(fmt::format("--memory-fraction: '{}' is not a number in (0, 1]", given));
    choice.memory_fraction = *fraction;
  }
  for (DeviceChoice& of : choice.devices) {
    if (!a.as.empty()) of.memory = gpu->memory;
    if (a.cluster.memory.empty()) continue;
    const auto memory = parse_bytes(a.cluster.memory);
    if (!memory)
      throw InputError(
          fmt::format("--memory: '{}' is not a size such as '80 GB'", a.cluster.memory));
    of.memory = *memory;
  }
  evidence = choice.evidence;
  Machines machines{.cluster = make_cluster(choice), .gpu = gpu};
  if (a.launch > 0) {
    const auto slow = std::make_shared<DeviceModel>(*gpu);
    slow->host_op = std::chrono::microseconds(a.launch);
    machines.gpu = slow;
  }
  machines.devices =
      a.nodes.empty() ? static_cast<std::int64_t>(machines.cluster.num_devices()) : devices;
  return machines;
}

/// Words off, on and auto, which is both.
std::vector<bool> truths(const std::vector<std::string>& words) {
  std::vector<bool> values;
  for (const std::string& word : words) {
    if (word != "on") values.push_back(false);
    if (word != "off") values.push_back(true);
  }
  return values;
}

/// A group shares what ZeRO 3 divides, unless --zero says otherwise.
PlanSpace space_of(const PlanArguments& a, const DeviceModel& gpu) {
  PlanSpace space = a.space;
  space.send = usual_sending(gpu);
  if (const auto given = parse<Sending>(a.gradients)) space.send = {*given, *given};
  space.recompute.clear();
  for (const std::string& word : a.recompute)
    space.recompute.push_back(word == "on" ? Recomputing::full : *parse<Recomputing>(word));
  space.sequence = truths(a.sequence);
  space.overlap = truths(a.overlap);
  space.overlap_experts = truths(a.overlap_experts);
  if (space.zero.empty())
    space.zero =
        space.group == std::vector<std::int64_t>{0} ? std::vector{0, 1, 2, 3} : std::vector{3};
  return space;
}

/// MODEL, with what --attention says.
std::string model_text(const PlanArguments& a) {
  if (a.attention.empty()) return a.model;
  if (a.model.find("fused_attention") != std::string::npos)
    throw InputError("--attention: MODEL says fused_attention itself");
  return fmt::format("{}{}fused_attention={}", a.model,
                     a.model.find(':') == std::string::npos ? ':' : ',', a.attention == "fused");
}

TrainingJob job_of(const PlanArguments& a) {
  const Choice model = parse_choice(model_text(a), "MODEL");
  if (std::error_code none; std::filesystem::is_regular_file(model.name, none))
    throw InputError(
        fmt::format("MODEL: '{}' is a file. plan divides models that a generator makes ('baechi "
                    "list generators'); 'baechi place' and 'baechi what-if' take a graph in a file",
                    model.name));
  return {.generator = model.name,
          .options = model.options,
          .batch = a.batch,
          .framework = *parse<Framework>(a.framework),
          .short_sums = a.short_sums,
          .short_attention = a.short_attention,
          .whole_products = a.whole_products,
          .recompute_modules = a.recompute_modules,
          .masters = *parse<Masters>(a.masters)};
}

/// The one plan that the flags name. Throws InputError that names the lists with several values.
ParallelPlan plan_to_check(const PlanSpace& space, const TrainingJob& job,
                           const Machines& machines) {
  const std::vector<ParallelPlan> plans = plans_of(space, machines.devices, job.batch);
  if (plans.size() == 1) return plans.front();
  if (plans.size() > 1)
    throw InputError(
        fmt::format("--check: these flags name {} plans; give one value each of --tensor, "
                    "--pipeline, --micro-batch, --recompute and --zero",
                    plans.size()));
  throw InputError("--check: " + why_no_plan(space, machines.devices, job.batch));
}

/// The fastest plan as a scenario and, with several stages, the placement beside it.
void write_scenario(const PlanArguments& a, const TrainingJob& job, const ParallelPlan& plan,
                    const Machines& machines) {
  const auto devices = static_cast<std::int64_t>(machines.cluster.num_devices()),
             nodes = static_cast<std::int64_t>(machines.cluster.num_nodes());
  const std::filesystem::path placement = a.scenario + ".placement.json";
  write_file(a.scenario, plan_scenario(model_text(a), job, plan,
                                       {.kind = a.nodes,
                                        .count = nodes,
                                        .devices = devices / nodes,
                                        .gpu = machines.gpu.get(),
                                        .memory = machines.cluster.device(DeviceId{}).memory},
                                       placement.filename().string()));
  if (plan.pipeline > 1)
    write_file(placement.string(), placement_of_stages(job, plan, machines.cluster));
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const pipeline::ScheduleEntry& entry : pipeline::schedules())
    if (can_plan(entry)) names.emplace_back(entry.name);
  return names;
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

PlanAnswer answer_of(const PlanArguments& a, const TrainingJob& job, const Machines& machines) {
  const PlanSpace space = with_defaults(space_of(a, *machines.gpu), job, machines);
  if (a.check) {
    const ParallelPlan plan = plan_to_check(space, job, machines);
    return {.fastest = {simulated_plan(job, plan, machines)}, .considered = 1, .simulated = 1};
  }
  std::atomic<std::size_t> done = 0;
  const std::size_t total = plans_of(space, machines.devices, job.batch).size();
  const Stage stage("simulating plans", &done, total);
  return fastest_plans(job, space, machines, a.top, done);
}

int plan(const PlanArguments& a) {
  if (!a.planner.empty()) return plan_by_planner(a);
  if (a.batch == 0) throw InputError("--batch is required");
  if (!a.scenario.empty() && a.nodes.empty())
    throw InputError("--write-scenario needs --nodes, the machines that the scenario names");
  if (!a.scenario.empty() && a.framework != "none")
    throw InputError("--write-scenario: scenarios have no --framework");
  const TrainingJob job = job_of(a);
  std::vector<Evidence> evidence;
  const Machines machines = machines_of(a, evidence);
  if (!a.scenario.empty() && std::cmp_greater(machines.devices, machines.cluster.num_devices()))
    throw InputError(fmt::format("--write-scenario: scenarios have at most {} devices",
                                 machines.cluster.num_devices()));
  const PlanAnswer answer = answer_of(a, job, machines);
  const ParallelPlan* best = answer.fastest.empty() ? nullptr : &answer.fastest.front().plan;
  if (!a.scenario.empty() && best != nullptr) write_scenario(a, job, *best, machines);
  std::vector<Evidence> all =
      baechi::evidence_of(best == nullptr ? OpGraph{} : rank_graph(job, *best), *machines.gpu);
  std::ranges::copy(evidence, std::back_inserter(all));
  if (a.format == "json")
    print_json(plan_json(answer, job, machines, all, a.check));
  else
    print_out(plan_text(answer, job, machines, all, a.check));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Verb& chosen) {
  const auto a = std::make_shared<PlanArguments>();
  CLI::App* verb = app.add_subcommand(
      "plan", "Find how the kinds of parallelism train a model fastest, or check one plan");
  add_argument(*verb, "MODEL", a->model,
               "A generator of a model, with options: gpt:layers=96,hidden=12288; gpt, gpt2, "
               "bert, transformer, llama, moe and hybrid divide theirs among ranks of tensor "
               "parallelism, too; with --planner, an input of Piper's program");
  add_number(*verb, "--batch", a->batch, std::int64_t{1}, std::int64_t{1} << 40,
             "Samples of a step, over all replicas (needed)");
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
  PlanSpace& space = a->space;
  space.zero.clear();
  list("--tensor", space.tensor, "N,...",
       "Ranks of tensor parallelism to try [the divisors of a node's devices that divide the "
       "model evenly]");
  list("--sequence", a->sequence, "WORD,...",
       "Whether these ranks share the tokens between their products: off, on, auto (both) [off]")
      ->check(CLI::IsMember({"off", "on", "auto"}));
  list("--overlap", a->overlap, "WORD,...",
       "Whether they exchange tokens beside their products, of which one part in as many as ranks "
       "stays before or behind: off, on, auto (both) [off]")
      ->check(CLI::IsMember({"off", "on", "auto"}));
  list("--overlap-experts", a->overlap_experts, "WORD,...",
       "Whether tokens go to experts and back beside other micro-batches: off, on, auto (both) "
       "[off]")
      ->check(CLI::IsMember({"off", "on", "auto"}));
  list("--context", space.context, "N,...", "Ranks that share the tokens of a sample [1]");
  list("--expert", space.expert, "N,...", "Ranks that share the experts of a layer [1]");
  list("--pipeline", space.pipeline, "N,...", "Stages to try [the divisors of the devices]");
  list("--virtual", space.chunks, "N,...", "Chunks of layers on each stage, interleaved [1]");
  list("--schedule", space.schedule, "NAME,...",
       "Order of passes on stages with one chunk: 1f1b_flush, gpipe [1f1b_flush]")
      ->check(CLI::IsMember(schedule_names()));
  list("--micro-batch", space.micro_batch, "N,...", "Samples of a pass to try [1, 2, 4, ... 64]");
  list("--recompute", a->recompute, "WORD,...",
       "What is computed again: off, selective (the core of every attention; with fsdp2 all but "
       "that and every second product), full (every layer; also spelled on) [off,full]")
      ->check(CLI::IsMember({"off", "selective", "full", "on"}));
  list("--recompute-modules", a->recompute_modules, "NAME,...",
       "Parts of blocks that are computed again, as Megatron-LM names them: moe, and of llama, moe "
       "and hybrid core_attn, mla_up_proj, mlp, moe_act, layernorm, shared_experts")
      ->check(CLI::IsMember(recompute_module_names()));
  const auto layers = [&](const char* name, std::int64_t& count, const char* help) {
    verb->add_option(name, count, help)->type_name("N")->check(CLI::NonNegativeNumber);
  };
  layers("--recompute-layers", space.recompute_layers,
         "With --recompute full: only so many layers of each chunk, the first [0: all]");
  layers("--offload-layers", space.offload_layers,
         "Layers of each chunk, the first, whose activations are in the host's memory between the "
         "passes, beside other work and in no time [0]");
  verb->add_flag("--count-ends", space.count_ends,
                 "What precedes the layers, and what follows them, count as a layer each where the "
                 "layers are divided among stages");
  list("--precision", space.precision, "WORD,...",
       "Number formats to try: fp32, tf32, amp, fp16, bf16, fp8, mxfp8, nvfp4 [fp16]")
      ->check(CLI::IsMember({"fp32", "tf32", "amp", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"}));
  list("--zero", space.zero, "N,...",
       "Stages of ZeRO to try; replicas divide nothing (0), the optimizer state (1), also "
       "gradients (2), also weights (3) [0,1,2,3; 3 with --fsdp]")
      ->check(CLI::Range(0, 3));
  list("--fsdp", space.group, "N,...",
       "Replicas of a group that divide what ZeRO divides; groups add up their gradients [0: "
       "all replicas are one group]");
  for (const char* name :
       {"--tensor", "--context", "--expert", "--pipeline", "--virtual", "--micro-batch"})
    verb->get_option(name)->check(CLI::PositiveNumber);
  verb->get_option("--fsdp")->check(CLI::NonNegativeNumber);
  verb->add_option("--attention", a->attention,
                   "One kernel that never writes the probabilities, or one for each operation "
                   "[as the generator]")
      ->type_name("WORD")
      ->check(CLI::IsMember({"fused", "unfused"}));
  verb->add_option(
          "--framework", a->framework,
          "Whose own bytes, and copies, count besides the model's: none, megatron, fsdp, fsdp2, "
          "deepspeed [none]")
      ->type_name("NAME")
      ->check(CLI::IsMember({"none", "megatron", "fsdp", "fsdp2", "deepspeed"}));
  verb->add_flag("--short-sums", a->short_sums,
                 "The framework adds up gradients in the format of the weights");
  verb->add_flag("--short-attention", a->short_attention,
                 "Fused attention in layers computes in 8 bits where products compute in few");
  list("--whole-products", a->whole_products, "KIND,...",
       "Kinds of ops whose products stay in 16 bits where others compute in few");
  verb->add_option("--launch", a->launch,
                   "Microseconds that the host takes to launch a kernel [the kind's]")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  verb->add_option("--masters", a->masters,
                   "What is kept of 32-bit weights beside their copy in 16 bits: whole, remainders "
                   "(the bits that a bf16 copy lacks), none [whole]")
      ->type_name("WORD")
      ->check(one_of<Masters>());
  verb->add_flag("--check", a->check,
                 "Simulate the one plan that the flags name, and say whether it fits");
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
  add_number(*verb, "--top", a->top, 1, 1000, "Plans to show [10]");
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
  // Plans say how their steps run, and machines what they are.
  for (const char* idle : {"--transfers", "--semantics", "--queue", "--no-cache", "--no-overlap"})
    verb->remove_option(verb->get_option(idle));
  verb->get_option("--scenario")
      ->description("Take the cluster from this scenario, in place of the flags above");
  for (const char* said : {"--kind", "--link", "--bandwidth", "--latency", "--collectives"})
    verb->get_option("--nodes")->excludes(verb->get_option(said));
  verb->footer(
      "Every combination that uses all devices is a plan: over equal stages, 1F1B with a flush\n"
      "unless --schedule says otherwise. The engine simulates one rank of each stage, until no\n"
      "plan is left whose lower bound is below the slowest one shown. Unlike 'simulate\n"
      "--pipeline', it counts the time in which the host launches kernels and gradients of\n"
      "micro-batches are added up.\n"
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
