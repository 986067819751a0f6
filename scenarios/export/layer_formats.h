/// Placements of whole layers in the words of frameworks that split a model by layers.
#pragma once

#include "sim/problem/problem.h"

namespace baechi {

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

/// "-ngl 33 -ts 17,16": llama.cpp counts the output as a layer behind the others.
std::string llama_cpp_split(const LayerSplit& split);
/// "VLLM_PP_LAYER_PARTITION=17,15 vllm serve MODEL --pipeline-parallel-size 2". Throws InputError
/// if layers are on the host.
std::string vllm_split(const LayerSplit& split, std::string_view model);
/// "--pipeline-model-parallel-layout 'Et*17|t*15L'" of Megatron-LM: embedding, layers, loss. Throws
/// InputError if layers are on the host.
std::string megatron_split(const LayerSplit& split);

}  // namespace baechi
