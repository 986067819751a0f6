#include <nlohmann/json.hpp>
#include <optional>

#include "placers/placement_file.h"
#include "scenarios/cli/arguments.h"
#include "scenarios/cli/cluster_flags.h"
#include "scenarios/cli/output.h"
#include "scenarios/cli/step_text.h"
#include "scenarios/cli/verbs.h"
#include "scenarios/run/problem.h"
#include "sim/objective/objective.h"
#include "sim/report/timeline.h"

namespace baechi {
namespace {

struct Arguments {
  TraceArgument trace;
  ClusterFlags cluster;
  std::string placement, objective, timeline, format;
};

/// "max_load   17.790 ms", and what is wrong with the placement.
std::string score_line(const std::string& objective, const Score& score) {
  std::string line = fmt::format("{:<12} {}", objective,
                                 score.deadlock ? std::string("-") : bold(to_text(score.value)));
  if (score.over > Bytes{})
    line += red(fmt::format(", {} over the memory limits", to_text(score.over)));
  if (score.misplaced > 0)
    line += red(fmt::format(", {} ops on devices that cannot run them", score.misplaced));
  if (score.split_groups > 0)
    line += red(fmt::format(", {} colocation groups split", score.split_groups));
  if (score.deadlock) line += red(", devices wait for each other");
  return line + "\n";
}

nlohmann::ordered_json score_json(const std::string& objective, const Score& score) {
  using Json = nlohmann::ordered_json;
  return {{objective + "_us", score.deadlock ? Json() : Json(to_us(score.value))},
          {"feasible", score.feasible()},
          {"over_bytes", score.over.count},
          {"misplaced_ops", score.misplaced},
          {"split_groups", score.split_groups},
          {"deadlock", score.deadlock}};
}

int simulate_once(const Arguments& arguments) {
  Choice choice;
  std::unique_ptr<Objective> objective;
  if (!arguments.objective.empty()) {
    choice = parse_choice(arguments.objective, "--objective");
    objective = make_objective(choice.name, std::move(choice.options), choice.where);
  }
  const auto workload = read_workload(arguments.trace, arguments.cluster);
  const Problem problem = workload->problem();
  const Placement placement =
      read_placement(arguments.placement, problem.graph, problem.cluster.num_devices());

  Timeline timeline;
  std::vector<StepObserver*> observers;
  if (!arguments.timeline.empty()) observers.push_back(&timeline);
  const StepResult step = simulate(problem, placement, observers);
  if (!arguments.timeline.empty()) write_perfetto(arguments.timeline, problem, timeline, step);

  const LowerBounds bounds = lower_bounds(problem.graph, problem.cluster, problem.costs);
  std::optional<Score> score;
  if (objective) score = objective->score(problem, placement);
  if (arguments.format == "json") {
    nlohmann::ordered_json json = step_json(step, bounds, problem);
    if (score) json.update(score_json(choice.name, *score));
    print_json(json);
  } else {
    print_out(step_table(step, bounds, problem, placement) +
              (score ? "\n" + score_line(choice.name, *score) : ""));
  }
  return 0;
}

}  // namespace

void add_simulate(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand("simulate", "How long a step of a placed graph takes");
  add_trace_argument(*verb, arguments->trace);
  verb->add_option("--placement", arguments->placement, "Which device runs each op")
      ->required()
      ->type_name("FILE");
  verb->add_option("--objective", arguments->objective,
                   "Also what the placement is worth by this measure ('baechi list objectives')")
      ->type_name("NAME[:k=v,...]");
  verb->add_option("--timeline", arguments->timeline,
                   "Write what ran when, for ui.perfetto.dev: .json or .json.gz")
      ->type_name("FILE");
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->footer(
      "Running out of memory is an answer (exit code 0): the one that asked, and what was live.\n"
      "Examples:\n"
      "  baechi simulate graph.json --placement placement.json --devices 4 --memory '8 GiB'\n"
      "  baechi simulate graph.json --placement placement.json --devices 4 --memory '8 GiB' \\\n"
      "      --bandwidth '12 GB/s' --transfers duplex --timeline step.json.gz\n"
      "  baechi simulate bert24_training.json --placement placement.json \\\n"
      "      --objective max_load:phases=apart    on the cluster that TRACE names");
  verb->callback(
      [&chosen, arguments] { chosen = [arguments] { return simulate_once(*arguments); }; });
}

}  // namespace baechi
