#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/cluster_flags.h"
#include "cli/explain_text.h"
#include "cli/output.h"
#include "cli/step_text.h"
#include "cli/verbs.h"
#include "placers/files/placement_file.h"
#include "scenarios/results/results.h"
#include "scenarios/run/runner.h"
#include "sim/error.h"

namespace baechi {
namespace {

struct ExplainArguments {
  TraceArgument trace;
  ClusterFlags cluster;
  std::string placement, run, against, format;
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

/// A step to explain, and where it is from.
struct Subject {
  std::string name;
  Experiment experiment;
  ExperimentStep step;
};

Subject of_file(const Experiment& experiment, const std::string& path) {
  try {
    return {path, experiment, experiment.step(read_placement_or_split(path, experiment.problem()))};
  } catch (const InfeasibleError& e) {
    throw InputError(fmt::format(
        "{}: has no placement to explain, because its placer found none: {}", path, e.what()));
  }
}

/// The steps of the runs `ids` of the results in a folder, made again of the scenarios in them.
std::vector<Subject> of_runs(const std::string& folder, const std::vector<std::string>& ids) {
  const Results results = read_results(folder);
  const Sweep sweep = sweep_again(results);
  std::vector<Subject> subjects;
  for (const std::string& id : ids) {
    const auto number = parse_number<std::size_t>(id);
    const auto row = std::ranges::find(results.rows, number, &RunResult::id);
    if (!number || row == results.rows.end())
      throw InputError(
          fmt::format("--run: '{}' is not one of the {} runs of {} (column id of "
                      "results.csv)",
                      id, results.rows.size(), folder));
    subjects.push_back({fmt::format("run {}, {}", id, row->placer),
                        sweep.experiment(sweep.run(row->id)), step_of(sweep, *row)});
  }
  return subjects;
}

std::vector<Subject> subjects_of(const ExplainArguments& arguments) {
  std::vector<std::string> wanted{arguments.run.empty() ? arguments.placement : arguments.run};
  if (!arguments.against.empty()) wanted.push_back(arguments.against);
  std::vector<Subject> subjects;
  if (!arguments.run.empty()) {
    subjects = of_runs(arguments.trace.path, wanted);
  } else if (!arguments.placement.empty()) {
    const Experiment experiment = read_experiment(arguments.trace, arguments.cluster).experiment;
    for (const std::string& path : wanted) subjects.push_back(of_file(experiment, path));
  } else {
    throw InputError("explain needs --placement FILE, or a folder of results and --run ID");
  }
  for (const Subject& subject : subjects)
    if (subject.experiment.problem().engine.semantics != Semantics::event)
      throw InputError("explain needs engine semantics 'event'");
  return subjects;
}

/// Two steps side by side, without memory limits: the kinds of parts of their critical paths add up
/// to their times, so that the differences add up, too.
int explain_both(const std::vector<Subject>& subjects, bool as_json) {
  nlohmann::ordered_json json{{"status", to_text(Status::ok)}}, steps;
  Report table(
      {{"", "critical path"}, {"", subjects[0].name}, {"", subjects[1].name}, {"", "difference"}});
  std::array<std::array<Duration, num_path_kinds + 1>, 2> times{};  // by kind, then of the step
  std::string notes;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    Problem problem = subjects[i].step.problem();
    if (const auto oom = subjects[i].step.simulate().oom) {
      json["status"] = to_text(Status::oom);
      notes += fmt::format("{}: {}\n", subjects[i].name,
                           red(sentence(*oom, problem, subjects[i].step.placement())));
    }
    problem.engine.enforce_memory = false;
    Timeline timeline;
    StepObserver* const observers[] = {&timeline};
    const StepResult result = simulate(problem, subjects[i].step.placement(), observers);
    for (const PathPart& part :
         critical_path_of(problem, subjects[i].step.placement(), timeline, result))
      times[i][static_cast<std::size_t>(part.kind)] += part.length();
    times[i].back() = result.makespan;
  }
  const auto line = [&](std::size_t k, std::string_view word, std::string_view meaning) {
    const Duration difference = times[1][k] - times[0][k];
    table.add({meaning, times[0][k], times[1][k],
               (difference > Duration{} ? "+" : "") + to_text(difference)});
    for (std::size_t i = 0; i < 2; ++i) steps[i][std::string(word)] = to_us(times[i][k]);
    json["difference"][std::string(word)] = to_us(difference);
  };
  for (std::size_t i = 0; i < 2; ++i) steps[i]["name"] = subjects[i].name;
  for (const auto& [kind, word, meaning] : names_of(PathKind{}))
    line(static_cast<std::size_t>(kind), word, meaning);
  line(num_path_kinds, "step_time_us", "step time");
  if (as_json) {
    json["steps"] = std::move(steps);
    print_json(json);
  } else {
    print_out(notes + (notes.empty() ? "" : "without memory limits:\n") + table.table());
  }
  return 0;
}

int explain_once(const ExplainArguments& arguments) {
  const std::vector<Subject> subjects = subjects_of(arguments);
  const bool as_json = arguments.format == "json";
  if (subjects.size() == 2) return explain_both(subjects, as_json);
  const auto& [name, experiment, step] = subjects.front();
  const Problem problem = step.problem();
  Timeline timeline;
  std::vector<StepObserver*> observers{&timeline};
  const StepResult result = step.simulate(observers);
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
  CLI::Option* placement =
      verb->add_option("--placement", arguments->placement, "Placement file")->type_name("FILE");
  CLI::Option* run =
      verb->add_option("--run", arguments->run,
                       "Explain run ID (column id of results.csv) of the folder TRACE that "
                       "'baechi run' wrote")
          ->type_name("ID")
          ->excludes(placement);
  verb->add_option("--against", arguments->against,
                   "Compare with the step of this placement file or, with --run, of this run: the "
                   "difference by cause, which adds up")
      ->type_name("FILE|ID");
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  for (CLI::Option* option : verb->get_options())
    if (option->get_group() == "CLUSTER") run->excludes(option);
  verb->footer(
      "The critical path is traced back from the last op to its last input, to the producer of\n"
      "that input, and so on. Waiting times are part of it, so its parts add up to the step time.\n"
      "Ops do not wait for memory: if an allocation fails, the step ends.\n"
      "Examples:\n"
      "  baechi explain graph.json --placement placement.json --devices 4 --memory '8 GiB'\n"
      "  baechi explain results/first --run 3 --against 5");
  verb->callback(
      [&chosen, arguments] { chosen = [arguments] { return explain_once(*arguments); }; });
}

}  // namespace baechi
