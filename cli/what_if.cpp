#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "cli/what_if_text.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/data_folder.h"
#include "scenarios/read/load.h"
#include "scenarios/read/what_if_files.h"
#include "scenarios/read/yaml.h"
#include "scenarios/run/build.h"
#include "scenarios/run/experiment.h"
#include "sim/error.h"
#include "sim/explain/causes.h"
#include "sim/report/timeline.h"

namespace baechi {
namespace {

struct WhatIfArguments {
  std::string scenario, format;
  std::vector<std::string> rules, sets;
};

constexpr std::string_view together = "all together";

/// What is asked, by a name in the table.
struct Question {
  std::string name;
  std::vector<TransformChoice> transforms;
};

/// "amp" or "data_parallel:replicas=16,mode=zero3".
Question read_question(const std::string& text) {
  const std::size_t colon = text.find(':');
  Options::Value with;
  if (colon != std::string::npos)
    for (const std::string& assignment : split_at_commas(text.substr(colon + 1))) {
      const std::size_t equals = assignment.find('=');
      if (equals == std::string::npos || equals == 0)
        throw InputError(fmt::format("RULES {}: '{}' is not key=value", text, assignment));
      with.children.emplace_back(
          assignment.substr(0, equals),
          parse_yaml(assignment.substr(equals + 1), fmt::format("RULES {}", text)));
    }
  const std::string file = text.substr(0, colon);
  std::string name = std::filesystem::path(file).stem().string();
  if (colon != std::string::npos) name += text.substr(colon);
  return {name, {what_if_choice(file, with)}};
}

/// The base, each file of rules alone, and all together.
std::vector<Question> questions(const Scenario& point, const std::vector<std::string>& rules) {
  Mistakes mistakes;
  std::vector<Question> alone;
  for (const std::string& text : rules)
    mistakes.attempt([&] { alone.push_back(read_question(text)); });
  mistakes.throw_if_any();
  Question all{.name = std::string(together), .transforms = {}};
  for (const Question& q : alone) all.transforms.push_back(q.transforms.front());
  if (alone.size() > 1) alone.push_back(std::move(all));
  alone.insert(alone.begin(), Question{.name = "base", .transforms = {}});
  for (Question& q : alone)
    q.transforms.insert(q.transforms.begin(), point.transforms.begin(), point.transforms.end());
  return alone;
}

/// The device whose peak is the largest share of its memory; ties: the first.
DeviceId fullest(const StepResult& result, const Cluster& cluster) {
  DeviceId most{};
  const auto share = [&](DeviceId d) {
    return static_cast<double>(result.devices[d].peak.count) /
           static_cast<double>(std::max<std::int64_t>(1, cluster.device(d).memory.count));
  };
  for (const DeviceId d : cluster.devices())
    if (share(d) > share(most)) most = d;
  return most;
}

WhatIfRow answer(const Question& question, const std::shared_ptr<const Trace>& trace,
                 const Scenario& point) {
  WhatIfRow row{.name = question.name};
  const auto costed = std::make_shared<const CostedGraph>(
      std::make_shared<const PreparedGraph>(
          prepare({trace, &trace->graph}, point.cluster, question.transforms)),
      point.cluster);
  EngineOptions unlimited = point.engine;
  unlimited.enforce_memory = false;
  try {
    const Placement placement = Experiment(costed, point.engine, point.profile)
                                    .place(*point.placers.front().placer, point.seeds.front());
    row.fits = !Experiment(costed, point.engine).step(placement).simulate().oom;
    const ExperimentStep step = Experiment(costed, unlimited).step(placement);
    Timeline timeline;
    std::vector<StepObserver*> observers{&timeline};
    const StepResult result = step.simulate(observers);
    const Problem problem = step.problem();
    row.step = result.makespan;
    row.path = path_times(Causes(problem, step.placement(), timeline), problem.graph);
    const DeviceId full = fullest(result, problem.cluster);
    row.peak = result.devices[full].peak;
    row.device = problem.cluster.device(full).name;
    row.limit = problem.cluster.device(full).memory;
  } catch (const InfeasibleError& e) {
    row.infeasible = e.what();
  }
  return row;
}

int what_if(const WhatIfArguments& arguments) {
  const ScenarioFile file = load_scenario(with_data_folder(arguments.scenario), arguments.sets);
  const Scenario point = file.point(0);
  if (file.num_points() > 1)
    fmt::print(stderr, "the first of {} points of {}\n", file.num_points(), arguments.scenario);
  if (point.engine.semantics != Semantics::event)
    throw InputError("what-if needs the engine's own semantics, event");
  const std::vector<Question> asked = questions(point, arguments.rules);
  const auto trace = std::make_shared<const Trace>(load_graph(point.graph));
  require_times(*trace, point.cluster, point.graph.text);
  std::vector<WhatIfRow> rows;
  for (const Question& question : asked) {
    const Stage stage(question.name);
    try {
      rows.push_back(answer(question, trace, point));
    } catch (const InputError& e) {
      if (question.name != together) throw;
      const std::string why = e.what();
      rows.push_back({.name = question.name, .refused = why.substr(0, why.find('\n'))});
    }
  }
  if (arguments.format == "json")
    print_json(what_if_json(rows));
  else
    print_out(arguments.format == "csv" ? what_if_csv(rows) : what_if_table(rows));
  return 0;
}

}  // namespace

void add_what_if(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<WhatIfArguments>();
  CLI::App* verb = app.add_subcommand(
      "what-if", "Predict a step after rules have rewritten it, its memory, and what it waits for");
  verb->add_option("SCENARIO", arguments->scenario,
                   "Scenario file, or an example's name; of a sweep its first point")
      ->required()
      ->type_name("");
  verb->add_option("RULES", arguments->rules,
                   "Files of rules, or entries of the catalogue, with values for what they ask")
      ->required()
      ->type_name("NAME[:k=v,...]");
  verb->add_option("--set", arguments->sets, "Set the dotted KEY of the scenario to VALUE first")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  add_format(*verb, arguments->format, {"text", "json", "csv"});
  std::string known;
  for (const std::string& name : catalogue_of_rules()) known += (known.empty() ? "" : ", ") + name;
  verb->footer(
      "The table has a row for the scenario as it is, for each of RULES alone, and for all\n"
      "together, in the order given: step time, the change, the peak memory of the fullest\n"
      "device and whether it fits, and where the time of the critical path is.\n"
      "Catalogue: " +
      known +
      "\nExamples:\n"
      "  baechi what-if training_gpt2.yaml amp fused_optimizer\n"
      "  baechi what-if scenario.yaml my_rules.yaml data_parallel:replicas=16 --format csv");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return what_if(*arguments); }; });
}

}  // namespace baechi
