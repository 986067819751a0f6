#include <filesystem>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/step_text.h"
#include "scenarios/planning/plan_question.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

/// "after", "beside" or, where no replica keeps whole gradients, "each pass".
std::string sent_text(const ParallelPlan& plan) {
  const DataParallelOptions options = plan.data_parallel(1);
  if (options.replicas == 1) return "-";
  if (options.sends_each_pass()) return "each pass";
  return options.sends_after() ? "after" : "beside";
}

Json memory_json(const pipeline::StageUse& stage) {
  Json json = peak_json(stage.by_kind);
  json["framework"] = (stage.peak - stage.by_kind.total()).count;
  return json;
}

/// The memory that a plan leaves of a device besides the reserve, or what it lacks.
Cell spare_cell(const SimulatedPlan& plan, const Machines& machines) {
  const Bytes spare = machines.memory() - plan.fullest().peak, lacks = machines.reserve - spare;
  return {spare.count, lacks > Bytes{} ? "lacks " + to_text(lacks) : to_text(spare)};
}

/// The columns of axes that no plan uses are in JSON alone. `names` of the plans; empty: numbers.
Report report_of(const std::vector<SimulatedPlan>& plans, const PlanFindings& found,
                 const std::vector<std::string>& names = {}) {
  const auto head = [&](auto ParallelPlan::* member, const char* name) {
    const bool used = std::ranges::any_of(plans, [&](const SimulatedPlan& row) {
      return row.plan.*member != ParallelPlan{}.*member;
    });
    return used ? std::optional<std::string>(name) : std::nullopt;
  };
  Report report({{names.empty() ? "" : "flags", ""},
                 {"tensor", "tensor"},
                 {"sequence", head(&ParallelPlan::sequence, "sequence")},
                 {"overlap", head(&ParallelPlan::overlap, "overlap")},
                 {"overlap_experts", head(&ParallelPlan::overlap_experts, "overlap_experts")},
                 {"context", head(&ParallelPlan::context, "context")},
                 {"expert", head(&ParallelPlan::expert, "expert")},
                 {"data", "data"},
                 {"pipeline", "pipeline"},
                 {"virtual", head(&ParallelPlan::chunks, "virtual")},
                 {"schedule", head(&ParallelPlan::schedule, "schedule")},
                 {"", "micro-batch"},
                 {"micro_batch", {}},
                 {"micro_batches", {}},
                 {"recompute", {}},
                 {"recomputed", "recompute"},
                 {"precision", "precision"},
                 {"zero", "ZeRO"},
                 {"fsdp", head(&ParallelPlan::group, "group")},
                 {"gradients_sent", "sent"},
                 {"step_time_us", "step"},
                 {"samples_per_s", "samples/s"},
                 {"bubble", "bubble"},
                 {"peak_bytes", "memory"},
                 {"spare_bytes", "spare"},
                 {"weights_bytes", "weights"},
                 {"gradients_bytes", "gradients"},
                 {"optimizer_state_bytes", "optimizer"},
                 {"activations_bytes", "activations"},
                 {"workspace_bytes", {}},
                 {"copies_bytes", {}}});
  std::size_t rank = 0;
  for (const SimulatedPlan& row : plans) {
    const ParallelPlan& p = row.plan;
    const PeakMemory& memory = row.fullest().by_kind;
    const std::int64_t passes = p.micro_batches(found.job.batch);
    const double samples = static_cast<double>(found.job.batch) / (to_us(row.step) / 1e6);
    ++rank;
    report.add({names.empty() ? Cell(rank) : Cell(names[rank - 1]),
                p.tensor,
                p.sequence,
                p.overlap,
                p.overlap_experts,
                p.context,
                p.expert,
                p.data,
                p.pipeline,
                p.chunks,
                p.passes().name,
                fmt::format("{} x {}", passes, p.micro_batch),
                p.micro_batch,
                passes,
                p.recompute == Recomputing::full,
                to_text(p.recompute),
                p.precision,
                p.zero,
                p.group,
                sent_text(p),
                row.step,
                Cell(samples, fmt::format("{:.4g}", samples)),
                Cell(row.bubble, fmt::format("{:.1f} %", 100.0 * row.bubble)),
                row.fullest().peak,
                spare_cell(row, found.machines),
                memory.weights,
                memory.gradients,
                memory.optimizer_state,
                memory.activations,
                memory.workspace,
                memory.copies});
  }
  return report;
}

