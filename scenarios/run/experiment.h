/// Runs a point: places a graph on a cluster, builds the step and simulates it.
#pragma once

#include "scenarios/run/build.h"

namespace baechi {

/// A prepared graph on a cluster, with costs. Points that differ only in engine or profile share
/// one.
struct CostedGraph {
  /// Throws InputError as make_cluster() and make_costs() do. `check`: false if the same graph on
  /// the same cluster was checked before.
  CostedGraph(std::shared_ptr<const PreparedGraph> prepared, const ClusterChoice& on,
              bool check = true);

  std::shared_ptr<const PreparedGraph> graph;
  ClusterChoice choice;
  Cluster cluster;
  std::shared_ptr<const CostModel> step_costs;    ///< of graph->step
  std::shared_ptr<const CostModel> placed_costs;  ///< of graph->placed, which placers see
};

/// Throws InputError if a transform of `graph` changes the placed step, and `placer` may replicate
/// stages.
void check_replicas(const PreparedGraph& graph, const Placer& placer);

/// A step that is ready to be simulated: the placed step, or the graph that transforms with
/// TransformUse::placed make from it.
class ExperimentStep {
 public:
  /// `placement`: of the ops of costed->graph->step, one device each.
  ExperimentStep(std::shared_ptr<const CostedGraph> costed, const EngineOptions& engine,
                 Placement placement);

  Problem problem() const;
  const Placement& placement() const { return placement_; }
  /// Whether problem() has another graph than the placed step.
  bool is_rewritten() const { return rewritten_ != nullptr; }
  /// [num_devices] The model of each device: that of its type, or of the trace's first type if it
  /// has none; null if no device table has it.
  std::vector<const DeviceModel*> device_models() const;
  StepResult simulate(std::span<StepObserver* const> observers = {}) const;

 private:
  std::shared_ptr<const CostedGraph> costed_;
  EngineOptions engine_;
  Placement placement_;
  std::unique_ptr<const OpGraph> rewritten_;  // null: the placed step itself
  std::unique_ptr<const CostModel> rewritten_costs_;
};

/// A costed graph under an engine, and the costs as placers see them.
class Experiment {
 public:
  /// Throws InputError as check_engine() does.
  Experiment(std::shared_ptr<const CostedGraph> costed, const EngineOptions& engine,
             const ProfileChoice& profile = {});

  const PreparedGraph& graph() const { return *costed_->graph; }
  const ClusterChoice& cluster_choice() const { return costed_->choice; }
  /// The step before placing, with its true costs. Refers to members of this.
  Problem problem() const;

  /// The placement of every op of the step: the placer's placement of the graph that it sees, under
  /// the costs that the profile allows it to see, expanded to the step. A placer with `fallback`
  /// also gets the step, unless the profile has an error. `watcher` as in Placer::place_watched().
  /// Throws InfeasibleError if no device satisfies the transforms, std::runtime_error if the placer
  /// omits ops or names unknown devices, and whatever the placer throws.
  Placement place(const Placer& placer, std::uint64_t seed, const Watcher& watcher = {}) const;

  /// Throws std::runtime_error unless `placement` gives each op of the step a device of the
  /// cluster.
  ExperimentStep step(Placement placement) const;

 private:
  std::shared_ptr<const CostedGraph> costed_;
  EngineOptions engine_;
  ProfileChoice profile_;
};

/// The evidence of a step with modelled times; empty if all times are from the trace. A dtype
/// without measured kernels on a device type is listed separately.
std::vector<Evidence> evidence_of(const PreparedGraph& graph, const ClusterChoice& cluster);

std::vector<Evidence> evidence_of(const OpGraph& graph, const DeviceModel& device);

/// "evidence     h100: ...; link nvlink4: unfitted"; "" without any.
std::string evidence_line(const std::vector<Evidence>& evidence);

}  // namespace baechi
