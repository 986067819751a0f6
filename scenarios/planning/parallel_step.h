/// A training step that ranks share, of which one rank of each stage is simulated: the others do
/// the same at the same time.
#pragma once

#include "scenarios/planning/framework.h"
#include "sim/pipeline/pipeline.h"

namespace baechi {

/// Activation checkpointing: what is recomputed before its backward pass.
enum class Recomputing : std::uint8_t { off, selective, full };
constexpr auto names_of(Recomputing) {
  return std::to_array<Named<Recomputing>>(
      {{Recomputing::off, "off", "nothing"},
       {Recomputing::selective, "selective",
        "what the framework's selective_recompute says: the core of every attention"},
       {Recomputing::full, "full", "every layer"}});
}

/// What is trained: a model that a generator makes, and the samples of a step.
struct TrainingJob {
  std::string generator{};  ///< one with the option `batch`, and those that plans set
  Options options{};        ///< of the generator, without these
  std::int64_t batch = 1;   ///< samples of a step, over all replicas
  std::string frozen{};     ///< format of weights that adapters leave as they are; "": 16 bits
  Framework framework{};
};

/// Whether plans can name a schedule of stages with one chunk: one forward and one backward pass of
/// each micro-batch, and a flush.
bool can_plan(const pipeline::ScheduleEntry& schedule);

/// How the ranks share the work. A rank is numbered by tensor, then context, then data, then
/// pipeline parallelism, as Megatron-LM numbers them: ranks of tensor parallelism are neighbours.
struct ParallelPlan {
  std::int64_t tensor = 1;
  std::int64_t context = 1;  ///< ranks that share the tokens of a sample
  std::int64_t expert = 1;   ///< ranks of a stage, neighbours, that share a layer's experts
  std::int64_t data = 1, pipeline = 1;
  std::int64_t chunks = 1;       ///< of each stage: interleaved if there are several
  std::int64_t micro_batch = 1;  ///< samples of a pass
  bool sequence = false;  ///< ranks of tensor parallelism share the tokens between its products
  bool overlap = false;   ///< and exchange them beside its products
  bool overlap_experts = false;  ///< tokens go to experts and back beside other micro-batches
  Recomputing recompute = Recomputing::full;
  /// With Recomputing::full, the first so many layers of each chunk are recomputed; 0: all.
  std::int64_t recompute_layers = 0;
  /// The first so many layers of each chunk keep their activations in the host's memory.
  std::int64_t offload_layers = 0;
  std::string precision = "fp16";  ///< a number format of the transform `precision`, or fp32
  /// Stage of ZeRO: replicas divide 1: the optimizer's state, 32-bit copies of the weights, and the
  /// updates; 2: gradients, too; 3: weights, too.
  int zero = 0;
  /// Replicas of a sharding group; groups reduce their gradients (hybrid sharding). 0: all
  /// replicas.
  std::int64_t group = 0;
  /// When replicas send gradients; by_mode: ZeRO 0 and 1 after the last backward pass, as
  /// Megatron-LM, 2 and 3 beside each.
  Sending send = Sending::by_mode;
  std::string schedule = "1f1b_flush";  ///< of stages with one chunk; else it is interleaved
  /// The embedding and the loss count as one layer each where layers are divided among stages.
  bool count_ends = false;

  friend auto operator<=>(const ParallelPlan&, const ParallelPlan&) = default;

  /// The options of data_parallel on nodes of so many devices.
  DataParallelOptions data_parallel(std::int64_t per_node) const;
  std::int64_t ranks_of_stage() const { return tensor * context * data; }
  std::int64_t ranks() const { return ranks_of_stage() * pipeline; }
  /// How many a replica has; 0 if the batch cannot be divided so.
  std::int64_t micro_batches(std::int64_t batch) const {
    return batch % (data * micro_batch) == 0 ? batch / (data * micro_batch) : 0;
  }
  /// The device of the first rank of a stage, on nodes of so many devices. From the stage's
  /// own nodes only the first is needed: the others are like it, and nobody on them is simulated.
  DeviceId device(std::int64_t stage, std::int64_t per_node) const;
  const pipeline::ScheduleEntry& passes() const;
  /// The same plan for the graph of one rank: without what the graph does not depend on.
  ParallelPlan of_rank() const;
  /// Why the plan is impossible, for people; "" if it is possible. Ignores layers and devices.
  std::string mistake(std::int64_t batch) const;
};

/// Devices of a node; all, where a cluster has no nodes.
std::int64_t devices_of_a_node(const Cluster& cluster);

/// Whether the first and the last stage hold a copy each of the weights that the model's embeddings
/// and logits share, as in Megatron-LM: the generator has `tie_word_embeddings: false`. Left out:
/// the two stages add up their gradients.
bool copies_embeddings(const TrainingJob& job, const ParallelPlan& plan);

/// A transform as a scenario names it.
struct NamedTransform {
  std::string name;
  Options::Value options{};  ///< a mapping, or nothing