Json stages_json(const SimulatedPlan& plan) {
  Json stages = Json::array();
  for (const pipeline::StageUse& stage : plan.stages)
    stages.push_back({{"device", index(stage.device)},
                      {"peak_bytes", stage.peak.count},
                      {"memory", memory_json(stage)}});
  return stages;
}

std::string stages_text(const SimulatedPlan& plan) {
  Report report({{"", "stage"},
                 {"", "memory"},
                 {"", "weights"},
                 {"", "gradients"},
                 {"", "optimizer"},
                 {"", "activations"},
                 {"", "workspace"},
                 {"", "copies"}});
  std::size_t number = 0;
  for (const pipeline::StageUse& stage : plan.stages) {
    const PeakMemory& m = stage.by_kind;
    report.add({number++, stage.peak, m.weights, m.gradients, m.optimizer_state, m.activations,
                m.workspace, m.copies});
  }
  return report.table();
}

/// A plan that is named fits without the reserve, too.
bool fits_devices(const SimulatedPlan& plan, const Machines& machines) {
  return plan.fullest().peak <= machines.memory();
}

std::string counts_text(const PlanAnswer& answer) {
  return fmt::format(
      "{} plans: {} do not fit by their weights, gradients, optimizer state and what backward "
      "passes wait for; {} simulated, of which {} ran out of memory; {} slower by a lower bound",
      answer.considered, answer.too_large, answer.simulated, answer.out_of_memory, answer.slower);
}

std::string check_text(const SimulatedPlan& plan, const Machines& machines) {
  const std::ptrdiff_t fullest = &plan.fullest() - plan.stages.data();
  const Bytes peak = plan.fullest().peak, memory = machines.memory();
  const bool fits = fits_devices(plan, machines);
  const std::string scarce =
      fits && peak + machines.reserve > memory
          ? fmt::format(", and leaves less than the reserve of {} for the framework's runtime",
                        to_text(machines.reserve))
          : "";
  return fmt::format("{}: stage {} needs {} of {}{}\n{}", fits ? "fits" : red("does not fit"),
                     fullest, to_text(peak), to_text(memory), scarce, stages_text(plan));
}

std::vector<SimulatedPlan> plans_of(const std::vector<Remedy>& remedies) {
  std::vector<SimulatedPlan> plans;
  for (const Remedy& remedy : remedies) plans.push_back(remedy.plan);
  return plans;
}
Report remedies_report(const PlanFindings& found) {
  std::vector<std::string> names;
  for (const Remedy& remedy : found.remedies) names.push_back(remedy.flags);
  return report_of(plans_of(found.remedies), found, names);
}

std::string none_fits_text(const PlanFindings& found) {
  return fmt::format(
      "{}\n{}\n{}", bold("no plan fits; those that lack least"),
      report_of(found.smallest, found).table(),
      found.remedies.empty()
          ? fmt::format(
                "no other --recompute, --precision, --zero or --micro-batch makes one fit{}\n",
                found.more_devices ? ", nor up to 64 times the devices" : "")
          : "a plan fits with\n" + remedies_report(found).table());
}

/// `check`: of the one plan, with whether it fits and the memory of every stage.
std::string plan_text(const PlanFindings& found, bool check) {
  const PlanAnswer& answer = found.answer;
  const Machines& machines = found.machines;
  const std::string reserve = check || machines.reserve == Bytes{}
                                  ? ""
                                  : fmt::format(
                                        "reserve      {} of each device, which plans leave free "
                                        "for the framework's runtime (--reserve)\n",
                                        to_text(machines.reserve));
  return fmt::format(
      "{}\n{}\n{}times of {}: {}\n{}",
      answer.fastest.empty() ? none_fits_text(found) : report_of(answer.fastest, found).table(),
      check ? check_text(answer.fastest.front(), machines) : counts_text(answer), reserve,
      machines.gpu->name, machines.gpu->source, evidence_line(found.evidence));
}

