/// Which parallel plan trains a model fastest on a cluster.
#pragma once
#include <atomic>

#include "scenarios/planning/parallel_step.h"

namespace baechi {

/// A stage of a pipeline, in seconds.
struct StageSeconds {
  double passes = 0.0;  ///< forward and backward, of a micro-batch
  double last = 0.0;    ///< once a step: the sum of gradients with the updates
};

/// A step of 1F1B with a flush: all passes of one micro-batch, and of the others the longest
/// stage's; then what is longest of the stages' ends.
double flushed_step(std::span<const StageSeconds> stages, std::int64_t micro_batches);

/// The plans to try: every combination that uses all devices.
struct PlanSpace {
  std::vector<std::int64_t> tensor, pipeline, micro_batch;
  std::vector<std::int64_t> context{1}, expert{1}, chunks{1};
  std::vector<bool> sequence{false};
  std::vector<Recomputing> recompute{Recomputing::off, Recomputing::full};
  std::vector<std::string> precision{"fp16"}, schedule{"1f1b_flush"};
  std::vector<int> zero{0, 1, 2, 3};
  std::vector<std::int64_t> group{0};
  /// The same in all plans.
  std::int64_t recompute_layers = 0, offload_layers = 0;
  bool count_ends = false;
  bool overlap = false, overlap_experts = false;  ///< where there is something to overlap
  /// When gradients are sent with ZeRO 0 and 1.
  std::array<Sending, 2> send{Sending::after, Sending::after};
};

struct Machines {
  /// The first of the devices, as many as simulated ranks may need; their memory is what plans may
  /// take.
  Cluster cluster;
  std::int64_t devices = 0;
  std::shared_ptr<const DeviceModel> gpu{};  ///< says what the devices reach
  Bytes reserve{};                           ///< of each device, besides the memory in `cluster`

  Bytes memory() const { return cluster.device(DeviceId{}).memory + reserve; }
};

struct SimulatedPlan {
  ParallelPlan plan;
  Duration step{};
  double bubble = 0.0;  ///< the share of the stages' time in which no lane of theirs is busy
  std::vector<pipeline::StageUse> stages{};

  /// The stage that takes the most memory; ties: the first.
  const pipeline::StageUse& fullest() const;
};

struct PlanAnswer {
  std::vector<SimulatedPlan> fastest;  ///< by step time, then in the order of the space
  std::size_t considered = 0;
  std::size_t too_large = 0;  ///< not simulated: least_memory() does not fit
  std::size_t simulated = 0;
  std::size_t out_of_memory = 0;  ///< of the simulated ones
  std::size_t slower = 0;         ///< not simulated: by a lower bound slower than all of `fastest`
};

/// The engine simulates each plan's step, with memory; plans with a lower bound above the
/// `most`-th best step are left out, so that the answer is that of simulating all. `done` counts
/// the plans that are decided. The same for any number of threads. Throws InputError if the
/// generator is unknown, cannot divide itself, or no plan uses all devices.
PlanAnswer fastest_plans(const TrainingJob& job, const PlanSpace& space, const Machines& machines,
                         std::size_t most, std::atomic<std::size_t>& done);

/// The plans of the space that take the least memory, at most three, simulated with as much as they
/// need: the least first, by the fullest stage. Throws InputError as fastest_plans() does.
std::vector<SimulatedPlan> smallest_plans(const TrainingJob& job, const PlanSpace& space,
                                          const Machines& machines);

/// The step of one plan, however much memory it takes. Throws InputError if there is no such step.
SimulatedPlan simulated_plan(const TrainingJob& job, const ParallelPlan& plan,
                             const Machines& machines);

/// All plans of the space for so many devices, each once, without those that have a mistake().
std::vector<ParallelPlan> plans_of(const PlanSpace& space, std::int64_t devices,
                                   std::int64_t batch);

/// Why plans_of() is empty: what is wrong with the first combination.
std::string why_no_plan(const PlanSpace& space, std::int64_t devices, std::int64_t batch);

/// A time that no simulated step of `step` falls below. On a stage the passes of all micro-batches
/// follow each other; with a plain() schedule a pass takes its longest path, its kernels, its
/// collectives, or its launches at least. Before and behind them the stages before run a pass each,
/// up to the tensors that they send. Weights of ZeRO 3 may be there before a pass begins.
Duration least_step(const ParallelStep& step, const DeviceModel& gpu);

/// A time that least_step() does not fall below, before the step is built of `rank`, the plan's
/// rank_graph(), whose ops take `times`. Updates, launches, sums of gradients, and what replicas
/// send take no time here.
Duration early_least_step(const OpGraph& rank, IdVector<OpId, Duration> times,
                          const TrainingJob& job, const ParallelPlan& plan, const Cluster& cluster);

/// Bytes that the fullest stage takes at least: weights, gradients, optimizer state, and what the
/// forward passes keep for the backward passes of all micro-batches that are in flight. `rank` is
/// the plan's rank_graph().
Bytes least_memory(const OpGraph& rank, const TrainingJob& job, const ParallelPlan& plan);

}  // namespace baechi
