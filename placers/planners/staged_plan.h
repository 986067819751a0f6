/// Plans that combine data, tensor and pipeline parallelism: the input and the result of a planner,
/// and the cost of a stage. Times are in seconds, sizes in bytes, both fractional.
/// Source: Tarnawski, Narayanan, Phanishayee, "Piper", NeurIPS 2021.
#pragma once

#include "placers/exact/bundles.h"

namespace baechi::planners {

using exact::BundleId, exact::BundleOrder;

/// A mode of a node on a number of devices that share its tensors.
struct PlannerMode {
  std::string id;           ///< "vanilla", "activation recomp"
  double time = 0.0;        ///< per micro-batch, forward and backward
  double weights = 0.0;     ///< of one of the devices
  double per_batch = 0.0;   ///< memory of one device for each micro-batch in flight
  double stays = 0.0;       ///< memory of one device, independent of micro-batches
  std::vector<double> in;   ///< [PlannerInput::in of the node] additional bytes of a cut edge
  std::vector<double> out;  ///< [PlannerInput::out of the node]

  double memory(std::int64_t in_flight) const {
    return per_batch * static_cast<double>(in_flight) + stays;
  }
  bool recomputes() const { return id == "activation recomp"; }
};

struct PlannerNode {
  std::int64_t id = 0;  ///< id in the file
  std::string name;
  std::string op;  ///< unique: the name of its op in the imported graph
  std::vector<std::vector<PlannerMode>> modes;  ///< [PlannerInput::degrees]; empty: no such split
};

struct PlannerEdge {
  BundleId from{}, to{};
  double bytes = 0.0;
};

/// Nodes are bundles, in the order of the file.
struct PlannerInput {
  std::int64_t devices = 1;        ///< all identical
  double memory = 0.0;             ///< of each device
  double bandwidth = 0.0;          ///< of each device to all others together, bytes/s
  std::int64_t micro_batches = 1;  ///< in a batch
  static constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_replicas = any;   ///< of a stage
  std::vector<std::int64_t> degrees;  ///< of tensor parallelism, ascending
  IdVector<BundleId, PlannerNode> nodes;
  std::vector<PlannerEdge> edges;
  IdVector<BundleId, std::vector<std::uint32_t>> in, out;  ///< edges of each node
  BundleOrder order;

  /// Copies without the degrees above 1, or without the modes that recompute.
  PlannerInput without_tensor_parallelism() const;
  PlannerInput without_recomputation() const;
};

/// A stage, `data_parallel` replicas of `tensor_parallel` devices each.
struct PlannedStage {
  std::vector<BundleId> nodes;     ///< ascending
  std::vector<std::size_t> modes;  ///< of each node
  std::int64_t tensor_parallel = 1;
  std::int64_t data_parallel = 1;
  std::int64_t in_flight = 1;  ///< micro-batches that a device of the stage keeps at most
  double time = 0.0;           ///< per micro-batch
  double memory = 0.0;         ///< of each device

  std::int64_t devices() const { return tensor_parallel * data_parallel; }
};

struct StagedPlan {
  std::vector<PlannedStage> stages;  ///< in the order of the pipeline
  double time_per_sample = 0.0;      ///< of the slowest stage
  std::int64_t devices() const;
};

/// The index of the first device of each stage: stages take devices in order.
std::vector<std::int64_t> first_devices(const StagedPlan& plan);
/// "2 stages on 3 devices: 20 x (2 x 1) 17 x (1 x 1); nodes x (replicas x tensor parallel)".
std::string staged_plan_text(const StagedPlan& plan);

/// How the modes of a stage that does not fit in its fastest modes are chosen.
enum class ModeChoice : std::uint8_t {
  greedy,  ///< the authors' heuristic: switches by time lost per byte saved, until the stage fits
  exact,   ///< the least time that fits
};
constexpr auto names_of(ModeChoice) { return enumerators<ModeChoice::exact>(); }

/// The stage with modes, time and memory; nothing if it does not fit or a node lacks the degree.
std::optional<PlannedStage> priced(const PlannerInput& input, std::vector<BundleId> nodes,
                                   std::int64_t tensor_parallel, std::int64_t data_parallel,
                                   std::int64_t in_flight, ModeChoice choice);

/// The mistake of an invalid plan: not a partition, an edge against the pipeline, too many devices,
/// memory exceeded, a time that is not the sum of its parts. Nothing if the plan is valid.
std::optional<std::string> mistake_in(const StagedPlan& plan, const PlannerInput& input);

/// Numbers of replicas that a stage may have: divisors of the micro-batches, ascending, up to the
/// number of devices.
std::vector<std::int64_t> replica_counts(const PlannerInput& input);

}  // namespace baechi::planners

namespace baechi {
class TextFile;
}

namespace baechi::planners {

/// Reads the format of traces/import/piper_file.h with all degrees and modes. Times are taken as
/// seconds, whatever their unit. Throws InputError with path:line:column and all mistakes at once:
/// those of read_piper_file(), and a cycle.
PlannerInput read_planner_input(TextFile& file);
PlannerInput read_planner_input(const std::string& path);

}  // namespace baechi::planners