Json plan_json(const PlanFindings& found, bool check) {
  const PlanAnswer& answer = found.answer;
  const Machines& machines = found.machines;
  const auto rows = [&](const Report& report, const std::vector<SimulatedPlan>& plans) {
    Json json = report.json();
    for (std::size_t i = 0; i < plans.size(); ++i)
      json[i]["memory"] = memory_json(plans[i].fullest());
    return json;
  };
  Json json{{"status", to_text(answer.fastest.empty() ? Status::infeasible : Status::ok)}};
  if (check) {
    const SimulatedPlan& plan = answer.fastest.front();
    json["status"] = to_text(fits_devices(plan, machines) ? Status::ok : Status::oom);
    json["fits"] = fits_devices(plan, machines);
    json["limit_bytes"] = machines.memory().count;
    json["fullest_stage"] = &plan.fullest() - plan.stages.data();
    json["stages"] = stages_json(plan);
  }
  json["plans"] = rows(report_of(answer.fastest, found), answer.fastest);
  if (answer.fastest.empty()) {
    json["smallest"] = rows(report_of(found.smallest, found), found.smallest);
    json["remedies"] = rows(remedies_report(found), plans_of(found.remedies));
  }
  json["reserve_bytes"] = machines.reserve.count;
  json["considered"] = answer.considered;
  json["too_large"] = answer.too_large;
  json["simulated"] = answer.simulated;
  json["out_of_memory"] = answer.out_of_memory;
  json["slower"] = answer.slower;
  json["times_of"] = {{"kind", machines.gpu->name}, {"source", machines.gpu->source}};
  json["evidence"] = evidence_json(found.evidence);
  return json;
}

struct PlanArguments : PlanQuestion {
  std::string format, scenario;
};

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const pipeline::ScheduleEntry& entry : pipeline::schedules())
    if (can_plan(entry)) names.emplace_back(entry.name);
  return names;
}

