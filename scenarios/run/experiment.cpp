#include "scenarios/run/experiment.h"

#include "scenarios/read/device_table.h"
#include "sim/objective/replicas.h"
#include "sim/transform/training/offload.h"
#include "traces/generate/layers/state_space_layers.h"

namespace baechi {
namespace {

/// Throws std::runtime_error unless every op has a device of the cluster.
void check_placement(const Placement& placement, const Problem& problem) {
  if (placement.device.size() != problem.graph.num_ops())
    throw std::runtime_error(fmt::format("the placer placed {} of {} ops", placement.device.size(),
                                         problem.graph.num_ops()));
  const std::size_t computing = problem.cluster.num_computing();
  for (const OpId v : problem.graph.ops()) {
    if (index(placement.device[v]) < computing) continue;
    if (index(placement.device[v]) >= problem.cluster.num_devices())
      throw std::runtime_error(fmt::format("the placer put op '{}' on device {} of {}",
                                           problem.graph.name(v), index(placement.device[v]),
                                           problem.cluster.num_devices()));
    throw InputError(
        fmt::format("op '{}' is on {}, where only weights may wait (key 'home' of a placement)",
                    problem.graph.name(v), problem.cluster.device(placement.device[v]).name));
  }
}

constexpr const char* replicas_of_placed_step =
    "transforms of the placed step do not support stages with replicas";

/// How the step of `placement` copies its waiting weights. Throws InputError if weights wait on a
/// GPU; InfeasibleError if those that wait on all devices of kind host, or disk, take more than the
/// memory of one.
WaitingWeights waiting_weights(const Placement& placement, const Problem& problem) {
  const OpGraph& graph = problem.graph;
  const Cluster& cluster = problem.cluster;
  std::vector<DeviceId> hosts;
  for (const DeviceId d : cluster.devices())
    if (cluster.device(d).is_cpu()) hosts.push_back(d);
  std::map<std::string, Bytes> held;
  WaitingWeights waiting{.home = placement.home,
                         .host = placement.home,
                         .module = std::vector<std::string>(graph.num_ops()),
                         .prefetch = placement.prefetch};
  for (const OpId v : graph.ops()) {
    const std::string_view module = graph.module(v);
    waiting.module[index(v)] = module.empty() ? graph.name(v) : module;
    if (!placement.waits(v)) continue;
    const Device& home = cluster.device(placement.home[v]);
    if (home.computes() && !home.is_cpu())
      throw InputError(fmt::format("the weights of op '{}' cannot wait on {}: on a host or disk",
                                   graph.name(v), home.name));
    if (home.kind == "disk") {
      if (hosts.empty())
        throw InputError(fmt::format("weights come from {} by way of a host's memory", home.name));
      waiting.host[v] = hosts[index(placement.device[v]) % hosts.size()];
    }
    const Bytes sum = held[home.kind] += graph.op(v).persistent - graph.cache(v);
    if (problem.engine.enforce_memory && !home.computes() && sum > home.memory)
      throw InfeasibleError(fmt::format("weights that wait take more than the {} of the {}",
                                        to_text(home.memory), home.kind));
  }
  return waiting;
}

/// The step, where all ops behind one op or group that placers see form one group.
OpGraph grouped_as_placed(const PreparedGraph& graph) {
  const OpGraph& placed = *graph.placed;
  std::vector<std::string> names;
  for (const GroupId g : placed.groups()) names.push_back(placed.group_name(g));
  IdVector<OpId, GroupId> seen(placed.num_ops());
  for (const OpId v : placed.ops()) {
    seen[v] = placed.op(v).group;
    if (seen[v] != no_group) continue;
    names.emplace_back(placed.name(v));
    seen[v] = static_cast<GroupId>(names.size());
  }
  IdVector<OpId, GroupId> group(graph.step->num_ops());
  for (const OpId v : graph.step->ops()) group[v] = seen[graph.mapped_op[v]];
  return graph.step->with_groups(group, names);
}

/// The executed step, from which transforms made the graph that placers see.
class ExpandedStep final : public ExecutedStep {
 public:
  ExpandedStep(std::shared_ptr<const CostedGraph> costed, const EngineOptions& engine)
      : costed_(std::move(costed)), engine_(engine) {}

