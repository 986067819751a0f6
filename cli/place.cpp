#include <new>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/step_text.h"
#include "placers/exact/replicated_split.h"
#include "placers/files/placement_file.h"
#include "placers/interface/registry.h"
#include "placers/planners/planner.h"
#include "placers/planners/simulated_batch.h"
#include "scenarios/export/framework_file.h"
#include "scenarios/read/sections.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

struct PlaceArguments {
  TraceArgument trace;
  PlatformFlags cluster;
  std::string placer = "auto", output, format, exported, reserve;
  std::vector<std::string> transforms;
  std::uint64_t seed = 0;
  bool quick = false;
};

struct PlacerRun {
  std::optional<Placement> placement;  ///< nullopt: infeasible
  std::string detail;                  ///< why it is infeasible, or the placer's remark
  std::chrono::nanoseconds placing{};  ///< wall-clock time of transforms and placing
  bool interrupted = false;
};

/// Runs the placer with progress. If it can stop early, the first Ctrl-C makes it return its best
/// placement so far.
Placement place_with_progress(const Placer& placer, const Experiment& experiment,
                              std::uint64_t seed, bool& interrupted) {
  if (!placer.can_stop()) {
    const Stage stage("placing");
    return experiment.place(placer, seed);
  }
  const Interrupt interrupt("using the best placement so far");
  ProgressStage stage("placing");
  Placement placement = experiment.place(
      placer, seed,
      {.stop = &interrupt.wanted(),
       .progress = [&stage](std::string_view line, double done) { stage.update(line, done); }});
  interrupted = interrupt.wanted();
  return placement;
}

PlacerRun run_placer(const Placer& placer, const Experiment& experiment, std::uint64_t seed) {
  PlacerRun answer;
  const auto start = std::chrono::steady_clock::now();
  try {
    answer.placement = place_with_progress(placer, experiment, seed, answer.interrupted);
    answer.detail = answer.placement->detail;
  } catch (const InfeasibleError& infeasible) {
    answer.detail = infeasible.what();
  } catch (const std::bad_alloc&) {
    throw HostMemoryError(fmt::format("placing {} ops", experiment.problem().graph.num_ops()));
  }
  answer.placing = std::chrono::steady_clock::now() - start;
  if (answer.placement && answer.placement->own_placing) {
    const std::chrono::nanoseconds own = *answer.placement->own_placing;
    if (answer.placing > 2 * own)
      fmt::print(stderr,
                 "the program says that it took {} of {}: persistent=true saves its start where "
                 "many problems follow each other\n",
                 to_text(own), to_text(answer.placing));
    answer.placing = own;
  }
  answer.placing += experiment.graph().transforming;
  return answer;
}

struct SimulatedPlacement {
  explicit SimulatedPlacement(ExperimentStep placed)
      : step(std::move(placed)), result(step.simulate()) {}
  ExperimentStep step;
  StepResult result;
};

/// What the fullest device has left besides its peak; `reserve` is not in the problem's limits.
Bytes least_spare(const SimulatedPlacement& simulated, Bytes reserve) {
  const Problem problem = simulated.step.problem();
  std::vector<Bytes> spare;
  for (const DeviceId d : problem.cluster.devices())
    spare.push_back(problem.cluster.device(d).memory - simulated.result.devices[d].peak + reserve);
  return std::ranges::min(spare);
}

/// The `placement` object of a placement file: op name to device number. Appends to the object's
/// underlying list, because insertion into ordered_json searches for an equal key, which is
/// quadratic.
Json devices_of_ops(const Placement& placement, const OpGraph& graph) {
  Json json = Json::object();
  auto& list = json.get_ref<Json::object_t&>();
  list.reserve(graph.num_ops());
  for (const OpId v : graph.ops()) list.emplace_back(graph.name(v), index(placement.device[v]));
  return json;
}

/// Adds the plan, in the format of planners, if the placer replicated stages.
void add_plan(Json& json, const Placement& placement, const Problem& problem) {
  const auto stages = exact::replicated_stages(problem, placement);
  if (stages.empty()) return;
  Json list = Json::array();
  for (const exact::ReplicatedStage& stage : stages) {
    Json ops = Json::array(), devices = Json::array();
    for (const OpId v : stage.ops) ops.push_back(problem.graph.name(v));
    for (const DeviceId d : stage.devices) devices.push_back(Json::array({index(d)}));
    list.push_back({{"ops", std::move(ops)},
                    {"devices", std::move(devices)},
                    {"recompute", Json::array()},
                    {"data_parallel", stage.devices.size()},
                    {"tensor_parallel", 1},
                    {"memory_bytes", stage.weights.count},
                    {"time_us", stage.time_us}});
  }
  json["time_per_sample_us"] = placement.facts.at("time_per_sample_us");
  json["plan"] = {{"stages", std::move(list)}};
}

