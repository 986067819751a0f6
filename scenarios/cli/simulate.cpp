#include <nlohmann/json.hpp>
#include <optional>

#include "placers/placement_file.h"
#include "scenarios/cli/arguments.h"
#include "scenarios/cli/cluster_flags.h"
#include "scenarios/cli/output.h"
#include "scenarios/cli/step_text.h"
#include "scenarios/cli/verbs.h"
#include "scenarios/run/problem.h"
#include "sim/report/timeline.h"

namespace baechi {
namespace {

struct Arguments {
  TraceArgument trace;
  ClusterFlags cluster;
  std::string placement, timeline, format;
};

int simulate_once(const Arguments& arguments) {
  const Platform platform = read_platform(arguments.cluster);
  const Cluster cluster = make_cluster(platform.cluster);
  const Trace trace = read_trace(arguments.trace);
  const std::shared_ptr<const OpGraph> graph = timed(trace, platform.cluster);
  const std::unique_ptr<CostModel> costs = make_costs(platform.cluster, *graph, cluster);
  const Placement placement = read_placement(arguments.placement, *graph, cluster.num_devices());
  const Problem problem{*graph, cluster, *costs, platform.engine};

  Timeline timeline;
  std::vector<StepObserver*> observers;
  if (!arguments.timeline.empty()) observers.push_back(&timeline);
  const StepResult step = simulate(problem, placement, observers);
  if (!arguments.timeline.empty()) write_perfetto(arguments.timeline, problem, timeline, step);

  const LowerBounds bounds = lower_bounds(*graph, cluster, *costs);
  if (arguments.format == "json")
    print_json(step_json(step, bounds, problem));
  else
    print_out(step_table(step, bounds, problem, placement));
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
      "      --bandwidth '12 GB/s' --transfers duplex --timeline step.json.gz");
  verb->callback(
      [&chosen, arguments] { chosen = [arguments] { return simulate_once(*arguments); }; });
}

}  // namespace baechi
