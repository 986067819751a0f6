#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>

#include "cli/arguments.h"
#include "cli/gnuplot.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "placers/learned/policy_file.h"
#include "scenarios/read/data_folder.h"
#include "scenarios/read/load.h"
#include "scenarios/report/gnuplot_script.h"
#include "scenarios/run/build.h"
#include "scenarios/run/sweep.h"
#include "sim/error.h"
#include "sim/file_aside.h"
#include "sim/hash.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct TrainArguments {
  std::string scenario, out;
  std::vector<std::string> sets;
  std::size_t evaluations = 4000;
  std::optional<std::size_t> teacher;  // evaluations on each point
  std::uint64_t seed = 0;
  bool resume = false, quiet = false, no_imitation = false;
};

/// A point of the scenario to train on.
struct TrainingGraph {
  std::string label;
  Experiment experiment;
  std::unique_ptr<learned::Environment> environment{};
};

/// The points of the sweep: placers and seeds are left aside.
std::vector<TrainingGraph> training_graphs(const Sweep& sweep, const Objective& objective) {
  const Stage stage("asking the heuristics");
  std::vector<TrainingGraph> graphs;
  Mistakes mistakes;
  for (std::size_t point = 0; point < sweep.num_points(); ++point) {
    const Run run = sweep.run(sweep.runs_of(point).begin);
    const Scenario scenario = run.file.point(run.point);
    std::string label = fmt::format("{}", fmt::join(scenario.at, " "));
    if (label.empty()) label = run.file.name;
    graphs.push_back({std::move(label), sweep.experiment(run)});
    TrainingGraph& graph = graphs.back();
    try {
      graph.environment =
          std::make_unique<learned::Environment>(graph.experiment.placed_problem(), objective, 0);
    } catch (const InfeasibleError& e) {
      mistakes.add(fmt::format("{}: {}: {}", run.file.path, graph.label, e.what()));
    }
  }
  mistakes.throw_if_any();
  return graphs;
}

/// Half of the evaluations, unless the user says how many, go to searches whose placements are
/// imitated first. Returns how many they took.
std::size_t teach(const TrainArguments& arguments, std::vector<TrainingGraph>& graphs) {
  if (arguments.no_imitation) return 0;
  const Stage stage("searching for placements to imitate");
  const std::size_t each = arguments.teacher.value_or(arguments.evaluations / 2 /
                                                      std::max<std::size_t>(graphs.size(), 1));
  std::size_t sum = 0;
  for (TrainingGraph& graph : graphs) sum += graph.environment->teach(each, arguments.seed);
  return sum;
}

/// A hash of what is trained on.
std::string digest_of(const std::vector<TrainingGraph>& graphs) {
  Hash hash;
  for (const TrainingGraph& g : graphs) {
    const Problem& problem = g.environment->problem();
    hash.add(static_cast<std::int64_t>(fingerprint(problem.graph)));
    hash.add(static_cast<std::int64_t>(problem.cluster.num_devices()));
    hash.add(static_cast<std::int64_t>(problem.engine.transfers));
    hash.add(g.environment->reference());
    hash.add(g.environment->mean_load());
  }
  return fmt::format("{:016x}", hash.value());
}

/// The files of a training: all are named after the policy's.
struct TrainingFiles {
  explicit TrainingFiles(const std::string& out)
      : policy(out),
        stem(out.ends_with(".policy") ? out.substr(0, out.size() - 7) : out),
        stopped(stem + ".training"),
        curve(stem + ".curve.csv") {}
  std::string policy, stem, stopped, curve;
};

Plot curve_plot(const std::vector<learned::CurveRow>& curve) {
  std::string data = "$curve << EOD\n";
  for (const learned::CurveRow& row : curve)
    data += fmt::format("{} {:.6g} {:.6g}\n", row.evaluations, row.mean, row.best);
  data += "EOD\n";
  const std::string body = fmt::format(
      "  set grid lc rgb '#dddddd'\n  set border 3\n  set tics nomirror\n"
      "  set key top right\n  set xlabel 'evaluations'\n"
      "  set ylabel 'value over the best heuristic'\n"
      "  plot $curve using 1:2 with lines {} lw 1.8 title 'mean of the samples', \\\n"
      "    $curve using 1:3 with lines {} lw 1.8 title 'best so far', 1 with lines dt 2 lc rgb "
      "'#888888' title 'best heuristic'\n",
      placer_look(0), placer_look(1));
  return {"curve", gnuplot_script("curve", data, body, 420)};
}