/// The fields of a placement file, and placer, placing time, facts and status.
Json answer_json(const PlacerRun& answer, const std::optional<SimulatedPlacement>& simulated,
                 const Experiment& experiment, const std::string& graph_name,
                 const std::string& placer, Bytes reserve) {
  const Problem problem = experiment.problem();
  Json json{{"format", "baechi-placement"},
            {"version", 1},
            {"graph", graph_name},
            {"devices", problem.cluster.num_devices()},
            {"placement", Json::object()}};
  if (answer.placement) {
    json["placement"] = devices_of_ops(*answer.placement, problem.graph);
    for (const OpId v : problem.graph.ops())
      if (answer.placement->waits(v))
        json["home"][std::string(problem.graph.name(v))] = index(answer.placement->home[v]);
    if (json.contains("home")) json["prefetch"] = answer.placement->prefetch;
    if (!answer.placement->priority.empty()) json["order"] = Json::array();
    for (const OpId v : placement_order(*answer.placement, problem.graph))
      json["order"].push_back(problem.graph.name(v));
  }
  add_times(json, experiment);
  json["placer"] = placer;
  if (answer.placement) json["placed_by"] = answer.placement->placed_by;
  json["placing_ms"] = std::chrono::duration<double, std::milli>(answer.placing).count();
  json["facts"] = answer.placement ? Json(answer.placement->facts) : Json::object();
  json["status"] = to_text(!answer.placement                    ? Status::infeasible
                           : simulated && simulated->result.oom ? Status::oom
                                                                : Status::ok);
  json["detail"] = answer.detail;
  if (answer.placement) add_plan(json, *answer.placement, problem);
  json["step_time_us"] = Json();
  json["peak_kinds"] = Json();
  json["spare_bytes"] = simulated ? Json(least_spare(*simulated, reserve).count) : Json();
  if (!simulated) return json;
  const StepResult& result = simulated->result;
  const auto fullest = std::ranges::max_element(result.devices, {}, &DeviceUse::peak);
  json["peak_kinds"] = peak_json(
      peak_memory(simulated->step.problem(), simulated->step.placement(),
                  static_cast<DeviceId>(fullest - result.devices.begin()), fullest->at_peak));
  if (result.oom)
    json["detail"] =
        fmt::format("{}{}{}", answer.detail, answer.detail.empty() ? "" : "; ",
                    sentence(*result.oom, simulated->step.problem(), simulated->step.placement()));
  else
    json["step_time_us"] = to_us(result.makespan);
  return json;
}

std::string answer_table(const PlacerRun& answer,
                         const std::optional<SimulatedPlacement>& simulated, const Problem& problem,
                         const std::string& placer, const std::string& name, CountedMemory counted,
                         Bytes reserve) {
  std::string text = fmt::format("placer       {}, {} for {} ops\n", placer,
                                 to_text(answer.placing), problem.graph.num_ops());
  if (!simulated) {
    const LowerBounds bounds = lower_bounds(problem.graph, problem.cluster, problem.costs);
    text += red(to_text(Status::infeasible)) + fmt::format("   {}\n", answer.detail);
    if (!bounds.fits_in_memory && answer.detail.find(bounds.why_not) == std::string::npos)
      text += "no placement fits: " + bounds.why_not + "\n";
    return text;
  }
  if (answer.placement->placed_by != name)
    text += fmt::format("placed by    {}\n", answer.placement->placed_by);
  if (!answer.detail.empty()) text += fmt::format("detail       {}\n", answer.detail);
  const Problem step = simulated->step.problem();
  const LowerBounds bounds = lower_bounds(step.graph, step.cluster, step.costs);
  if (simulated->result.oom && counted == CountedMemory::weights)
    text += fmt::format(
        "memory       {} only counts weights; a step also holds outputs and copies\n", placer);
  const Bytes spare = least_spare(*simulated, reserve),
              usual = usual_reserve(step.cluster.device(DeviceId{}).memory + reserve);
  if (!simulated->result.oom && spare < usual)
    text += fmt::format(
        "spare        {}, less than a framework's runtime takes: --reserve '{}' keeps it free\n",
        to_text(spare), to_text(usual));
  return text + step_table(simulated->result, bounds, step, simulated->step.placement(), reserve);
}