int plan(const PlanArguments& a) {
  if (!a.scenario.empty() && a.nodes.empty())
    throw InputError("--write-scenario needs --nodes, the machines that the scenario names");
  if (!a.scenario.empty() && a.framework != "none")
    throw InputError("--write-scenario: scenarios have no --framework");
  PlanQuestion question = a;
  question.as_scenario = !a.scenario.empty();
  const PlanFindings found = answer_plan(question, stages("simulating plans"));
  fmt::print(stderr, "{}", found.note);
  if (question.as_scenario && !found.answer.fastest.empty()) {
    const std::filesystem::path placement = a.scenario + ".placement.json";
    const auto [scenario, stages] = scenario_of(a, found, placement.filename().string());
    write_file(a.scenario, scenario);
    if (!stages.empty()) write_file(placement.string(), stages);
  }
  if (a.format == "json")
    print_json(plan_json(found, a.check));
  else
    print_out(plan_text(found, a.check));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Verb& chosen) {
  const auto [verb, a] =
      add_verb(app, chosen, "plan",
               "Find how the kinds of parallelism train a model fastest, or check one plan", plan);
  add_argument(
      *verb, "MODEL", a->model,
      "A generator of a model, with options: gpt:num_hidden_layers=96,hidden_size=12288; gpt, "
      "gpt2, bert, transformer, llama, moe and hybrid divide theirs among ranks of tensor "
      "parallelism, too; a model ('baechi list models') or config.json of Hugging Face");
  add_number(*verb, "--batch", a->batch, std::int64_t{1}, std::int64_t{1} << 40,
             "Samples of a step, over all replicas (needed)");
  add_value(*verb, "--nodes", a->nodes, "KIND",
            "Kind of machine, one of 'baechi list nodes'; --devices says how many GPUs");
  add_value(*verb, "--as", a->as, "KIND",
            "Kind of device whose numbers time the ops, and whose memory counts, such as "
            "a100_megatron [the cluster's kind]; without --nodes the cluster's kind");
  const auto list = [&](const char* name, auto& values, const char* type, const char* help) {
    return verb->add_option(name, values, help)->delimiter(',')->type_name(type);
  };
  PlanSpace& space = a->space;
  space.zero.clear();
  list("--tensor", space.tensor, "N,...",
       "Ranks of tensor parallelism to try [the divisors of a node's devices that divide the model "
       "evenly]");
  list("--sequence", a->sequence, "WORD,...",
       "Whether these ranks share the tokens between their products: off, on, auto (both) [off]")
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
       "Activation checkpointing: off, selective (the core of every attention, or what the "
       "framework's selective_recompute says), full (every layer; also spelled on) [off,full]")
      ->check(CLI::IsMember({"off", "selective", "full", "on"}));
  list("--precision", space.precision, "WORD,...",
       "Dtypes to try: fp32, tf32, amp, fp16, bf16, fp8, mxfp8, nvfp4 [fp16]")
      ->check(CLI::IsMember({"fp32", "tf32", "amp", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"}));
  list("--zero", space.zero, "N,...",
       "Stages of ZeRO to try; replicas divide nothing (0), the optimizer state (1), also "
       "gradients (2), also weights (3) [0,1,2,3; 3 with --fsdp]")
      ->check(CLI::Range(0, 3));
  list("--fsdp", space.group, "N,...",
       "Replicas of a group that divide what ZeRO divides; groups add up their gradients [0: all "
       "replicas are one group]");
  for (const char* name :
       {"--tensor", "--context", "--expert", "--pipeline", "--virtual", "--micro-batch"})
    verb->get_option(name)->check(CLI::PositiveNumber);
  verb->get_option("--fsdp")->check(CLI::NonNegativeNumber);
  add_value(*verb, "--framework", a->framework, "NAME",
            "What the training framework does besides the model: NAME[:key=value,...] of "
            "scenarios/frameworks/, or FILE.yaml [none]");
  verb->add_flag("--check", a->check,
                 "Simulate the one plan that the flags name, and say whether it fits");
  add_value(*verb, "--write-scenario", a->scenario, "FILE",
            "Write the fastest plan to this file, for 'baechi run'; its placement, if it has "
            "stages, beside it");
  add_number(*verb, "--top", a->top, 1, 1000, "Plans to show [10]");
  add_format(*verb, a->format, {"table", "json"});
  add_value(*verb, "--devices,--gpus", a->cluster.devices, "N|LIST",
            "Number of devices, all alike, or their type, too: 4xrtx_4090");
  add_value(*verb, "--memory", a->cluster.memory, "SIZE",
            "Memory of each device, such as '8 GiB' [memory of its kind]");
  add_value(*verb, "--reserve", a->reserve, "SIZE",
            "Memory of each device that plans leave free for the framework's runtime; --check only "
            "says whether it is free [1 GiB; 0 on devices of less than 4 GiB]");
  CLI::Option* scenario =
      add_value(*verb, "--scenario", a->cluster.scenario, "FILE",
                "Take the cluster from this scenario, in place of --nodes and --devices")
          ->excludes(verb->get_option("--nodes"))
          ->excludes(verb->get_option("--devices"));
  add_value(*verb, "--set", a->cluster.sets, "KEY=VALUE",
            "Set the dotted KEY of the scenario to VALUE first")
      ->needs(scenario);
  verb->footer(
      "Every combination that uses all devices is a plan: over equal stages, 1F1B with a flush\n"
      "unless --schedule says otherwise. The engine simulates one rank of each stage, until no\n"
      "plan is left whose lower bound is below the slowest one shown. Unlike 'simulate\n"
      "--pipeline', it counts the time in which the host launches kernels and gradients of\n"
      "micro-batches are added up.\n"
      "Example: GPT-3 on 512 A100\n"
      "  baechi plan "
      "gpt:num_hidden_layers=96,hidden_size=12288,num_attention_heads=96,vocab_size=51200 \\\n"
      "    --batch 1536 --nodes dgx_a100 --devices 512 --as a100_megatron");
}

}  // namespace baechi