/// One training, from its graphs to its files.
class Trainer {
 public:
  Trainer(const TrainArguments& arguments, std::vector<TrainingGraph> graphs)
      : arguments_(arguments),
        files_(arguments.out),
        graphs_(std::move(graphs)),
        digest_(digest_of(graphs_)),
        taught_(teach(arguments, graphs_)),
        training_(environments(),
                  {.evaluations = arguments.evaluations - std::min(taught_, arguments.evaluations),
                   .seed = arguments.seed,
                   .imitate = !arguments.no_imitation}) {
    if (arguments.resume) resume();
  }

  /// Whether it came to its end.
  bool train(const std::atomic<bool>& stop) {
    const Progress progress([this](auto) { return line(); }, arguments_.quiet);
    const std::size_t each = std::max<std::size_t>(training_.settings().evaluations / 100, 8);
    std::size_t next = training_.state().evaluations / each * each + each;
    auto saved = Clock::now();
    while (!training_.done() && !stop) {
      training_.update();
      if (training_.state().evaluations >= next || training_.done()) {
        add_row();
        next += each;
      }
      if (Clock::now() - saved < std::chrono::seconds(20)) continue;
      save_stopped();
      saved = Clock::now();
    }
    return training_.done();
  }

  void save() {
    save_stopped();
    write_aside(files_.policy,
                learned::policy_text({fs::path(arguments_.scenario).filename(), digest_,
                                      evaluations(), arguments_.seed, weights()}));
    std::string csv = "evaluations,seconds,mean,best\n";
    for (const learned::CurveRow& row : curve_)
      csv += fmt::format("{},{:.3f},{:.6f},{:.6f}\n", row.evaluations, row.seconds, row.mean,
                         row.best);
    write_aside(files_.curve, csv);
  }
  /// By gnuplot, where there is one.
  void draw() const {
    std::string gnuplot;
    try {
      gnuplot = installed_gnuplot("the picture of the curve");
    } catch (const InputError&) {
      return;
    }
    draw_plots(files_.stem + ".curve", std::vector<Plot>{curve_plot(curve_)}, gnuplot);
  }

  /// What the policy does on each of its graphs, without samples.
  std::string table() const {
    Columns columns({"graph", "units", "best heuristic", "its step", "policy", "best sample"});
    const learned::Network network = learned::list_network();
    double logs = 0.0;
    for (std::size_t i = 0; i < graphs_.size(); ++i) {
      const learned::Environment& environment = *graphs_[i].environment;
      learned::Embedding embedding;
      network.embed(training_.weights(), environment.graph(), embedding);
      learned::Episode episode(environment, network);
      const auto& devices = episode.act(training_.weights(), embedding, nullptr);
      const Score score =
          environment.objective().score(environment.problem(), environment.placement(devices));
      const double ratio = environment.value(score) / environment.reference();
      logs += std::log(ratio);
      const double best = training_.samples()[i].best;
      columns.add({graphs_[i].label, fmt::format("{}", environment.num_blocks()),
                   std::string(environment.reference_placer()),
                   to_text(Duration{static_cast<std::int64_t>(environment.reference())}),
                   fmt::format("{:.3f} x", ratio),
                   best > 0.0 ? fmt::format("{:.3f} x", best) : "-"});
    }
    return columns.text() +
           fmt::format(
               "\nthe policy, without samples: {:.3f} x the best heuristic (geometric "
               "mean of {})\n",
               std::exp(logs / static_cast<double>(graphs_.size())), graphs_.size());
  }

  const TrainingFiles& files() const { return files_; }
  std::size_t evaluations() const { return taught_ + training_.state().evaluations; }

