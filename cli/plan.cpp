#include <filesystem>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/step_text.h"
#include "scenarios/planning/machines.h"
#include "scenarios/read/paths.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

/// A change of the flags with which a plan fits.
struct Remedy {
  std::string flags;  ///< "--devices 16"
  SimulatedPlan plan;
};

struct PlanFindings {
  PlanAnswer answer;
  std::vector<SimulatedPlan> smallest{};  ///< where no plan fits: smallest_plans()
  std::vector<Remedy> remedies{};         ///< where no plan fits
  bool more_devices = true;               ///< whether more of them were tried
};

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
Report report_of(const std::vector<SimulatedPlan>& plans, const TrainingJob& job,
                 const Machines& machines, const std::vector<std::string>& names = {}) {
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
    const std::int64_t passes = p.micro_batches(job.batch);
    const double samples = static_cast<double>(job.batch) / (to_us(row.step) / 1e6);
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
                spare_cell(row, machines),
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
  const std::string scarce = fits && peak + machines.reserve > memory
                                 ? fmt::format(
                                       ", and leaves less than the reserve of {} for the "
                                       "framework's runtime",
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
Report report_of(const std::vector<Remedy>& remedies, const TrainingJob& job,
                 const Machines& machines) {
  std::vector<std::string> names;
  for (const Remedy& remedy : remedies) names.push_back(remedy.flags);
  return report_of(plans_of(remedies), job, machines, names);
}

std::string none_fits_text(const PlanFindings& found, const TrainingJob& job,
                           const Machines& machines) {
  return fmt::format(
      "{}\n{}\n{}", bold("no plan fits; those that lack least"),
      report_of(found.smallest, job, machines).table(),
      found.remedies.empty()
          ? fmt::format(
                "no other --recompute, --precision, --zero or --micro-batch makes one fit{}\n",
                found.more_devices ? ", nor up to 64 times the devices" : "")
          : "a plan fits with\n" + report_of(found.remedies, job, machines).table());
}

/// `check`: of the one plan, with whether it fits and the memory of every stage.
std::string plan_text(const PlanFindings& found, const TrainingJob& job, const Machines& machines,
                      const std::vector<Evidence>& evidence, bool check) {
  const PlanAnswer& answer = found.answer;
  const std::string reserve =
      check || machines.reserve == Bytes{}
          ? ""
          : fmt::format(
                "reserve      {} of each device, which plans leave free for the framework's "
                "runtime (--reserve)\n",
                to_text(machines.reserve));
  return fmt::format("{}\n{}\n{}times of {}: {}\n{}",
                     answer.fastest.empty() ? none_fits_text(found, job, machines)
                                            : report_of(answer.fastest, job, machines).table(),
                     check ? check_text(answer.fastest.front(), machines) : counts_text(answer),
                     reserve, machines.gpu->name, machines.gpu->source, evidence_line(evidence));
}

Json plan_json(const PlanFindings& found, const TrainingJob& job, const Machines& machines,
               const std::vector<Evidence>& evidence, bool check) {
  const PlanAnswer& answer = found.answer;
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
  json["plans"] = rows(report_of(answer.fastest, job, machines), answer.fastest);
  if (answer.fastest.empty()) {
    json["smallest"] = rows(report_of(found.smallest, job, machines), found.smallest);
    json["remedies"] = rows(report_of(found.remedies, job, machines), plans_of(found.remedies));
  }
  json["reserve_bytes"] = machines.reserve.count;
  json["considered"] = answer.considered;
  json["too_large"] = answer.too_large;
  json["simulated"] = answer.simulated;
  json["out_of_memory"] = answer.out_of_memory;
  json["slower"] = answer.slower;
  json["times_of"] = {{"kind", machines.gpu->name}, {"source", machines.gpu->source}};
  json["evidence"] = evidence_json(evidence);
  return json;
}

struct PlanArguments {
  std::string model, format;
  ClusterFlags cluster;
  std::string nodes, as, framework = "none", scenario, reserve;
  std::int64_t batch = 0;
  std::size_t top = 10;
  PlanSpace space;  ///< as given; empty lists are defaults
  std::vector<std::string> recompute{"off", "full"}, sequence{"off"};
  bool check = false;
};

/// The devices' memory is what --memory says, else that of --as, else their kind's.
Machines machines_of(const PlanArguments& a, const Framework& framework,
                     std::vector<Evidence>& evidence) {
  std::int64_t devices = 0;
  if (!a.nodes.empty()) {
    const auto count = parse_number<std::int64_t>(a.cluster.devices);
    if (!count || *count < 1 || *count > most_planned_devices)
      throw InputError(fmt::format("--devices: '{}' is not a number from 1 to {}",
                                   a.cluster.devices, most_planned_devices));
    devices = *count;
  }
  ClusterFlags flags = a.cluster;
  flags.kind = a.as;
  ClusterChoice choice =
      a.nodes.empty() ? read_platform(flags).cluster : cluster_of_nodes(a.nodes, devices);
  const DeviceChoice& first = choice.devices.front();
  const auto gpu = !a.as.empty()            ? device_kind(a.as, "--as")
                   : first.model != nullptr ? first.model  // a scenario's own kind
                                            : device_kind(first.kind, "--as");
  std::optional<Bytes> memory;
  if (!a.cluster.memory.empty()) {
    memory = parse_bytes(a.cluster.memory);
    if (!memory && !a.nodes.empty())
      throw InputError(
          fmt::format("--memory: '{}' is not a size such as '80 GB'", a.cluster.memory));
  }
  require_one_kind(choice);
  for (DeviceChoice& of : choice.devices) {
    if (!a.as.empty()) of.memory = gpu->memory;
    if (memory) of.memory = *memory;
  }
  const Bytes reserve = a.reserve.empty() ? usual_reserve(first.memory)
                                          : std::min(read_reserve(a.reserve), first.memory);
  for (DeviceChoice& of : choice.devices) of.memory = of.memory - reserve;
  evidence = choice.evidence;
  Machines machines{.cluster = make_cluster(choice),
                    .gpu = std::make_shared<DeviceModel>(launched_by(framework, *gpu)),
                    .reserve = reserve};
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
PlanSpace space_of(const PlanArguments& a, const Framework& framework, const DeviceModel& gpu) {
  PlanSpace space = a.space;
  space.send = usual_sending(framework, gpu);
  space.overlap = framework.tp_comm_overlap;
  space.overlap_experts = framework.overlap_expert_dispatch;
  space.recompute_layers = framework.recompute_layers;
  space.offload_layers = framework.offload_layers;
  space.count_ends = framework.account_for_embedding_and_loss;
  space.recompute.clear();
  for (const std::string& word : a.recompute)
    space.recompute.push_back(word == "on" ? Recomputing::full : *parse<Recomputing>(word));
  space.sequence = truths(a.sequence);
  if (space.zero.empty())
    space.zero =
        space.group == std::vector<std::int64_t>{0} ? std::vector{0, 1, 2, 3} : std::vector{3};
  return space;
}

/// A generator with options; a published model is the one that makes it.
std::string generator_of(const std::string& text) {
  auto model = published_model(text);
  if (!model) return text;
  if (!model->not_known.empty()) fmt::print(stderr, "{}: warning: {}\n", text, model->not_known);
  if (is_file(model->path)) model->path = std::filesystem::absolute(model->path).string();
  return model->generator();
}

TrainingJob job_of(const PlanArguments& a, const Framework& framework) {
  const Choice model = parse_choice(generator_of(a.model), "MODEL");
  if (is_file(model.name)) {
    require_kind(TextFile(model.name, Content::any), "a generator of a model");
    throw InputError(
        fmt::format("{}: a file: plan divides models that a generator makes ('baechi "
                    "list generators'; a config.json of Hugging Face names one)",
                    model.name));
  }
  require_generator(model.name);
  return {
      .generator = model.name, .options = model.options, .batch = a.batch, .framework = framework};
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
  write_file(a.scenario, plan_scenario(generator_of(a.model), job, plan,
                                       {.kind = a.nodes,
                                        .count = nodes,
                                        .devices = devices / nodes,
                                        .gpu = machines.gpu.get(),
                                        .memory = machines.memory()},
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

PlanSpace whole_space(const PlanArguments& a, const TrainingJob& job, const Machines& machines) {
  return with_defaults(space_of(a, job.framework, *machines.gpu), job, machines);
}

/// Changes of one flag with which a plan fits, each with its fastest one.
std::vector<Remedy> remedies_of(const PlanArguments& a, const TrainingJob& job,
                                std::int64_t devices) {
  std::vector<Remedy> remedies;
  const auto attempt = [&](std::string flags, const PlanArguments& with, const TrainingJob& of) {
    try {
      std::vector<Evidence> unused;
      std::atomic<std::size_t> done = 0;
      const Machines machines = machines_of(with, of.framework, unused);
      const PlanAnswer answer =
          fastest_plans(of, whole_space(with, of, machines), machines, 1, done);
      if (answer.fastest.empty()) return false;
      remedies.push_back({std::move(flags), answer.fastest.front()});
      return true;
    } catch (const InputError&) {  // there is no such plan
      return false;
    }
  };
  const auto with = [&](auto change) {
    PlanArguments changed = a;
    change(changed);
    return changed;
  };
  attempt("--recompute full", with([](auto& c) { c.recompute = {"full"}; }), job);
  attempt("--precision bf16", with([](auto& c) { c.space.precision = {"bf16"}; }), job);
  attempt("--zero 3", with([](auto& c) { c.space.zero = {3}; }), job);
  attempt("--micro-batch 1", with([](auto& c) { c.space.micro_batch = {1}; }), job);
  TrainingJob adapters = job;
  if (const Options::Value* config = adapters.options.raw("config", ""); config != nullptr) {
    adapters.options.set("config", {config->text + "+lora_rank=16", config->where, {}});
    attempt("config=...+lora_rank=16", a, adapters);
  }
  // The type in "4xrtx_4090", "rtx_4090" or "rtx_4090,rtx_4090"; "" in "4".
  std::string type = a.cluster.devices.substr(0, a.cluster.devices.find_first_of(",+"));
  if (const std::size_t end = type.find_first_not_of("0123456789"); end != 0)
    type.erase(0, end == std::string::npos ? end : end + 1);
  for (std::int64_t times = 2; !a.cluster.devices.empty() && times <= 64; times *= 2) {
    const std::string more = fmt::format("{}{}{}", devices * times, type.empty() ? "" : "x", type);
    if (attempt("--devices " + more, with([&](auto& c) { c.cluster.devices = more; }), job)) break;
  }
  return remedies;
}

PlanFindings findings_of(const PlanArguments& a, const TrainingJob& job, const Machines& machines) {
  const PlanSpace space = whole_space(a, job, machines);
  if (a.check) {
    const ParallelPlan plan = plan_to_check(space, job, machines);
    return {{.fastest = {simulated_plan(job, plan, machines)}, .considered = 1, .simulated = 1}};
  }
  std::atomic<std::size_t> done = 0;
  const std::size_t total = plans_of(space, machines.devices, job.batch).size();
  const Stage stage("simulating plans", &done, total);
  PlanFindings found{fastest_plans(job, space, machines, a.top, done)};
  if (found.answer.fastest.empty())
    found = {std::move(found.answer), smallest_plans(job, space, machines),
             remedies_of(a, job, machines.devices), a.cluster.scenario.empty()};
  return found;
}

int plan(const PlanArguments& a) {
  if (a.batch == 0) throw InputError("--batch is required");
  if (!a.scenario.empty() && a.nodes.empty())
    throw InputError("--write-scenario needs --nodes, the machines that the scenario names");
  if (!a.scenario.empty() && a.framework != "none")
    throw InputError("--write-scenario: scenarios have no --framework");
  const Framework framework = read_framework(a.framework);
  const TrainingJob job = job_of(a, framework);
  std::vector<Evidence> evidence;
  const Machines machines = machines_of(a, framework, evidence);
  if (!a.scenario.empty() && std::cmp_greater(machines.devices, machines.cluster.num_devices()))
    throw InputError(fmt::format("--write-scenario: scenarios have at most {} devices",
                                 machines.cluster.num_devices()));
  const PlanFindings found = findings_of(a, job, machines);
  const std::vector<SimulatedPlan>& fastest = found.answer.fastest;
  const ParallelPlan* best = fastest.empty() ? nullptr : &fastest.front().plan;
  if (!a.scenario.empty() && best != nullptr) write_scenario(a, job, *best, machines);
  std::vector<Evidence> all =
      baechi::evidence_of(best == nullptr ? OpGraph{} : rank_graph(job, *best), *machines.gpu);
  std::ranges::copy(evidence, std::back_inserter(all));
  if (a.format == "json")
    print_json(plan_json(found, job, machines, all, a.check));
  else
    print_out(plan_text(found, job, machines, all, a.check));
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Verb& chosen) {
  const auto [verb, a] =
      add_verb(app, chosen, "plan",
               "Find how the kinds of parallelism train a model fastest, or check one plan", plan);
  add_argument(*verb, "MODEL", a->model,
               "A generator of a model, with options: gpt:num_hidden_layers=96,hidden_size=12288; "
               "gpt, gpt2, bert, transformer, llama, moe and hybrid divide theirs among ranks of "
               "tensor parallelism, too; a model ('baechi list models') or config.json of Hugging "
               "Face");
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
       "Ranks of tensor parallelism to try [the divisors of a node's devices that divide the "
       "model evenly]");
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
       "Replicas of a group that divide what ZeRO divides; groups add up their gradients [0: "
       "all replicas are one group]");
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
            "Memory of each device that plans leave free for the framework's runtime; "
            "--check only says whether it is free [1 GiB; 0 on devices of less than 4 GiB]");
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
