/// Writes placements in the formats of frameworks.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "scenarios/run/experiment.h"

namespace baechi {

enum class ExportFormat : std::uint8_t {
  accelerate,
  pipelining,
  json,
  llamacpp,
  vllm,
  megatron,
  deepspeed
};
constexpr auto names_of(ExportFormat) { return enumerators<ExportFormat::deepspeed>(); }

/// The inputs of an export besides the placement.
struct ExportTask {
  const Experiment& experiment;
  const Placer& placer;
  std::string_view placer_name;
  std::uint64_t seed = 0;
  const std::string& graph_name;
  const std::string& path;              ///< of the file
  std::vector<std::string> no_split{};  ///< modules that stay whole, as DivisionRules has them
  std::size_t stages = 0;               ///< of a pipeline; 0: as many as are fastest
};

/// Throws InputError, which names TRACE, if `format` needs modules and no op of the graph has one.
/// A device map needs none: the model is then whole.
void require_modules(const Experiment& experiment, ExportFormat format, const std::string& trace);

/// Writes the file and returns lines with the step times before and after:
/// - accelerate: the `device_map` of Hugging Face's accelerate, a JSON object from module to device
///   number, or "cpu" or "disk" for a device whose type begins with this word. The fastest of the
///   placement rounded to whole modules and of the placer's and auto's placements of whole modules,
///   then improved by annealing.
/// - pipelining: split points, devices and schedule for torch.distributed.pipelining, JSON. The
///   stages have the shortest longest stage over all numbers of devices and two schedules, then the
///   least time per micro-batch; the placement is not used.
/// - llamacpp, vllm, megatron: the arguments that split layers as the placement does; InputError
///   names an op that they cannot place.
/// - deepspeed: a configuration where all weights wait on a host or disk, or all updates run there;
///   InputError names an op that is elsewhere.
/// - json: the placement file; no lines.
/// parse_framework_placement() reads them again.
/// If nothing fits in memory, writes no file, and the lines say so.
std::string export_placement(ExportFormat format, const ExportTask& task,
                             const Placement& placement);

/// Where the layers of a model are, in their order.
struct LayerSplit {
  std::vector<std::size_t> device{};  ///< [layers] number of the GPU; `host`: in host memory
  std::size_t output = 0;             ///< the device of what is behind the layers
  std::size_t gpus = 0;
  static constexpr std::size_t host = ~std::size_t{0};
};

/// The split that a placement is. Devices whose type begins with cpu are the host. Throws
/// InputError that names the op if a layer is on several devices or the order of devices is not
/// that of the layers, with the host first.
LayerSplit layer_split(const Problem& problem, const Placement& placement);

/// Stage 3 of ZeRO with all weights on `device`, cpu or nvme; `prefetch` 0: each is copied when it
/// is read.
nlohmann::ordered_json zero_of_waiting_weights(const char* device, std::int64_t prefetch);
/// DeepSpeed's configuration with this `zero_optimization`.
std::string deepspeed_file(const nlohmann::ordered_json& zero);

/// llama.cpp counts the output as a layer behind the others.
std::size_t layers_on_gpus(const LayerSplit& split);
/// "-ngl 33 -ts 17,16".
std::string llama_cpp_split(const LayerSplit& split);
/// "VLLM_PP_LAYER_PARTITION=17,15 vllm serve MODEL --pipeline-parallel-size 2". Throws InputError
/// if layers are on the host.
std::string vllm_split(const LayerSplit& split, std::string_view model);
/// "--pipeline-model-parallel-layout 'Et*17|t*15L'" of Megatron-LM: embedding, layers, loss. Throws
/// InputError if layers are on the host.
std::string megatron_split(const LayerSplit& split);

}  // namespace baechi
