#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/cluster_flags.h"
#include "cli/explain_text.h"
#include "cli/output.h"
#include "cli/step_text.h"
#include "cli/verbs.h"
#include "placers/files/split_file.h"
#include "sim/error.h"

namespace baechi {
namespace {

struct ExplainArguments {
  TraceArgument trace;
  ClusterFlags cluster;
  std::string placement, format;
};

/// The step without memory limits.
StepResult without_limit(const Problem& problem, const Placement& placement) {
  EngineOptions engine = problem.engine;
  engine.enforce_memory = false;
  return simulate({problem.graph, problem.cluster, problem.costs, engine}, placement);
}

void print_oom(const Problem& problem, const Placement& placement, const Timeline& timeline,
               const OutOfMemory& oom, bool as_json) {
  const std::vector<LiveTensor> live = live_tensors(problem, placement, timeline, oom);
  const Duration unlimited = without_limit(problem, placement).makespan;
  if (!as_json) {
    print_out(fmt::format("{}\nwithout memory limits the step would take {}\n\n{}",
                          red(sentence(oom, problem, placement)), to_text(unlimited),
                          live_text(live, oom, problem)));
    return;
  }
  nlohmann::ordered_json json{{"status", to_text(Status::oom)},
                              {"step_time_us", nullptr},
                              {"without_limit_us", to_us(unlimited)},
                              {"critical_path", nlohmann::ordered_json::array()},
                              {"oom",
                               {{"device", problem.cluster.device(oom.device).name},
                                {"at_us", to_us(oom.at.time_since_epoch())},
                                {"name", problem.graph.name(oom.op)},
                                {"needed_bytes", oom.needed.count},
                                {"free_bytes", oom.free.count},
                                {"live", live_json(live, problem)}}}};
  print_json(json);
}

int explain_once(const ExplainArguments& arguments) {
  const Experiment experiment = read_experiment(arguments.trace, arguments.cluster).experiment;
  if (experiment.problem().engine.semantics != Semantics::event)
    throw InputError("explain needs engine semantics 'event'");
  Placement read;
  try {
    read = read_placement_or_split(arguments.placement, experiment.problem());
  } catch (const InfeasibleError& e) {
    throw InputError(
        fmt::format("{}: has no placement to explain, because its placer found none: {}",
                    arguments.placement, e.what()));
  }
  const ExperimentStep step = experiment.step(std::move(read));
  const Problem problem = step.problem();
  Timeline timeline;
  std::vector<StepObserver*> observers{&timeline};
  const StepResult result = step.simulate(observers);
  const bool as_json = arguments.format == "json";
  if (result.oom) {
    print_oom(problem, step.placement(), timeline, *result.oom, as_json);
    return 0;
  }
  const Explanation explanation = explain(problem, step.placement(), timeline, result);
  std::vector<Duration> busy;
  for (const DeviceUse& use : result.devices) busy.push_back(use.busy);
  const StepUtilisation used =
      utilisation(problem, step.placement(), step.device_models(), result.makespan, busy);
  if (as_json) {
    nlohmann::ordered_json json{{"status", "ok"}};
    json.update(explanation_json(explanation, problem));
    add_times(json, experiment);
    json["utilisation"] = utilisation_json(used, problem);
    print_json(json);
  } else {
    const std::string parts = utilisation_text(used, result.makespan, problem);
    print_out(times_line(experiment) + explanation_text(explanation, problem) +
              (parts.empty() ? "" : "\n" + parts));
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* verb = app.add_subcommand(
      "explain", "Show where a placed graph's step time goes, or what fills the memory");
  add_trace_argument(*verb, arguments->trace);
  verb->add_option("--placement", arguments->placement, "Placement file")
      ->required()
      ->type_name("FILE");
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->footer(
      "The critical path is traced back from the last op to its last input, to the producer of\n"
      "that input, and so on. Waiting times are part of it, so its parts add up to the step time.\n"
      "Ops do not wait for memory: if an allocation fails, the step ends.\n"
      "Example:\n"
      "  baechi explain graph.json --placement placement.json --devices 4 --memory '8 GiB'");
  verb->callback(
      [&chosen, arguments] { chosen = [arguments] { return explain_once(*arguments); }; });
}

}  // namespace baechi
