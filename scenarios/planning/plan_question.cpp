#include "scenarios/planning/plan_question.h"

#include <filesystem>

#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

/// The devices' memory is what --memory says, else that of --as, else their kind's. Adds to the
/// note and evidence.
Machines machines_of(const PlanQuestion& q, const Framework& framework,
                     std::vector<Evidence>& evidence, std::string& note) {
  std::int64_t devices = 0;
  if (!q.nodes.empty()) {
    const auto count = parse_number<std::int64_t>(q.cluster.devices);
    if (!count || *count < 1 || *count > most_planned_devices)
      throw InputError(fmt::format("--devices: '{}' is not a number from 1 to {}",
                                   q.cluster.devices, most_planned_devices));
    devices = *count;
  }
  PlatformFlags flags = q.cluster;
  flags.kind = q.as;
  Platform platform;
  if (q.nodes.empty())
    platform = read_platform(flags);
  else
    platform.cluster = cluster_of_nodes(q.nodes, devices);
  ClusterChoice& choice = platform.cluster;
  const DeviceChoice& first = choice.devices.front();
  const auto gpu = !q.as.empty()            ? device_kind(q.as, "--as")
                   : first.model != nullptr ? first.model  // a scenario's own kind
                                            : device_kind(first.kind, "--as");
  std::optional<Bytes> memory;
  if (!q.cluster.memory.empty()) {
    memory = parse_bytes(q.cluster.memory);
    if (!memory && !q.nodes.empty())
      throw InputError(
          fmt::format("--memory: '{}' is not a size such as '80 GB'", q.cluster.memory));
  }
  require_one_kind(choice);
  for (DeviceChoice& of : choice.devices) {
    if (!q.as.empty()) of.memory = gpu->memory;
    if (memory) of.memory = *memory;
  }
  const Bytes reserve = q.reserve.empty() ? usual_reserve(first.memory)
                                          : std::min(read_reserve(q.reserve), first.memory);
  for (DeviceChoice& of : choice.devices) of.memory = of.memory - reserve;
  evidence = choice.evidence;
  note += platform.note;
  Machines machines{.cluster = make_cluster(choice),
                    .gpu = std::make_shared<DeviceModel>(launched_by(framework, *gpu)),
                    .reserve = reserve};
  machines.devices =
      q.nodes.empty() ? static_cast<std::int64_t>(machines.cluster.num_devices()) : devices;
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

/// The plans to try. A group shares what ZeRO 3 divides, unless --zero says otherwise.
PlanSpace space_of(const PlanQuestion& q, const TrainingJob& job, const Machines& machines) {
  PlanSpace space = q.space;
  const Framework& framework = job.framework;
  space.send = usual_sending(framework, *machines.gpu);
  space.overlap = framework.tp_comm_overlap;
  space.overlap_experts = framework.overlap_expert_dispatch;
  space.recompute_layers = framework.recompute_layers;
  space.offload_layers = framework.offload_layers;
  space.count_ends = framework.account_for_embedding_and_loss;
  space.recompute.clear();
  for (const std::string& word : q.recompute)
    space.recompute.push_back(word == "on" ? Recomputing::full : *parse<Recomputing>(word));
  space.sequence = truths(q.sequence);
  if (space.zero.empty())
    space.zero =
        space.group == std::vector<std::int64_t>{0} ? std::vector{0, 1, 2, 3} : std::vector{3};
  return with_defaults(std::move(space), job, machines);
}

/// A generator with options; a published model is the one that makes it.
std::string generator_of(const std::string& text, std::string* note = nullptr) {
  auto model = published_model(text);
  if (!model) return text;
  if (note != nullptr && !model->not_known.empty())
    *note += fmt::format("{}: warning: {}\n", text, model->not_known);
  if (is_file(model->path)) model->path = std::filesystem::absolute(model->path).string();
  return model->generator();
}

TrainingJob asked_job(const PlanQuestion& q, std::string& note) {
  Framework framework = read_framework(q.framework);
  const Choice model = parse_choice(generator_of(q.model, &note), "MODEL");
  if (is_file(model.name)) {
    require_kind(TextFile(model.name, Content::any), "a generator of a model");
    throw InputError(
        fmt::format("{}: a file: plan divides models that a generator makes ('baechi "
                    "list generators'; a config.json of Hugging Face names one)",
                    model.name));
  }
  require_generator(model.name);
  return {.generator = model.name,
          .options = model.options,
          .batch = q.batch,
          .framework = std::move(framework)};
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

/// Changes of one flag with which a plan fits, each with its fastest one.
std::vector<Remedy> remedies_of(const PlanQuestion& q, const TrainingJob& job,
                                std::int64_t devices) {
  std::vector<Remedy> remedies;
  const auto attempt = [&](std::string flags, const PlanQuestion& with, const TrainingJob& of) {
    try {
      std::vector<Evidence> unused;
      std::string note;
      std::atomic<std::size_t> done = 0;
      const Machines machines = machines_of(with, of.framework, unused, note);
      const PlanAnswer answer = fastest_plans(of, space_of(with, of, machines), machines, 1, done);
      if (answer.fastest.empty()) return false;
      remedies.push_back({std::move(flags), answer.fastest.front()});
      return true;
    } catch (const InputError&) {  // there is no such plan
      return false;
    }
  };
  const auto with = [&](auto change) {
    PlanQuestion changed = q;
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
    attempt("config=...+lora_rank=16", q, adapters);
  }
  // The type in "4xrtx_4090", "rtx_4090" or "rtx_4090,rtx_4090"; "" in "4".
  std::string type = q.cluster.devices.substr(0, q.cluster.devices.find_first_of(",+"));
  if (const std::size_t end = type.find_first_not_of("0123456789"); end != 0)
    type.erase(0, end == std::string::npos ? end : end + 1);
  for (std::int64_t times = 2; !q.cluster.devices.empty() && times <= 64; times *= 2) {
    const std::string more = fmt::format("{}{}{}", devices * times, type.empty() ? "" : "x", type);
    if (attempt("--devices " + more, with([&](auto& c) { c.cluster.devices = more; }), job)) break;
  }
  return remedies;
}

}  // namespace

PlanFindings answer_plan(const PlanQuestion& q, const Watch& watch) {
  if (q.batch == 0) throw InputError("--batch is required");
  std::string note;
  std::vector<Evidence> evidence;
  const TrainingJob job = asked_job(q, note);
  PlanFindings found{job, machines_of(q, job.framework, evidence, note)};
  const Machines& machines = found.machines;
  if (q.as_scenario && std::cmp_greater(machines.devices, machines.cluster.num_devices()))
    throw InputError(fmt::format("--write-scenario: scenarios have at most {} devices",
                                 machines.cluster.num_devices()));
  found.note = std::move(note);
  const PlanSpace space = space_of(q, job, machines);
  if (q.check) {
    const ParallelPlan plan = plan_to_check(space, job, machines);
    found.answer = {
        .fastest = {simulated_plan(job, plan, machines)}, .considered = 1, .simulated = 1};
  } else {
    std::atomic<std::size_t> done = 0;
    const auto shown =
        begin_watch(watch, done, plans_of(space, machines.devices, job.batch).size());
    found.answer = fastest_plans(job, space, machines, q.top, done);
    if (found.answer.fastest.empty()) {
      found.smallest = smallest_plans(job, space, machines);
      found.remedies = remedies_of(q, job, machines.devices);
      found.more_devices = q.cluster.scenario.empty();
    }
  }
  const auto& fastest = found.answer.fastest;
  found.evidence = evidence_of(fastest.empty() ? OpGraph{} : rank_graph(job, fastest.front().plan),
                               *machines.gpu);
  found.evidence.insert(found.evidence.end(), evidence.begin(), evidence.end());
  return found;
}

std::pair<std::string, std::string> scenario_of(const PlanQuestion& q, const PlanFindings& found,
                                                std::string_view placement) {
  const ParallelPlan& plan = found.answer.fastest.front().plan;
  const Machines& machines = found.machines;
  const auto devices = static_cast<std::int64_t>(machines.cluster.num_devices()),
             nodes = static_cast<std::int64_t>(machines.cluster.num_nodes());
  return {plan_scenario(generator_of(q.model), found.job, plan,
                        {.kind = q.nodes,
                         .count = nodes,
                         .devices = devices / nodes,
                         .gpu = machines.gpu.get(),
                         .memory = machines.memory()},
                        placement),
          plan.pipeline > 1 ? placement_of_stages(found.job, plan, machines.cluster) : ""};
}

}  // namespace baechi
