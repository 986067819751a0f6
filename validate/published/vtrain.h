/// Steps of GPTs that vTrain measured, simulated.
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
#include "sim/ids.h"

namespace baechi::validate {

/// A training step of a GPT, as Megatron-LM runs it: half precision, every block computed again
/// before its backward pass, 1F1B with a flush. Ranks are numbered by tensor, then data, then
/// pipeline parallelism.
struct GptStep {
  std::int64_t gpus = 0, batch = 0, micro_batch = 0, hidden = 0, heads = 0, layers = 0, length = 0;
  std::int64_t tensor = 1, data = 1, pipeline = 1;
  double ms = 0.0;

  std::int64_t micro_batches() const { return batch / (data * micro_batch); }
  /// The first GPU of a stage.
  DeviceId device(std::int64_t stage) const { return static_cast<DeviceId>(stage * tensor * data); }
  std::string what() const {
    return fmt::format("h {}, {} layers, batch {} in {}, t {} d {} p {}", hidden, layers, batch,
                       micro_batch, tensor, data, pipeline);
  }
};

/// The steps that vTrain measured on one node, or on several; nothing if `folder` has no such file.
/// Throws InputError if it is wrong.
std::optional<std::vector<GptStep>> vtrain_single_node(const std::string& folder);
std::optional<std::vector<GptStep>> vtrain_multi_node(const std::string& folder);

/// A step on DGX A100, of which one rank of each stage is simulated: prepared once, for GPUs that
/// reach more or less.
class PreparedGptStep {
 public:
  explicit PreparedGptStep(const GptStep& step);
  ~PreparedGptStep();
  PreparedGptStep(PreparedGptStep&&) noexcept;
  /// `gpu` says what the GPUs reach; DeviceModel::host_op is the host's time to launch a kernel.
  double simulated_ms(const DeviceModel& gpu) const;

  /// One micro-batch on one rank of each stage, with what hosts and replicas add to it.
  const OpGraph& graph() const;
  const IdVector<OpId, DeviceId>& device() const;  ///< [num_ops of graph()]
  const Cluster& cluster() const;
  /// Ops of graph() that stand for the host's launches, with the number of kernels they launch.
  using Launches = std::vector<std::pair<OpId, std::int64_t>>;
  const Launches& launches() const;
  std::int64_t micro_batches() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};
/// The built-in kind of device that is fitted to the steps on one node.
const DeviceModel& megatron_gpu();

}  // namespace baechi::validate
