/// Trains a policy on one or more environments: first it imitates the teacher of each, then it
/// draws placements and makes those better than the mean of their batch likelier (REINFORCE).
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "placers/learned/adam.h"
#include "placers/learned/episode.h"
#include "placers/learned/found.h"

namespace baechi::learned {

/// How a policy is trained. The result follows from this and the environments.
struct TrainingSettings {
  std::size_t evaluations = 4000;  ///< of the objective, over all environments
  std::uint64_t seed = 0;
  bool imitate = true;  ///< begin with list_rule() and the teacher's choices; else with chance
  friend bool operator==(const TrainingSettings&, const TrainingSettings&) = default;
};

/// All that training goes on from.
struct TrainingState {
  Adam adam;
  std::size_t updates = 0;      ///< of both kinds
  std::size_t evaluations = 0;  ///< so far
};

/// A generator of its own for each episode, so that episodes may run in any order.
Random random_of(std::uint64_t seed, std::size_t update, std::size_t episode);
/// How far each value is below the mean, in deviations; zeros where they hardly differ.
std::vector<double> advantages_of(std::span<const double> values);

/// What the samples of an environment were worth, over its reference.
struct Samples {
  std::size_t count = 0;
  double sum = 0.0;         ///< of value / reference since the last row of the curve
  double best = 0.0;        ///< value / reference of the best so far; 0: none
  BundleDevices devices{};  ///< of the best
  Score score{};
  std::vector<Improvement> improvements{};
};

/// A part of the learning curve: the mean over the environments.
struct CurveRow {
  std::size_t evaluations = 0;
  double seconds = 0.0;
  double mean = 0.0;  ///< value / reference of the samples since the row before
  double best = 0.0;  ///< value / reference of the best so far: geometric mean
};

class Training {
 public:
  static constexpr std::size_t batch = 8;         ///< episodes of an update on one graph
  static constexpr std::size_t imitations = 150;  ///< updates, and 60 more for each environment
  static constexpr double first_entropy = 0.01;   ///< of the bonus, which falls to 0

  /// The environments outlive this; at least one. `begin`: weights to go on from, instead of new
  /// ones; they are not imitated from again.
  Training(std::vector<const Environment*> environments, const TrainingSettings& settings,
           std::optional<std::vector<double>> begin = {});
  ~Training();

  bool done() const { return state_.evaluations >= settings_.evaluations; }
  /// One update: of imitation, or of `batch` samples on one environment; environments in turn.
  /// The same for any number of threads.
  void update();

  const TrainingSettings& settings() const { return settings_; }
  const TrainingState& state() const { return state_; }
  /// Goes on from there. `samples`: one for each environment.
  void resume(TrainingState state, std::vector<Samples> samples) {
    state_ = std::move(state);
    samples_ = std::move(samples);
  }
  std::span<const double> weights() const { return state_.adam.weights; }
  const std::vector<Samples>& samples() const { return samples_; }
  /// The row since the last call.
  CurveRow curve_row(double seconds);

 private:
  struct Worker;
  void imitate(const Environment& environment);
  void reinforce(const Environment& environment, std::size_t which);
  void take(std::size_t which, const BundleDevices& devices, const Score& score, double value);
  std::size_t imitation_updates() const;

  /// What one graph learns fast by is too hasty for a family: set on graphs 13 to 16 of each family
  /// of scenarios/learned/tune.yaml, after training on 1 to 12.
  struct Pace {
    std::size_t batch;
    double rate, entropy;  // at first; the rate falls to a tenth
  };

  std::vector<const Environment*> environments_;
  Pace pace_;
  TrainingSettings settings_;
  bool begun_elsewhere_;
  Network network_;
  TrainingState state_;
  std::vector<Samples> samples_;
  std::vector<std::unique_ptr<Worker>> workers_;  // [batch], of the environment of the last update
  std::size_t workers_of_ = 0;
  Embedding embedding_;
  std::vector<double> gradient_, keys_;
};

}  // namespace baechi::learned
