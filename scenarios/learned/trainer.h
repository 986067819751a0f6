/// Trains a policy that places graphs, on all points of a scenario's sweep, and keeps its files.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "placers/learned/training.h"
#include "scenarios/report/plots.h"
#include "scenarios/run/sweep.h"

namespace baechi {

struct TrainingOrder {
  std::string scenario;  ///< as the policy's file names it
  std::string out;       ///< the policy's file; the others are named after it
  std::size_t evaluations = 4000;
  /// Those evaluations on each point that a search takes; its placement is imitated first. Default:
  /// half of them, over all points.
  std::optional<std::size_t> teacher{};
  std::uint64_t seed = 0;
  bool imitate = true;  ///< begin with what a search or the best heuristic found
};

/// A point of the scenario to train on.
struct TrainingGraph {
  std::string label;
  Experiment experiment;
  std::unique_ptr<learned::Environment> environment{};
};
/// The points of the sweep: placers and seeds are left aside. `objective` outlives the graphs.
/// Throws InputError that names every point for which no heuristic finds a placement.
std::vector<TrainingGraph> training_graphs(const Sweep& sweep, const Objective& objective);

/// What a policy does on one of its graphs, without samples.
struct TrainedGraph {
  std::string label, best_heuristic;
  std::size_t units = 0;
  Duration reference{};      ///< the best heuristic's step
  double policy = 0.0;       ///< its step over the reference
  double best_sample = 0.0;  ///< while it was trained, over the reference; 0: none
};

/// One training, from its graphs to its files.
class Trainer {
 public:
  /// Begins with the searches that are imitated.
  Trainer(TrainingOrder order, std::vector<TrainingGraph> graphs);

  /// Goes on from where a training of the same order was stopped, if there was one. Throws
  /// InputError if the file is of another training.
  void resume();
  /// Trains until the end or until `stop`; returns whether it came to its end. Saves every 20 s.
  bool train(const std::atomic<bool>& stop);
  /// Writes the policy, the learning curve, and what resume() needs.
  void save();

  /// A line for people; another thread may ask.
  std::string progress() const;
  std::vector<TrainedGraph> trained() const;
  Plot curve_plot() const;
  const std::string& policy_file() const { return order_.out; }
  std::string curve_file() const { return stem_ + ".curve.csv"; }
  std::string plot_folder() const { return stem_ + ".curve"; }
  std::size_t evaluations() const { return taught_ + training_.state().evaluations; }

 private:
  std::string stopped_file() const { return stem_ + ".training"; }
  std::vector<const learned::Environment*> environments() const;
  double seconds() const;
  void add_row();
  void save_stopped() const;

  TrainingOrder order_;
  std::string stem_;  // of the files' names
  std::vector<TrainingGraph> graphs_;
  std::string digest_;  // of what is trained on
  std::size_t taught_;  // evaluations of the searches, before those of the training
  learned::Training training_;
  std::vector<learned::CurveRow> curve_;
  double before_ = 0.0;  // seconds of the training that was stopped
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;  // of curve_, while it is shown
};

/// The geometric mean of TrainedGraph::policy.
double mean_ratio(const std::vector<TrainedGraph>& graphs);

}  // namespace baechi
