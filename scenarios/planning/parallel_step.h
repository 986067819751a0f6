/// A training step under data, tensor and pipeline parallelism, of which one rank of each stage is
/// simulated: the others do the same at the same time.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/device_model.h"
#include "sim/options.h"
#include "sim/pipeline/pipeline.h"
#include "sim/transform/training/data_parallel.h"

namespace baechi {

/// What is trained: a model that a generator makes, and the samples of a step.
struct TrainingJob {
  std::string generator;   ///< one with the option `batch`, and `tensor` for plans that need it
  Options options;         ///< of the generator, without these two
  std::int64_t batch = 1;  ///< samples of a step, over all replicas
};

/// How the ranks share the work. A rank is numbered by tensor, then data, then pipeline
/// parallelism, as Megatron-LM numbers them: ranks of tensor parallelism are neighbours.
struct ParallelPlan {
  std::int64_t tensor = 1, data = 1, pipeline = 1;
  std::int64_t micro_batch = 1;    ///< samples of a pass
  bool recompute = true;           ///< every layer once more before its backward pass
  std::string precision = "fp16";  ///< a number format of the transform `precision`, or fp32
  /// Stage of ZeRO: replicas divide 1: the optimizer's state, 32-bit copies of the weights, and the
  /// updates; 2: gradients, too; 3: weights, too.
  int zero = 0;
  /// When replicas send gradients; by_mode: ZeRO 0 and 1 after the last backward pass, as
  /// Megatron-LM, 2 and 3 beside each.
  Sending send = Sending::by_mode;

  /// What data_parallel is told, on nodes of so many devices.
  DataParallelOptions data_parallel(std::int64_t per_node) const;
  std::int64_t ranks() const { return tensor * data * pipeline; }
  /// How many a replica has; 0 if the batch cannot be divided so.
  std::int64_t micro_batches(std::int64_t batch) const {
    return batch % (data * micro_batch) == 0 ? batch / (data * micro_batch) : 0;
  }
  /// The first rank of a stage.
  DeviceId device(std::int64_t stage) const { return static_cast<DeviceId>(stage * tensor * data); }
};

/// What one rank of tensor parallelism computes with a micro-batch: a graph per micro-batch size,
/// ranks of tensor parallelism, number format, and whether layers are computed again. Throws
/// InputError if the generator cannot make it.
OpGraph rank_graph(const TrainingJob& job, const ParallelPlan& plan);

/// The layer of each op: of forward ops by their names; -1: no layer precedes it, `layers`: behind
/// all layers. Backward ops are where the forward ops are that they differentiate or run again,
/// updates where what they read is made. [num_ops]
IdVector<OpId, std::int64_t> layer_of_ops(const OpGraph& graph, std::int64_t layers);

/// Layers of the model; 0 if the names of its ops have no numbers
/// (sim/transform/training/segments.h).
std::int64_t layers_of(const OpGraph& graph);

/// The device of each op of a rank_graph(). Stage s has the layers i with floor(i pipeline /
/// layers) = s; what no layer precedes is in the first stage, the rest in the last. [num_ops]
IdVector<OpId, DeviceId> devices_of_stages(const OpGraph& graph, const ParallelPlan& plan);

class ParallelStep {
 public:
  /// `graph` is rank_graph()'s. Throws InputError if the model has fewer layers than stages, or the
  /// cluster fewer devices than ranks.
  ParallelStep(const OpGraph& graph, const TrainingJob& job, const ParallelPlan& plan,
               Cluster cluster);
  ~ParallelStep();
  ParallelStep(ParallelStep&&) noexcept;

  /// One micro-batch on one rank of each stage, as the transforms host (per: pass), data_parallel
  /// and, if there are several micro-batches, accumulate make it of `graph`.
  const OpGraph& graph() const;
  const IdVector<OpId, DeviceId>& device() const;  ///< [num_ops of graph()]
  const Cluster& cluster() const;
  /// Ops of graph() that stand for the host's launches, with the number of kernels they launch.
  using Launches = std::vector<std::pair<OpId, std::int64_t>>;
  const Launches& launches() const;
  /// [num_ops of graph()] `gpu` says what the devices reach; DeviceModel::host_op is the host's
  /// time to launch a kernel.
  IdVector<OpId, Duration> times(const DeviceModel& gpu) const;
  std::int64_t micro_batches() const;

  /// 1F1B with a flush, under times(gpu). Memory is counted only if `memory` says so; then a device
  /// that has too little ends the step.
  pipeline::PipelineResult simulated(const DeviceModel& gpu, bool memory) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace baechi
