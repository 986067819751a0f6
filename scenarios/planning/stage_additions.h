/// What hosts and replicas add to a micro-batch on one rank of each stage.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scenarios/planning/parallel_step.h"
#include "sim/transform/graph_copy.h"

namespace baechi {

class StageAdditions {
 public:
  /// `device` [num_ops of graph]: the first rank of each op's stage. `per_node`: devices of a node.
  StageAdditions(const ParallelPlan& plan, std::int64_t micro_batches, std::int64_t per_node,
                 const OpGraph& graph, const IdVector<OpId, DeviceId>& device);

  struct Result {
    OpGraph graph;
    IdVector<OpId, DeviceId> device;  // [num_ops of graph]
    ParallelStep::Launches launches;
  };
  Result result() &&;

 private:
  struct Stage {
    std::array<std::int64_t, 3> kernels{};  // by phase
    Bytes weights{}, gradients{};           // whole
    OpId sum = no_op;                       // of gradients before updates, or of weights behind
  };

  void copy_graph(bool accumulates);
  Bytes kept_bytes(OpId v) const;
  void add_to_gradients(OpId v, OpId made, Bytes kept);
  void add_launches(DeviceId d, const Stage& stage);
  bool receives(OpId v) const;
  bool is_last(OpId v) const;
  OpId add_collective(DeviceId d, CollectiveKind kind, Bytes bytes, Phase phase,
                      std::string_view name);
  void scatter_gradients();
  void gather_weights();
  void join_sum(OpId v);

  const ParallelPlan& plan_;
  const std::int64_t per_node_;
  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  GraphCopy copy_;
  std::map<DeviceId, Stage> stages_;
  std::vector<std::pair<OpId, DeviceId>> added_;
  ParallelStep::Launches launches_;
};

}  // namespace baechi