using planners::PlannedStage;
using planners::PlannerAnswer;
using planners::PlannerInput;
using planners::StagedPlan;

/// The arguments of the verb that concern planners.
struct PlanRequest {
  std::string file;  ///< Piper's input, with the default of every flag
  Choice planner;
  std::string planner_text;  ///< as typed
  std::string output, format;
};

Json planner_stages_json(const PlannerAnswer& answer) {
  Json stages = Json::array();
  const StagedPlan& plan = answer.planned->plan;
  const std::vector<std::int64_t> first = planners::first_devices(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    Json ops = Json::array(), replicas = Json::array();
    for (const exact::BundleId b : stage.nodes) ops.push_back(answer.input.nodes[b].op);
    for (std::int64_t r = 0; r < stage.data_parallel; ++r) {
      Json group = Json::array();
      for (std::int64_t t = 0; t < stage.tensor_parallel; ++t)
        group.push_back(first[s] + r * stage.tensor_parallel + t);
      replicas.push_back(std::move(group));
    }
    stages.push_back({{"ops", std::move(ops)},
                      {"devices", std::move(replicas)},
                      {"recompute", planners::recomputed(answer.input, stage)},
                      {"data_parallel", stage.data_parallel},
                      {"tensor_parallel", stage.tensor_parallel},
                      {"micro_batches_in_flight", stage.in_flight},
                      {"memory_bytes", stage.memory},
                      {"time_us", stage.time * 1e6}});
  }
  return stages;
}

/// A placement file, where each op is on the first device of its stage, and the plan.
Json planner_answer_json(const PlannerAnswer& answer, const PlanRequest& request) {
  Json json{{"format", "baechi-placement"},
            {"version", 1},
            {"graph", request.file},
            {"devices", answer.input.devices},
            {"placement", Json::object()}};
  json["placer"] = request.planner_text;
  json["placing_ms"] = std::chrono::duration<double, std::milli>(answer.planning).count();
  json["facts"] = Json::object();
  json["status"] = to_text(answer.planned ? Status::ok : Status::infeasible);
  json["detail"] = answer.detail;
  json["time_per_sample_us"] = Json();
  json["simulated_us"] = Json();
  json["simulated_together_us"] = Json();
  json["simulated_overlap_us"] = Json();
  json["simulated_batch_us"] = Json();
  json["difference"] = Json();
  json["plan"] = Json();
  if (!answer.planned) return json;
  const StagedPlan& plan = answer.planned->plan;
  const std::vector<std::int64_t> first = planners::first_devices(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const exact::BundleId b : plan.stages[s].nodes)
      json["placement"][answer.input.nodes[b].op] = first[s];
  json["facts"] = answer.planned->facts;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {  // in the format that Replicas reads
    json["facts"][fmt::format("stage_{}_first", s)] = first[s];
    json["facts"][fmt::format("stage_{}_devices", s)] = plan.stages[s].data_parallel;
  }
  json["facts"]["devices_used"] = plan.devices();
  json["facts"]["micro_batches"] = answer.input.micro_batches;
  json["facts"]["simulated_micro_batches"] = answer.batch->micro_batches;
  json["time_per_sample_us"] = plan.time_per_sample * 1e6;
  using enum planners::StageTransfers;
  if (answer.batch->at(apart) > 0.0) {
    json["simulated_us"] = answer.batch->at(apart) * 1e6;
    json["simulated_together_us"] = answer.batch->at(together) * 1e6;
    json["simulated_overlap_us"] = answer.batch->at(overlap) * 1e6;
    json["difference"] = answer.batch->difference;
  }
  json["simulated_batch_us"] = answer.batch->seconds * 1e6;
  json["plan"] = {{"stages", planner_stages_json(answer)}};
  return json;
}

