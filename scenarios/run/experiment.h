/// The one way to run a point: place a graph on a cluster, make the step of it, simulate the step.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "placers/interface/placer.h"
#include "scenarios/read/scenario.h"
#include "scenarios/run/prepared_graph.h"
#include "sim/engine/simulation.h"

namespace baechi {

/// A prepared graph on a cluster, with costs. Points that differ in engine or profile share one.
struct CostedGraph {
  /// Throws InputError as make_cluster() and make_costs() do. `check`: false where the same graph
  /// was on the same cluster before, and kept its limits.
  CostedGraph(std::shared_ptr<const PreparedGraph> prepared, const ClusterChoice& on,
              bool check = true);

  std::shared_ptr<const PreparedGraph> graph;
  ClusterChoice choice;
  Cluster cluster;
  std::shared_ptr<const CostModel> step_costs;    ///< of graph->step
  std::shared_ptr<const CostModel> placed_costs;  ///< of graph->placed, which placers see
};

/// A step that is ready to be simulated: the placed step, or the graph that transforms with
/// TransformUse::placed make of it.
class ExperimentStep {
 public:
  /// `placement`: of the ops of costed->graph->step, one device each.
  ExperimentStep(std::shared_ptr<const CostedGraph> costed, const EngineOptions& engine,
                 Placement placement);

  Problem problem() const;
  const Placement& placement() const { return placement_; }
  /// True if problem() is about another graph than the step that was placed.
  bool is_rewritten() const { return rewritten_ != nullptr; }
  /// [num_devices] The model of each device: that of its kind, or of the trace's first kind if it
  /// has none; null if no device table has it.
  std::vector<const DeviceModel*> device_models() const;
  StepResult simulate(std::span<StepObserver* const> observers = {}) const;

 private:
  std::shared_ptr<const CostedGraph> costed_;
  EngineOptions engine_;
  Placement placement_;
  std::unique_ptr<const OpGraph> rewritten_;  // null: the step itself
  std::unique_ptr<const CostModel> rewritten_costs_;
};

/// A costed graph under an engine, and what placers know of its costs.
class Experiment {
 public:
  /// Throws InputError as check_semantics() does.
  Experiment(std::shared_ptr<const CostedGraph> costed, const EngineOptions& engine,
             const ProfileChoice& profile = {});

  const PreparedGraph& graph() const { return *costed_->graph; }
  const ClusterChoice& cluster_choice() const { return costed_->choice; }
  /// The step before anything is placed, with its true costs. Refers to what this shares.
  Problem problem() const;

  /// What a placer is asked to place; its costs are the true ones, whatever the profile's error.
  Problem placed_problem() const;

  /// The placement of every op of the step: the placer's answer on the graph that it sees, under
  /// the costs that the profile lets it see, expanded to the step. A placer with `fallback` is told
  /// of the step, too, unless the profile has an error. `watcher` as in Placer::place_watched().
  /// Throws InfeasibleError if no device has what the transforms need, std::runtime_error if the
  /// placer leaves out ops or names devices that are not there, and whatever the placer throws.
  Placement place(const Placer& placer, std::uint64_t seed, const Watcher& watcher = {}) const;

  /// Throws std::runtime_error unless `placement` gives each op of the step a device of the
  /// cluster.
  ExperimentStep step(Placement placement) const;

 private:
  std::shared_ptr<const CostedGraph> costed_;
  EngineOptions engine_;
  ProfileChoice profile_;
};

}  // namespace baechi
