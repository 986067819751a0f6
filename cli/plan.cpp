#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/cluster_flags.h"
#include "cli/output.h"
#include "cli/place_plan.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "placers/planners/registry.h"
#include "scenarios/planning/plan_search.h"
#include "scenarios/read/blocks.h"
#include "scenarios/read/device_table.h"
#include "scenarios/read/yaml.h"
#include "scenarios/run/build.h"
#include "sim/error.h"
#include "sim/status.h"

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
};

std::vector<std::int64_t> powers_of_two(std::int64_t most) {
  std::vector<std::int64_t> powers;
  for (std::int64_t n = 1; n <= most; n *= 2) powers.push_back(n);
  return powers;
}

ClusterChoice nodes_of_kind(const std::string& kind, std::int64_t count) {
  Mistakes mistakes;
  const ClusterChoice choice = read_cluster(
      parse_yaml(fmt::format("nodes: {{kind: {}, count: {}}}", kind, count), "--nodes"), "",
      built_in_devices(), mistakes);
  mistakes.throw_if_any();
  return choice;
}

/// Nodes of a kind that devices.yaml knows, as many as have the devices.
ClusterChoice choice_of_nodes(const PlanArguments& a) {
  const auto& kinds = built_in_devices().nodes;
  const auto kind = kinds.find(a.nodes);
  if (kind == kinds.end()) {
    std::vector<std::string> known;
    for (const auto& [name, block] : kinds) known.push_back(name);
    throw InputError(fmt::format("--nodes: '{}' is not one of {}{}", a.nodes,
                                 fmt::join(known, ", "), did_you_mean(a.nodes, known)));
  }
  const auto devices = parse_number<std::int64_t>(a.cluster.devices);
  const ClusterChoice one = nodes_of_kind(a.nodes, 1);
  const auto per_node = static_cast<std::int64_t>(one.devices.front().count);
  if (!devices || *devices < 1 || *devices % per_node != 0)
    throw InputError(fmt::format("--devices: '{}' is not a multiple of the {} devices of {}",
                                 a.cluster.devices, per_node, a.nodes));
  if (std::cmp_greater(*devices, most_devices))
    throw InputError(
        fmt::format("--devices: a cluster has at most {}, not {}", most_devices, *devices));
  return nodes_of_kind(a.nodes, *devices / per_node);
}

struct Machines {
  Cluster cluster;
  std::shared_ptr<const DeviceModel> gpu;
};

/// The devices' memory is what --memory says, else that of --as, else their kind's.
Machines machines_of(const PlanArguments& a) {
  ClusterChoice choice = a.nodes.empty() ? read_cluster_flags(a.cluster) : choice_of_nodes(a);
  const auto& kinds = built_in_devices().devices;
  const std::string name = a.as.empty() ? choice.devices.front().kind : a.as;
  const auto gpu = kinds.find(name);
  if (gpu == kinds.end()) {
    std::vector<std::string> known;
    for (const auto& [kind, model] : kinds) known.push_back(kind);
    throw InputError(fmt::format("{}: '{}' is not one of {}{}", a.as.empty() ? "--kind" : "--as",
                                 name, fmt::join(known, ", "), did_you_mean(name, known)));
  }
  for (DeviceChoice& devices : choice.devices) {
    if (devices.kind != choice.devices.front().kind)
      throw InputError("plan needs devices of one kind: every rank does the same");
    if (!a.as.empty()) devices.memory = gpu->second->memory;
    if (a.nodes.empty() || a.cluster.memory.empty()) continue;
    const auto memory = parse_bytes(a.cluster.memory);
    if (!memory)
      throw InputError(
          fmt::format("--memory: '{}' is not a size such as '80 GB'", a.cluster.memory));
    devices.memory = *memory;
  }
  return {make_cluster(choice), gpu->second};
}

/// The numbers of ranks 1, 2, 4, ... that can share the model's tensors.
std::vector<std::int64_t> possible_ranks(const TrainingJob& job, std::int64_t most) {
  std::vector<std::int64_t> ranks = powers_of_two(most);
  rank_graph(job, {});  // throws if the model itself is wrong
  std::erase_if(ranks, [&](std::int64_t n) {
    try {
      rank_graph(job, {.tensor = n});
      return false;
    } catch (const InputError&) {
      return true;
    }
  });
  return ranks;
}

PlanSpace space_of(const PlanArguments& a, const TrainingJob& job, const Cluster& cluster) {
  const auto devices = static_cast<std::int64_t>(cluster.num_devices());
  const std::int64_t per_node =
      cluster.num_nodes() == 0 ? devices : devices / static_cast<std::int64_t>(cluster.num_nodes());
  const auto flags = [](const std::vector<std::string>& words, std::string_view on) {
    std::vector<bool> values;
    for (const std::string& word : words) values.push_back(word == on);
    return values;
  };
  return {.tensor = a.tensor.empty() ? possible_ranks(job, per_node) : a.tensor,
          .pipeline = a.pipeline.empty() ? powers_of_two(devices) : a.pipeline,
          .micro_batch = a.micro_batch.empty() ? powers_of_two(std::min<std::int64_t>(64, a.batch))
                                               : a.micro_batch,
          .recompute = flags(a.recompute, "on"),
          .precision = a.precision,
          .zero = a.zero};
}

std::string counts_text(const PlanAnswer& answer) {
  return fmt::format(
      "{} plans: {} do not fit by their weights, gradients, optimizer state and what backward "
      "passes wait for; {} simulated, of which {} ran out of memory; {} slower by a lower bound",
      answer.considered, answer.too_large, answer.simulated, answer.out_of_memory, answer.slower);
}