std::string planner_answer_table(const PlannerAnswer& answer, const PlanRequest& request) {
  std::string text = fmt::format("placer       {}, {} for {} nodes\n", request.planner_text,
                                 to_text(answer.planning), answer.input.nodes.size());
  if (!answer.planned)
    return text + red(to_text(Status::infeasible)) + fmt::format("   {}\n", answer.detail);
  const StagedPlan& plan = answer.planned->plan;
  if (!answer.detail.empty()) text += fmt::format("detail       {}\n", answer.detail);
  const auto us = [](double seconds) { return fmt::format("{:.3f} us", seconds * 1e6); };
  text += fmt::format("per sample   {} by the planner's formula, {} of {} devices\n",
                      bold(us(plan.time_per_sample)), plan.devices(), answer.input.devices);
  using enum planners::StageTransfers;
  if (answer.batch->at(apart) > 0.0)
    text +=
        fmt::format("simulated    {}: {}\n", us(answer.batch->at(apart)), answer.batch->difference);
  text += fmt::format("batch        {} for {} micro-batches, simulated\n\n",
                      us(answer.batch->seconds), answer.batch->micro_batches);
  Columns columns({"stage", "nodes", "recompute", "replicas", "tensor parallel", "in flight",
                   "memory", "per sample"});
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    columns.add({fmt::format("{}", s), fmt::format("{}", stage.nodes.size()),
                 fmt::format("{}", planners::recomputed(answer.input, stage).size()),
                 fmt::format("{}", stage.data_parallel), fmt::format("{}", stage.tensor_parallel),
                 fmt::format("{}", stage.in_flight),
                 to_text(Bytes{static_cast<std::int64_t>(stage.memory)}), us(stage.time)});
  }
  return text + columns.text();
}

/// Plans, simulates a batch of the plan, prints and writes it; returns the exit code. Throws
/// InputError on mistakes in the file, the options or the flags.
int place_plan(PlanRequest request, const planners::PlannerEntry& entry,
               const PlatformFlags& flags) {
  request.planner.options.set("file", {request.file, "", {}});
  const auto planner = entry.make(request.planner.options);
  request.planner.options.finish();
  PlannerInput input = with_devices(planners::read_planner_input(request.file), flags);
  PlannerAnswer answer;
  {
    const Stage stage("planning");
    answer = planners::run_planner(*planner, std::move(input));
  }
  if (answer.planned) {
    const Stage stage("simulating");
    answer.batch = planners::simulate(answer.planned->plan, answer.input);
  }
  if (answer.planned && !request.output.empty())
    write_aside(request.output, planner_answer_json(answer, request).dump(1) + "\n");
  if (request.format == "json")
    print_json(planner_answer_json(answer, request));
  else
    print_out(planner_answer_table(answer, request));
  return 0;
}

int place_as_plan(const PlaceArguments& arguments, Choice choice,
                  const planners::PlannerEntry& entry) {
  if (!arguments.transforms.empty())
    throw InputError("--transform: planners do not transform Piper's input");
  if (!arguments.trace.importer.empty())
    throw InputError("--importer: planners only read Piper's input format");
  if (!arguments.reserve.empty())
    throw InputError("--reserve: planners take the memory of --memory as it is");
  if (!arguments.exported.empty() && arguments.exported != to_text(ExportFormat::json))
    throw InputError("--export: a plan can only be written as JSON");
  return place_plan({.file = arguments.trace.path,
                     .planner = std::move(choice),
                     .planner_text = arguments.placer,
                     .output = arguments.output,
                     .format = arguments.format},
                    entry, arguments.cluster);
}

/// Writes the placement to the file of -o in the format of --export.
void write_answer(const PlaceArguments& arguments, const PlacerRun& answer, const Placer& placer,
                  const Experiment& experiment, const std::string& graph_name) {
  if (!answer.placement || arguments.output.empty()) return;
  const Stage stage("writing " + arguments.output);
  const auto published = published_model(arguments.trace.path);
  const std::string& name =
      published && arguments.exported == "vllm" ? published->repository : graph_name;
  const ExportTask task{experiment,     placer, arguments.placer,
                        arguments.seed, name,   arguments.output};
  const auto format = parse<ExportFormat>(arguments.exported).value_or(ExportFormat::json);
  fmt::print(stderr, "{}", export_placement(format, task, *answer.placement));
}