 private:
  std::vector<const learned::Environment*> environments() const {
    std::vector<const learned::Environment*> all;
    for (const TrainingGraph& g : graphs_) all.push_back(g.environment.get());
    return all;
  }
  std::vector<double> weights() const {
    return {training_.weights().begin(), training_.weights().end()};
  }
  double seconds() const {
    return before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  }
  void add_row() {
    const std::lock_guard lock(mutex_);
    curve_.push_back(training_.curve_row(seconds()));
    curve_.back().evaluations += taught_;
  }
  std::string line() {
    const std::lock_guard lock(mutex_);
    if (curve_.empty()) return "imitating";
    const learned::CurveRow& row = curve_.back();
    return fmt::format("{} of {} evaluations: samples {:.3f} x the best heuristic, the best {:.3f}",
                       row.evaluations, arguments_.evaluations, row.mean, row.best);
  }
  void save_stopped() const {
    write_aside(files_.stopped,
                learned::stopped_text({digest_, training_.settings(), training_.state(),
                                       training_.samples(), curve_}));
  }
  void resume() {
    if (!fs::exists(files_.stopped)) return;
    learned::StoppedTraining stopped =
        learned::parse_stopped(read_file(files_.stopped), files_.stopped);
    if (stopped.digest != digest_ || stopped.settings != training_.settings() ||
        stopped.samples.size() != graphs_.size())
      throw InputError(fmt::format(
          "{}: this training was of other graphs, evaluations or seed; without --resume a new one "
          "replaces it",
          files_.stopped));
    training_.resume(std::move(stopped.state), std::move(stopped.samples));
    curve_ = std::move(stopped.curve);
    if (!curve_.empty()) before_ = curve_.back().seconds;
  }

  const TrainArguments& arguments_;
  TrainingFiles files_;
  std::vector<TrainingGraph> graphs_;
  std::string digest_;
  std::size_t taught_;  // evaluations of the searches, before those of the training
  learned::Training training_;
  std::vector<learned::CurveRow> curve_;
  double before_ = 0.0;  // seconds of the training that was stopped
  Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // of curve_, while it is shown
};

int train(const TrainArguments& arguments) {
  const Interrupt interrupt("saving what is learned so far");
  Mistakes mistakes;
  std::vector<ScenarioFile> files = load_scenarios(
      std::vector<std::string>{with_data_folder(arguments.scenario)}, arguments.sets, mistakes);
  const Sweep sweep = make_sweep(std::move(files), 1, mistakes);
  mistakes.throw_if_any();
  const auto objective = make_objective("step_time", Options("step_time"));
  Trainer trainer(arguments, training_graphs(sweep, *objective));
  const bool done = trainer.train(interrupt.wanted());
  trainer.save();
  if (!done) {
    fmt::print(stderr, "interrupted: {} of {} evaluations; --resume goes on from there\n",
               trainer.evaluations(), arguments.evaluations);
    return 130;
  }
  trainer.draw();
  if (!arguments.quiet) print_out(trainer.table());
  fmt::print(stderr, "{}  {}\n", trainer.files().policy, trainer.files().curve);
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb =
      app.add_subcommand("train", "Train a policy that places graphs, on all points of a scenario");
  verb->add_option(
          "SCENARIO", arguments->scenario,
          "A scenario file, or the name of an example; its placers and seeds do not matter")
      ->required()
      ->type_name("");
  verb->add_option("-o,--out", arguments->out,
                   "Write the policy to FILE, and beside it its learning curve (CSV, and a picture "
                   "by gnuplot where that is installed) and all that --resume needs")
      ->required()
      ->type_name("FILE");
  verb->add_option("--evaluations", arguments->evaluations,
                   "Simulated placements, over all points [4000]")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  verb->add_option(
          "--teacher", arguments->teacher,
          "So many of them on each point go to a search, whose placement is imitated first; "
          "0: the best heuristic's is [half of them, over all points]")
      ->type_name("N");
  verb->add_option("--seed", arguments->seed, "Seed of the first weights and all draws [0]")
      ->type_name("N")
      ->check(is_seed());
  verb->add_option("--set", arguments->sets, "Set the dotted KEY of the scenario to VALUE")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
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
