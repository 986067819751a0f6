/// What a training framework does besides the model: a file of scenarios/frameworks/, or a user's.
#pragma once

#include "sim/cluster/device_model.h"
#include "sim/transform/training/data_parallel.h"

namespace baechi {

/// What is kept of 32-bit weights besides their copy in 16 bits.
enum class MasterWeights : std::uint8_t { fp32, remainders, none };
constexpr auto names_of(MasterWeights) {
  return std::to_array<Named<MasterWeights>>(
      {{MasterWeights::fp32, "fp32", "all of them"},
       {MasterWeights::remainders, "remainders", "the 16 bits that a bf16 copy lacks"},
       {MasterWeights::none, "none", "nothing: the optimizer's state is in 16 bits, too"}});
}

/// How gradients of sharded weights come into the buffer that is reduced.
enum class ShardedGradients : std::uint8_t { in_place, flat, copied };
constexpr auto names_of(ShardedGradients) {
  return std::to_array<Named<ShardedGradients>>(
      {{ShardedGradients::in_place, "in_place", "they are made there"},
       {ShardedGradients::flat, "flat", "views of one flat gradient are joined, cast and divided"},
       {ShardedGradients::copied, "copied", "one kernel copies and casts them"}});
}

struct Framework {
  std::string name = "none";
  /// Bytes that stay allocated, on devices from that compute capability on.
  std::map<double, Bytes> workspace{};
  bool grad_reduce_in_fp32 = false, fp32_accumulation_traffic = false;
  bool quantized_saved_inputs = false;
  bool fp32_gradients_before_update = false, multi_tensor_update = false;
  double overlapped_collectives_slowdown = 1.0, overlapped_compute_slowdown = 1.0;
  bool blocking_p2p = false, broadcast_weights = false;
  ShardedGradients sharded_gradients = ShardedGradients::in_place;
  bool selective_recompute_operators = false;
  bool dynamic_scaling = false, norms_in_16_bits = false;
  std::optional<bool> overlap_grad_reduce{};
  MasterWeights master_weights = MasterWeights::fp32;
  bool fp8_attention = false;
  std::vector<std::string> gemms_in_16_bits{};
  bool tp_comm_overlap = false, overlap_expert_dispatch = false;
  bool account_for_embedding_and_loss = false;
  std::vector<std::string> recompute_modules{};
  std::int64_t recompute_layers = 0, offload_layers = 0;
  Duration kernel_launch{};  ///< 0: the device's
  Options::Value kernels{};  ///< of the generators' option `kernels`, a mapping
};

/// "NAME", of a file in scenarios/frameworks/, or "FILE.yaml"; with ":key=value,..." in place of
/// its own keys. Throws InputError with file, line and column.
Framework read_framework(const std::string& text);
/// The same of a section that is read already: a name, or a mapping, whose paths are relative to
/// `base`.
Framework read_framework(const Options::Value& section, const std::string& base = "");

/// Its workspaces on such a device.
Bytes workspace_of(const Framework& framework, const DeviceModel& gpu);

/// Whether gradients of weights in `precision` are reduced in 32 bits.
bool reduces_in_fp32(const Framework& framework, std::string_view precision);

/// The device, with the framework's time to launch a kernel.
DeviceModel launched_by(const Framework& framework, DeviceModel gpu);

/// When gradients are sent with ZeRO 0 and 1: as `framework` says or, if it does not, the one that
/// the device's kernels were measured with; else as PyTorch's DistributedDataParallel and
/// DeepSpeed.
std::array<Sending, 2> usual_sending(const Framework& framework, const DeviceModel& gpu);

/// Tells `options` what the framework moves in a device's memory before gradients are sent and
/// after weights are gathered, and whether new weights are broadcast.
void add_moves(const Framework& framework, std::string_view precision,
               DataParallelOptions& options);

/// The mapping `kernels` of a generator whose user gave `own`: with what the framework says.
Options::Value kernels_of(const Framework& framework, std::string_view precision,
                          bool split_backward, const Options::Value* own);

}  // namespace baechi
