#include "scenarios/learned/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "placers/learned/policy_file.h"
#include "scenarios/report/gnuplot_script.h"
#include "scenarios/run/build.h"
#include "sim/error.h"
#include "sim/file_aside.h"
#include "sim/hash.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Lets searches find the placements to imitate. Returns how many evaluations they took.
std::size_t teach(const TrainingOrder& order, std::vector<TrainingGraph>& graphs) {
  if (!order.imitate) return 0;
  const std::size_t each =
      order.teacher.value_or(order.evaluations / 2 / std::max<std::size_t>(graphs.size(), 1));
  std::size_t sum = 0;
  for (TrainingGraph& graph : graphs) sum += graph.environment->teach(each, order.seed);
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

std::string stem_of(const std::string& policy) {
  constexpr std::string_view ending = ".policy";
  return policy.ends_with(ending) ? policy.substr(0, policy.size() - ending.size()) : policy;
}

}  // namespace

std::vector<TrainingGraph> training_graphs(const Sweep& sweep, const Objective& objective) {
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

Trainer::Trainer(TrainingOrder order, std::vector<TrainingGraph> graphs)
    : order_(std::move(order)),
      stem_(stem_of(order_.out)),
      graphs_(std::move(graphs)),
      digest_(digest_of(graphs_)),
      taught_(teach(order_, graphs_)),
      training_(environments(),
                {.evaluations = order_.evaluations - std::min(taught_, order_.evaluations),
                 .seed = order_.seed,
                 .imitate = order_.imitate}) {}

bool Trainer::train(const std::atomic<bool>& stop) {
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

void Trainer::save() {
  save_stopped();
  const std::span<const double> weights = training_.weights();
  write_aside(order_.out, learned::policy_text({fs::path(order_.scenario).filename(),
                                                digest_,
                                                evaluations(),
                                                order_.seed,
                                                {weights.begin(), weights.end()}}));
  std::string csv = "evaluations,seconds,mean,best\n";
  for (const learned::CurveRow& row : curve_)
    csv +=
        fmt::format("{},{:.3f},{:.6f},{:.6f}\n", row.evaluations, row.seconds, row.mean, row.best);
  write_aside(curve_file(), csv);
}

Plot Trainer::curve_plot() const {
  std::string data = "$curve << EOD\n";
  for (const learned::CurveRow& row : curve_)
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

std::vector<TrainedGraph> Trainer::trained() const {
  std::vector<TrainedGraph> graphs;
  const learned::Network network = learned::list_network();
  for (std::size_t i = 0; i < graphs_.size(); ++i) {
    const learned::Environment& environment = *graphs_[i].environment;
    learned::Embedding embedding;
    network.embed(training_.weights(), environment.graph(), embedding);
    learned::Episode episode(environment, network);
    const auto& devices = episode.act(training_.weights(), embedding, nullptr);
    const Score score =
        environment.objective().score(environment.problem(), environment.placement(devices));
    graphs.push_back({.label = graphs_[i].label,
                      .best_heuristic = std::string(environment.reference_placer()),
                      .units = environment.num_bundles(),
                      .reference = Duration{static_cast<std::int64_t>(environment.reference())},
                      .policy = environment.value(score) / environment.reference(),
                      .best_sample = training_.samples()[i].best});
  }
  return graphs;
}

std::string Trainer::progress() const {
  const std::lock_guard lock(mutex_);
  if (curve_.empty()) return "imitating";
  const learned::CurveRow& row = curve_.back();
  return fmt::format("{} of {} evaluations: samples {:.3f} x the best heuristic, the best {:.3f}",
                     row.evaluations, order_.evaluations, row.mean, row.best);
}

void Trainer::resume() {
  if (!fs::exists(stopped_file())) return;
  learned::StoppedTraining stopped =
      learned::parse_stopped(read_file(stopped_file()), stopped_file());
  if (stopped.digest != digest_ || stopped.settings != training_.settings() ||
      stopped.samples.size() != graphs_.size())
    throw InputError(fmt::format(
        "{}: this training was of other graphs, evaluations or seed; without --resume a new one "
        "replaces it",
        stopped_file()));
  training_.resume(std::move(stopped.state), std::move(stopped.samples));
  curve_ = std::move(stopped.curve);
  if (!curve_.empty()) before_ = curve_.back().seconds;
}

std::vector<const learned::Environment*> Trainer::environments() const {
  std::vector<const learned::Environment*> all;
  for (const TrainingGraph& g : graphs_) all.push_back(g.environment.get());
  return all;
}

double Trainer::seconds() const {
  return before_ + std::chrono::duration<double>(Clock::now() - start_).count();
}

void Trainer::add_row() {
  const std::lock_guard lock(mutex_);
  curve_.push_back(training_.curve_row(seconds()));
  curve_.back().evaluations += taught_;
}

void Trainer::save_stopped() const {
  write_aside(stopped_file(),
              learned::stopped_text(
                  {digest_, training_.settings(), training_.state(), training_.samples(), curve_}));
}

double mean_ratio(const std::vector<TrainedGraph>& graphs) {
  double logs = 0.0;
  for (const TrainedGraph& graph : graphs) logs += std::log(graph.policy);
  return std::exp(logs / static_cast<double>(graphs.size()));
}

}  // namespace baechi