  StepResult simulate(const Placement& seen, bool enforce_memory) const override {
    EngineOptions engine = engine_;
    engine.enforce_memory = enforce_memory;
    return ExperimentStep(costed_, engine, expand(seen, *costed_->graph)).simulate();
  }
  Problem problem() const override {
    if (costed_->graph->mapped_op.empty())
      return {*costed_->graph->step, costed_->cluster, *costed_->step_costs, engine_};
    if (!grouped_) grouped_.emplace(grouped_as_placed(*costed_->graph));
    return {*grouped_, costed_->cluster, *costed_->step_costs, engine_};
  }
  Placement seen(const Placement& placement) const override {
    Placement seen{.device = IdVector<OpId, DeviceId>(costed_->graph->placed->num_ops())};
    for (const OpId v : placement.device.ids())
      seen.device[costed_->graph->mapped_op[v]] = placement.device[v];
    return seen;
  }

 private:
  std::shared_ptr<const CostedGraph> costed_;
  EngineOptions engine_;
  mutable std::optional<OpGraph> grouped_;  // made on demand
};

/// Whether GEMMs of that dtype were measured on the device type.
bool is_measured(const DeviceModel& device, Precision format) {
  const Arithmetic& units = device.at(format);
  return units.products.efficiency > 0.0 && format != Precision::fp32 && format != Precision::tf32;
}

bool is_timed_by(const OpGraph& graph, const DeviceModel& device) {
  return graph.has_work() &&
         std::ranges::find(graph.device_kinds(), device.name) != graph.device_kinds().end();
}

bool has_mixers(const OpGraph& graph) {
  return std::ranges::any_of(graph.kinds(), [](const std::string& kind) {
    return kind.starts_with(generate::mixer_module) ||
           kind.starts_with(to_text(generate::LayerKind::state_space));
  });
}

}  // namespace

void check_replicas(const PreparedGraph& graph, const Placer& placer) {
  if (placer.replicates() && !graph.after_placing.empty())
    throw InputError(replicas_of_placed_step);
}

CostedGraph::CostedGraph(std::shared_ptr<const PreparedGraph> prepared, const ClusterChoice& on,
                         bool check)
    : graph(std::move(prepared)),
      choice(on),
      cluster(make_cluster(choice)),
      step_costs(make_costs(choice, *graph->step, cluster, check)),
      placed_costs(graph->placed == graph->step
                       ? step_costs
                       : make_costs(choice, *graph->placed, cluster, check)) {}

ExperimentStep::ExperimentStep(std::shared_ptr<const CostedGraph> costed,
                               const EngineOptions& engine, Placement placement)
    : costed_(std::move(costed)), engine_(engine), placement_(std::move(placement)) {
  std::optional<PlacedStep> step = after_placing(*costed_->graph, placement_);
  if (!placement_.home.empty()) {
    if (step)
      throw InputError("transforms of the placed step do not support weights that wait elsewhere");
    step =
        offloaded(*costed_->graph->step, placement_.device, waiting_weights(placement_, problem()));
  }
  if (!step) return;
  if (has_replicas(placement_)) throw InputError(replicas_of_placed_step);
  for (const OpId v : step->graph.ops()) {
    if (index(step->device[v]) >= costed_->cluster.num_devices())
      throw InfeasibleError(fmt::format(
          "op '{}' of the step that the transforms make would be on device {}, and the cluster has "
          "{}",
          step->graph.name(v), index(step->device[v]), costed_->cluster.num_devices()));
  }
  rewritten_ =
      std::make_unique<const OpGraph>(with_missing_times(std::move(step->graph), costed_->choice));
  placement_ = {.device = std::move(step->device)};
  rewritten_costs_ = make_costs(costed_->choice, *rewritten_, costed_->cluster);
}

Problem ExperimentStep::problem() const {
  if (rewritten_) return {*rewritten_, costed_->cluster, *rewritten_costs_, engine_};
  return {*costed_->graph->step, costed_->cluster, *costed_->step_costs, engine_};
}

std::vector<const DeviceModel*> ExperimentStep::device_models() const {
  const auto& timed_kinds = costed_->graph->step->device_kinds();
  std::vector<const DeviceModel*> models;
  for (const DeviceChoice& group : costed_->choice.devices) {
    const DeviceModel* model = group.model.get();
    if (group.kind.empty() && !timed_kinds.empty()) {
      const auto& known = built_in_devices().devices;
      const auto found = known.find(timed_kinds.front());
      if (found != known.end()) model = found->second.get();
    }
    models.insert(models.end(), group.count, model);
  }
  return models;
}

StepResult ExperimentStep::simulate(std::span<StepObserver* const> observers) const {
  return baechi::simulate(problem(), placement_, observers);
}

Experiment::Experiment(std::shared_ptr<const CostedGraph> costed, const EngineOptions& engine,
                       const ProfileChoice& profile)
    : costed_(std::move(costed)), engine_(engine), profile_(profile) {
  check_engine(graph(), costed_->cluster, engine_);
}

Problem Experiment::problem() const {
  return {*graph().step, costed_->cluster, *costed_->step_costs, engine_};
}

Placement Experiment::place(const Placer& placer, std::uint64_t seed,
                            const Watcher& watcher) const {
  check_replicas(graph(), placer);
  require_needs(graph(), costed_->cluster);
  std::optional<PerturbedCosts> perturbed;
  if (profile_.error > 0.0)
    perturbed.emplace(*costed_->placed_costs, *graph().placed, profile_.error, seed);
  EngineOptions assumed = engine_;
  assumed.transfers = profile_.transfers.value_or(assumed.transfers);
  const CostModel& known =
      perturbed ? static_cast<const CostModel&>(*perturbed) : *costed_->placed_costs;
  const Problem placed{*graph().placed, costed_->cluster, known, assumed};
  Watcher watched = watcher;
  const ExpandedStep behind(costed_, engine_);
  if (graph().placed != graph().step && !perturbed) watched.step = &behind;
  if (graph().after_placing.empty()) watched.waiting = &behind;  // asked for memory alone
  Placement found = placer.place_watched(placed, seed, watched);
  check_placement(found, placed);
  return expand(std::move(found), graph());
}

ExperimentStep Experiment::step(Placement placement) const {
  check_placement(placement, problem());
  return {costed_, engine_, std::move(placement)};
}

std::vector<Evidence> evidence_of(const OpGraph& graph, const DeviceModel& device) {
  std::vector<Evidence> evidence{
      {device.name, device.fitted.empty() ? "unfitted: the data sheet's rates" : device.fitted}};
  if (has_mixers(graph))
    evidence.push_back({"mixers of Mamba-2", std::string(generate::mixer_fitted)});
  // Framework-specific device types are fitted for all of their dtypes.
  if (device.fitted.empty() || device.processors == 0) return evidence;
  std::set<Precision> formats;
  for (const OpId v : graph.ops())
    for (const OpWork& kernel : graph.kernels(v))
      if (kernel.matrix.kind != MatrixKind::none) formats.insert(kernel.precision);
  for (const Precision format : formats)
    if (!is_measured(device, format))
      evidence.push_back({fmt::format("{} in {}", device.name, to_text(format)),
                          "unfitted: parameters of 16-bit GEMMs with this dtype's peak"});
  return evidence;
}

std::vector<Evidence> evidence_of(const PreparedGraph& graph, const ClusterChoice& cluster) {
  std::vector<Evidence> all;
  std::set<std::string> seen;
  const auto add = [&](const DeviceModel& device) {
    if (!seen.insert(device.name).second) return;
    std::ranges::move(evidence_of(*graph.step, device), std::back_inserter(all));
  };
  for (const DeviceChoice& d : cluster.devices)
    if (d.model != nullptr && is_timed_by(*graph.step, *d.model)) add(*d.model);
  if (!graph.assumed_kind.empty()) add(*built_in_devices().devices.at(graph.assumed_kind));
  for (const Evidence& e : cluster.evidence)
    if (!e.of.starts_with("collectives") || !graph.step->collectives().empty()) all.push_back(e);
  return all;
}

std::string evidence_line(const std::vector<Evidence>& evidence) {
  std::string text;
  for (const Evidence& e : evidence)
    text += fmt::format("{}{}: {}", text.empty() ? "evidence     " : "; ", e.of, e.fitted);
  return text.empty() ? "" : text + "\n";
}

}  // namespace baechi
