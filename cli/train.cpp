#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "scenarios/learned/trainer.h"
#include "scenarios/read/data_folder.h"
#include "scenarios/read/load.h"
#include "scenarios/report/gnuplot.h"
#include "sim/error.h"

namespace baechi {
namespace {

struct TrainArguments {
  TrainingOrder order;
  std::vector<std::string> sets;
  bool resume = false, quiet = false, no_imitation = false;
};

/// Draws the learning curve if gnuplot is installed.
void draw_curve(const Trainer& trainer) {
  std::string gnuplot;
  try {
    gnuplot = installed_gnuplot("the picture of the curve");
  } catch (const InputError&) {
    return;
  }
  draw_plots(trainer.plot_folder(), std::vector<Plot>{trainer.curve_plot()}, gnuplot,
             stages("drawing plots"));
}

std::string table_of(const std::vector<TrainedGraph>& graphs) {
  Columns columns({"graph", "units", "best heuristic", "its step", "policy", "best sample"});
  for (const TrainedGraph& g : graphs)
    columns.add({g.label, fmt::format("{}", g.units), g.best_heuristic, to_text(g.reference),
                 fmt::format("{:.3f} x", g.policy),
                 g.best_sample > 0.0 ? fmt::format("{:.3f} x", g.best_sample) : "-"});
  return columns.text() +
         fmt::format(
             "\nthe policy, without samples: {:.3f} x the best heuristic (geometric mean of {})\n",
             mean_ratio(graphs), graphs.size());
}

int train(TrainArguments arguments) {
  const Interrupt interrupt("saving what is learned so far");
  arguments.order.imitate = !arguments.no_imitation;
  Mistakes mistakes;
  const std::vector<std::string> paths{with_data_folder(arguments.order.scenario)};
  std::vector<ScenarioFile> files = load_scenarios(paths, arguments.sets, mistakes);
  const Sweep sweep = make_sweep(std::move(files), 1, mistakes);
  mistakes.throw_if_any();
  const auto objective = make_objective("step_time", Options("step_time"));
  std::optional<Stage> stage("asking the heuristics");
  std::vector<TrainingGraph> graphs = training_graphs(sweep, *objective);
  stage.emplace("searching for placements to imitate");
  Trainer trainer(arguments.order, std::move(graphs));
  stage.reset();
  if (arguments.resume) trainer.resume();
  bool done = false;
  {
    const Progress progress([&trainer](auto) { return trainer.progress(); }, arguments.quiet);
    done = trainer.train(interrupt.wanted());
  }
  trainer.save();
  if (!done) {
    fmt::print(stderr, "interrupted: {} of {} evaluations; --resume goes on from there\n",
               trainer.evaluations(), arguments.order.evaluations);
    return 130;
  }
  draw_curve(trainer);
  if (!arguments.quiet) print_out(table_of(trainer.trained()));
  fmt::print(stderr, "{}  {}\n", trainer.policy_file(), trainer.curve_file());
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb =
      app.add_subcommand("train", "Train a policy that places graphs, on all points of a scenario");
  add_argument(*verb, "SCENARIO", arguments->order.scenario,
               "A scenario file, or the name of an example; its placers and seeds do not matter");
  verb->add_option("-o,--out", arguments->order.out,
                   "Write the policy to FILE, and beside it its learning curve (CSV, and a picture "
                   "by gnuplot where that is installed) and all that --resume needs")
      ->required()
      ->type_name("FILE");
  add_number(*verb, "--evaluations", arguments->order.evaluations, 1, 1'000'000'000,
             "Simulated placements, over all points [4000]");
  verb->add_option(
          "--teacher", arguments->order.teacher,
          "So many of them on each point go to a search, whose placement is imitated first; "
          "0: the best heuristic's is [half of them, over all points]")
      ->type_name("N");
  verb->add_option("--seed", arguments->order.seed, "Seed of the first weights and all draws [0]")
      ->type_name("N")
      ->check(is_seed());
  add_repeated(*verb, "--set", arguments->sets, "KEY=VALUE",
               "Set the dotted KEY of the scenario to VALUE");
  verb->add_flag("--no-imitation", arguments->no_imitation,
                 "Do not begin with what a search or the best heuristic of each point found");
  verb->add_flag("--resume", arguments->resume,
                 "Go on from where a training of the same command was stopped");
  verb->add_flag("--quiet", arguments->quiet, "Print neither progress nor table");
  verb->footer(
      "The same command gives the same policy, whatever the threads. Ctrl-C saves; so does every\n"
      "20th second. 'learned:policy=FILE' places with it.\n"
      "Examples:\n"
      "  baechi train first --evaluations 2000 -o first.policy\n"
      "  baechi place graph.json --placer learned:policy=first.policy,samples=100 --devices 4 \\\n"
      "      --memory '8 GiB'");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return train(*arguments); }; });
}

}  // namespace baechi
