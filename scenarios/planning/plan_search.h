/// Which plan of data, tensor and pipeline parallelism trains a model fastest on a cluster.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/planning/parallel_step.h"

namespace baechi {

/// The plans to try: every combination that uses all devices of the cluster.
struct PlanSpace {
  std::vector<std::int64_t> tensor, pipeline, micro_batch;
  std::vector<bool> recompute{false, true};
  std::vector<std::string> precision{"fp16"};
  std::vector<int> zero{0, 1, 2, 3};
  /// When gradients are sent with ZeRO 0 and 1.
  std::array<Sending, 2> send{Sending::after, Sending::after};
};

/// A plan whose step was simulated.
struct SimulatedPlan {
  ParallelPlan plan;
  Duration step{};
  double bubble = 0.0;  ///< the share of the stages' time in which no lane of theirs is busy
  pipeline::StageUse fullest{};  ///< the stage that takes the most memory
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
/// `most`-th best step are left out, so that the answer is that of simulating all. `gpu` says what
/// the devices reach. `done` counts the plans that are decided. The same for any number of threads.
/// Throws InputError if the generator is unknown, cannot divide itself, or no plan uses all
/// devices.
PlanAnswer fastest_plans(const TrainingJob& job, const PlanSpace& space, const Cluster& cluster,
                         const DeviceModel& gpu, std::size_t most, std::atomic<std::size_t>& done);

/// All plans of the space for so many devices, for which `job.batch` can be divided.
std::vector<ParallelPlan> plans_of(const PlanSpace& space, std::int64_t devices,
                                   std::int64_t batch);

/// A time that no simulated step of `step` falls below. On a stage the passes of all micro-batches
/// follow each other; a pass takes its longest path, its kernels, its collectives, or its launches
/// at least. Before and behind them the stages before run a pass each, up to the tensors that they
/// send. Weights of ZeRO 3 may be there before a pass begins.
Duration least_step(const ParallelStep& step, const DeviceModel& gpu);

/// Bytes that the fullest stage takes at least: weights, gradients, optimizer state, and what the
/// forward passes keep for the backward passes of all micro-batches that are in flight. `rank` is
/// the plan's rank_graph().
Bytes least_memory(const OpGraph& rank, const TrainingJob& job, const ParallelPlan& plan);

}  // namespace baechi
