/// Steps of GPTs that vTrain measured, simulated.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/planning/parallel_step.h"
#include "sim/cluster/device_model.h"
#include "validate/published/comparison.h"

namespace baechi::validate {

/// A training step of a GPT, as Megatron-LM runs it: half precision, 1F1B with a flush. Ranks are
/// numbered by tensor, then data, then pipeline parallelism.
struct GptStep {
  std::int64_t gpus = 0, batch = 0, micro_batch = 0, hidden = 0, heads = 0, layers = 0, length = 0;
  std::int64_t tensor = 1, data = 1, pipeline = 1;
  std::int64_t vocabulary = 51'200;  ///< 50 257, padded
  Recomputing recompute = Recomputing::full;
  bool one_loss = false;  ///< the loss is a kernel each way; else Megatron-LM's kernels
  double ms = 0.0;
  std::string line{};  ///< line_of() the row

  std::int64_t micro_batches() const { return batch / (data * micro_batch); }
  std::string what() const {
    return fmt::format("h {}, {} layers, batch {} in {}, t {} d {} p {}", hidden, layers, batch,
                       micro_batch, tensor, data, pipeline);
  }
};

/// The steps that vTrain measured on one node, or on several; nothing if `folder` has no such file.
/// `left` takes rows that cannot be read.
std::optional<std::vector<GptStep>> vtrain_single_node(const std::string& folder, Leftovers& left);
std::optional<std::vector<GptStep>> vtrain_multi_node(const std::string& folder, Leftovers& left);

/// What vTrain profiled alone: a layer, and what stands before the first and behind the last one
/// (embeddings; logits and loss), of a micro-batch. In milliseconds.
struct PieceTimes {
  double layer = 0.0, head = 0.0;
};
/// A piece, and a step of it with one micro-batch and one layer.
struct GptPiece {
  GptStep step{};
  PieceTimes measured{};
  std::vector<std::string> lines{};  ///< rows that are sums of it
};
/// The pieces of steps on one node. Without a pipeline a step takes T = a M l + b M + c + e l
/// milliseconds for M micro-batches and l layers. A layer takes a, a head b; c and e, which are of
/// the update and the sum of gradients, are equal for all micro-batches. Steps whose rows do not
/// determine these go to `left`.
std::vector<GptPiece> pieces_of(const std::vector<GptStep>& steps, Leftovers& left);
/// The pieces of a step of one layer and one micro-batch as vTrain took them: the kernels of
/// `parallel_step(piece.step)` and their launches, one after the other, and the layer's
/// collectives. The head has none.
PieceTimes piece_times(const ParallelStep& step, const DeviceModel& gpu);

/// Flops of one GPU for the batch, in a layer and in the logits: 2 for each parameter and token
/// forward, twice that backward, and with recomputing a layer forward once more.
double layer_flops(const GptStep& step);
double head_flops(const GptStep& step);

/// Keys of the nodes: the share of the NICs' line rate that is reached, and the NICs that groups of
/// several ranks per node use; 0: all.
std::string network_text(double efficiency, double nics_per_group);
/// The step on DGX A100 with four NICs. `network`: other keys of the nodes.
ParallelStep parallel_step(const GptStep& step, const std::string& network = "");
/// `gpu` says what the GPUs reach.
double simulated_ms(const ParallelStep& step, const DeviceModel& gpu);
/// The built-in kind of device that is fitted to the steps on one node.
const DeviceModel& megatron_gpu();

}  // namespace baechi::validate