  void set(const std::string& key, Options::Value value) {
    options.children.emplace_back(key, std::move(value));
  }
  std::unique_ptr<Transform> make() const;
};

/// The options that the plan gives the generator: key and value. Throws InputError if the job's own
/// options have one of these.
std::vector<std::pair<std::string, Options::Value>> rank_options(const TrainingJob& job,
                                                                 const ParallelPlan& plan);

/// The graph of one rank and micro-batch: one for each of_rank(), and another where
/// copies_embeddings(). `applied`, if given, takes the transforms of the generator's graph. Throws
/// InputError if the generator cannot make it.
OpGraph rank_graph(const TrainingJob& job, const ParallelPlan& plan,
                   std::vector<NamedTransform>* applied = nullptr);

/// The layer of each op: of forward ops by their names; -1: no layer precedes it, `layers`: behind
/// all layers. Backward ops are where the forward ops are that they differentiate or run again,
/// updates where what they read is made. [num_ops]
IdVector<OpId, std::int64_t> layer_of_ops(const OpGraph& graph, std::int64_t layers);

/// Layers of the model; 0 if the names of its ops have no numbers
/// (sim/transform/training/gradients.h).
std::int64_t layers_of(const OpGraph& graph);

/// The largest number of parts that a rank_graph() can be divided into: layers, what precedes them,
/// what follows them.
std::int64_t most_parts(const OpGraph& graph);

/// The part of each op of a rank_graph(): of the n = pipeline * chunks parts, part c has the layers
/// i with floor(i n / layers) = c; what no layer precedes is in the first part, the rest in the
/// last. With count_ends, and where n is above the number of layers, what precedes the layers
/// counts as a layer, and what follows them, as Megatron-LM's
/// --account-for-embedding-in-pipeline-split and
/// --account-for-loss-in-pipeline-split do. [num_ops]
IdVector<OpId, std::int64_t> parts_of_ops(const OpGraph& graph, const ParallelPlan& plan);

/// The device of each op of a rank_graph(), on nodes of so many devices: part c is on stage c mod
/// pipeline. [num_ops]
IdVector<OpId, DeviceId> devices_of_stages(const OpGraph& graph, const ParallelPlan& plan,
                                           std::int64_t per_node);

class ParallelStep {
 public:
  /// `graph` is rank_graph()'s. Throws InputError if the plan has a mistake(), the model fewer
  /// layers than stages have chunks, or `on` too few devices for the simulated ranks.
  ParallelStep(const OpGraph& graph, const TrainingJob& job, const ParallelPlan& plan,
               std::shared_ptr<const Cluster> on);

  /// One micro-batch on one rank of each stage, as the transforms host (per: pass), data_parallel
  /// and, if there are several micro-batches, accumulate make it of `graph`.
  const OpGraph& graph() const { return step_.graph; }
  const IdVector<OpId, DeviceId>& device() const { return step_.device; }  ///< [num_ops of graph()]
  const Cluster& cluster() const { return *cluster_; }
  /// Ops of graph() that stand for the host's launches, with the number of kernels they launch.
  using Launches = std::vector<std::pair<OpId, std::int64_t>>;
  const Launches& launches() const { return launches_; }
  /// [num_ops of graph()] `gpu` says what the devices reach; DeviceModel::host_op is the host's
  /// time to launch a kernel.
  IdVector<OpId, Duration> times(const DeviceModel& gpu) const;
  std::int64_t micro_batches() const { return static_cast<std::int64_t>(options_.micro_batches); }
  /// Whether a stage runs one forward and one backward pass of each micro-batch.
  bool plain() const;

  /// The plan's schedule, under times(gpu). Memory is counted only if `memory` says so; then a
  /// device that has too little ends the step. Where stages repeat themselves, few micro-batches
  /// are simulated (pipeline::simulate_few).
  pipeline::PipelineResult simulated(const DeviceModel& gpu, bool memory) const;

 private:
  PlacedStep step_;
  Launches launches_;
  std::shared_ptr<const Cluster> cluster_;
  pipeline::PipelineOptions options_;
  Framework framework_;
  bool at_once_ = false;  // one kernel updates all parameters
  mutable std::optional<pipeline::Unrolled> unrolled_{};
};

}  // namespace baechi