int place(const PlaceArguments& arguments) {
  if (!arguments.exported.empty() && arguments.output.empty())
    throw InputError("--export needs -o FILE");
  Choice choice = parse_choice(arguments.placer, "--placer");
  if (arguments.quick) {
    if (choice.name != "auto")
      throw InputError(fmt::format("--quick: an option of auto, not of {}", choice.name));
    choice.options.set("quick", {"true", "--quick", {}});
  }
  if (const planners::PlannerEntry* planner = planners::find_planner(choice.name))
    return place_as_plan(arguments, std::move(choice), *planner);
  const CountedMemory counted = placer_entry(choice.name, choice.where).memory;
  const std::unique_ptr<Placer> placer =
      make_placer(choice.name, std::move(choice.options), choice.where);
  std::optional<std::vector<TransformChoice>> transforms;
  for (const std::string& text : arguments.transforms) {
    if (!transforms) transforms.emplace();
    transforms->push_back(make_transform_choice(parse_choice(text, "--transform")));
  }
  PlatformFlags cluster = arguments.cluster;
  if (!arguments.reserve.empty()) cluster.reserve = read_reserve(arguments.reserve);
  const auto [graph_name, experiment, samples] =
      read_experiment(arguments.trace, cluster, std::move(transforms));
  const Problem problem = experiment.problem();

  if (!arguments.exported.empty())
    require_modules(experiment, *parse<ExportFormat>(arguments.exported), arguments.trace.path);

  PlacerRun answer = run_placer(*placer, experiment, arguments.seed);
  if (answer.placement && answer.placement->placed_by.empty())
    answer.placement->placed_by = choice.name;
  std::optional<ExperimentStep> step;
  try {
    if (answer.placement) step.emplace(experiment.step(*answer.placement));
  } catch (const InfeasibleError& infeasible) {
    answer.placement.reset();
    answer.detail = infeasible.what();
  }
  write_answer(arguments, answer, *placer, experiment, graph_name);
  std::optional<SimulatedPlacement> simulated;
  if (step) {
    const Stage stage("simulating");
    try {
      simulated.emplace(*std::move(step));
    } catch (const std::bad_alloc&) {
      throw HostMemoryError(fmt::format("simulating {} ops", answer.placement->device.size()));
    }
  }
  if (arguments.format == "json")
    print_json(
        answer_json(answer, simulated, experiment, graph_name, arguments.placer, cluster.reserve));
  else
    print_out(times_line(experiment) + answer_table(answer, simulated, problem, arguments.placer,
                                                    choice.name, counted, cluster.reserve));
  return answer.interrupted ? 130 : 0;
}

}  // namespace

void add_place(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<PlaceArguments>();
  CLI::App* verb = app.add_subcommand("place", "Place the ops of a graph on devices");
  add_trace_argument(*verb, arguments->trace);
  verb->add_option("--placer", arguments->placer,
                   "Placer ('baechi list placers') [auto]; exec:PROGRAM runs an external program "
                   "as the placer")
      ->type_name("NAME[:k=v,...]");
  verb->add_flag("--quick", arguments->quick,
                 "With auto: only run placers of ops; no cuts, no placers of modules, no search");
  add_repeated(*verb, "--transform", arguments->transforms, "NAME[:k=v,...]",
               "Transform the graph first ('baechi list transforms'); replaces the scenario's "
               "transforms; may be repeated");
  verb->add_option("-o,--output", arguments->output,
                   "Write the placement to FILE if the placer finds one")
      ->type_name("FILE");
  verb->add_option("--export", arguments->exported,
                   "Format of FILE: accelerate (a device_map of whole modules), pipelining (split "
                   "points, devices and schedule for torch.distributed.pipelining), llamacpp, vllm "
                   "or megatron (arguments for whole layers), deepspeed (a configuration) or json "
                   "(a placement file) [json]")
      ->type_name("NAME")
      ->check(one_of<ExportFormat>());
  verb->add_option("--reserve", arguments->reserve,
                   "Memory of each device that placements leave free, as for the framework's "
                   "runtime; column 'spare' says what they leave [0]")
      ->type_name("SIZE");
  verb->add_option("--seed", arguments->seed, "Seed for placers that use random numbers [0]")
      ->type_name("N")
      ->check(is_seed());
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->footer(
      "If the placer finds no placement that fits, the status is infeasible and the exit code 0.\n"
      "Examples:\n"
      "  baechi place graph.json --devices 4 --memory '8 GiB'    the best of the quick placers\n"
      "  baechi place graph.json --placer m_etf --devices 4 --memory '8 GiB' -o placement.json\n"
      "  baechi place graph.json --placer search:seconds=10,objective=max_load --devices 4 \\\n"
      "      --memory '8 GiB'    Ctrl-C uses the best so far\n"
      "  baechi place graph.json --placer exec:./my_placer.py --devices 2 --memory '4 GiB'\n"
      "  baechi place graph.json --placer m_etf --devices 4 --memory '16 GiB' --export accelerate "
      "\\\n"
      "      -o device_map.json\n"
      "  baechi place graph.json --placer m_sct --transform baechi --devices 4 --kind v100\n"
      "  baechi place graph.json --placer m_topo:uniform=false --scenario first.yaml");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return place(*arguments); }; });
}

}  // namespace baechi