std::string table_of(const PlanAnswer& answer, const TrainingJob& job, const DeviceModel& gpu) {
  Columns columns({"", "tensor", "data", "pipeline", "micro-batch", "recompute", "precision",
                   "ZeRO", "step", "samples/s", "bubble", "memory", "weights", "gradients",
                   "optimizer", "activations"});
  std::size_t rank = 0;
  for (const SimulatedPlan& row : answer.fastest) {
    const ParallelPlan& p = row.plan;
    const PeakMemory& memory = row.fullest.by_kind;
    columns.add({fmt::to_string(++rank), fmt::to_string(p.tensor), fmt::to_string(p.data),
                 fmt::to_string(p.pipeline),
                 fmt::format("{} x {}", p.micro_batches(job.batch), p.micro_batch),
                 p.recompute ? "on" : "off", p.precision, fmt::to_string(p.zero), to_text(row.step),
                 fmt::format("{:.4g}", static_cast<double>(job.batch) / (to_us(row.step) / 1e6)),
                 fmt::format("{:.1f} %", 100.0 * row.bubble), to_text(memory.total()),
                 to_text(memory.weights), to_text(memory.gradients),
                 to_text(memory.optimizer_state), to_text(memory.activations)});
  }
  return fmt::format("{}\n{}\ntimes of {}: {}\n",
                     answer.fastest.empty() ? bold("no plan fits\n") : columns.text(),
                     counts_text(answer), gpu.name, gpu.source);
}

nlohmann::ordered_json json_of(const PlanAnswer& answer, const TrainingJob& job,
                               const DeviceModel& gpu) {
  auto plans = nlohmann::ordered_json::array();
  for (const SimulatedPlan& row : answer.fastest) {
    const ParallelPlan& p = row.plan;
    const PeakMemory& memory = row.fullest.by_kind;
    plans.push_back({{"tensor", p.tensor},
                     {"data", p.data},
                     {"pipeline", p.pipeline},
                     {"micro_batch", p.micro_batch},
                     {"micro_batches", p.micro_batches(job.batch)},
                     {"recompute", p.recompute},
                     {"precision", p.precision},
                     {"zero", p.zero},
                     {"step_time_us", to_us(row.step)},
                     {"samples_per_s", static_cast<double>(job.batch) / (to_us(row.step) / 1e6)},
                     {"bubble", row.bubble},
                     {"peak_bytes", memory.total().count},
                     {"weights_bytes", memory.weights.count},
                     {"gradients_bytes", memory.gradients.count},
                     {"optimizer_state_bytes", memory.optimizer_state.count},
                     {"activations_bytes", memory.activations.count},
                     {"workspace_bytes", memory.workspace.count},
                     {"copies_bytes", memory.copies.count}});
  }
  return {{"status", to_text(answer.fastest.empty() ? Status::infeasible : Status::ok)},
          {"plans", std::move(plans)},
          {"considered", answer.considered},
          {"too_large", answer.too_large},
          {"simulated", answer.simulated},
          {"out_of_memory", answer.out_of_memory},
          {"slower", answer.slower},
          {"times_of", {{"kind", gpu.name}, {"source", gpu.source}}}};
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
  const Choice model = parse_choice(a.model, "MODEL");
  const TrainingJob job{.generator = model.name, .options = model.options, .batch = a.batch};
  const Machines machines = machines_of(a);
  std::atomic<std::size_t> done = 0;
  PlanAnswer answer;
  {
    const PlanSpace space = space_of(a, job, machines.cluster);
    const std::size_t total =
        plans_of(space, static_cast<std::int64_t>(machines.cluster.num_devices()), job.batch)
            .size();
    const Stage stage("simulating plans", &done, total);
    answer = fastest_plans(job, space, machines.cluster, *machines.gpu, a.top, done);
  }
  if (a.format == "json")
    print_json(json_of(answer, job, *machines.gpu));
  else
    print_out(table_of(answer, job, *machines.gpu));
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
      ->required();
  verb->add_option("--batch", a->batch, "Samples of a step, over all replicas (needed)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  verb->add_option("--nodes", a->nodes,
                   "Kind of machine, one of 'baechi list nodes'; --devices says how many GPUs")
      ->type_name("KIND");
  verb->add_option("--as", a->as,
                   "Kind of device whose numbers time the ops, and whose memory counts, such as "
                   "a100_megatron [the cluster's kind]")
      ->type_name("KIND");
  const auto list = [&](const char* name, auto& values, const char* help) {
    return verb->add_option(name, values, help)->delimiter(',');
  };
  list("--tensor", a->tensor,
       "Ranks of tensor parallelism to try [1, 2, 4, ... in a node that divide the "
       "model evenly]");
  list("--pipeline", a->pipeline, "Stages to try [1, 2, 4, ...]");
  list("--micro-batch", a->micro_batch, "Samples of a pass to try [1, 2, 4, ... 64]");
  list("--recompute", a->recompute, "Whether every layer is computed again [off,on]")
      ->check(CLI::IsMember({"on", "off"}));
  list("--precision", a->precision, "Number formats to try [fp16]")
      ->check(CLI::IsMember({"fp32", "tf32", "amp", "fp16", "bf16"}));
  list("--zero", a->zero,
       "Stages of ZeRO to try; replicas divide 1: the optimizer state, 2: gradients, too, 3: "
       "weights, too [0,1,2,3]")
      ->check(CLI::Range(0, 3));
  verb->add_option("--top", a->top, "Plans to show [10]")->check(CLI::Range(1, 1000));
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
