/// Reads placements as frameworks have them: the files that `--export` of place and fit writes.
#pragma once
#include "placers/model_layers.h"
#include "sim/problem/problem.h"

namespace baechi {

/// [num_devices] Devices as accelerate names them: "cpu", "disk", or a number among the others.
IdVector<DeviceId, std::string> accelerate_devices(const Cluster& cluster);

/// The placement in `text` if it is one of these; `path` is the name in messages:
/// - a device map of accelerate: a JSON object of modules; the longest key that is or encloses a
///   module counts, else one with the same number of a layer or the same last name. Weights on a
///   host or disk that only stores wait there, and the first GPU of the map computes with them;
/// - baechi-pipelining's stages;
/// - a configuration of DeepSpeed: offload_param lets all weights wait, offload_optimizer moves the
///   updates;
/// - arguments of llama.cpp (-ngl, -ts, --cpu-moe, --n-cpu-moe), vLLM (VLLM_PP_LAYER_PARTITION) or
///   Megatron-LM (--pipeline-model-parallel-layout).
/// Throws InputError with `path` for devices or layers that are not there.
std::optional<Placement> parse_framework_placement(const std::string& text, const std::string& path,
                                                   const Problem& problem);

/// The placement, split, or file of a framework in `text`. Throws as the
/// function of its format does.
Placement parse_any_placement(const std::string& text, const std::string& path,
                              const Problem& problem);
/// The same of a file.
Placement read_any_placement(const std::string& path, const Problem& problem);

}  // namespace baechi
