#include "scenarios/export/layer_formats.h"

#include <fmt/ranges.h>

#include "placers/model_layers.h"
#include "sim/error.h"

namespace baechi {
namespace {

/// [gpus] Layers of each; with the output, if it counts.
std::vector<std::size_t> counts(const LayerSplit& split, bool output) {
  std::vector<std::size_t> count(split.gpus);
  for (const std::size_t d : split.device)
    if (d != LayerSplit::host) ++count[d];
  if (output && split.output != LayerSplit::host) ++count[split.output];
  return count;
}

/// [stages] The layers of each GPU that has any.
std::vector<std::size_t> stages(const LayerSplit& split, std::string_view framework) {
  if (std::ranges::find(split.device, LayerSplit::host) != split.device.end())
    throw InputError(
        fmt::format("{} cannot say that layers are on the host: another split", framework));
  std::vector<std::size_t> all = counts(split, false);
  std::erase(all, 0U);
  return all;
}

}  // namespace

LayerSplit layer_split(const Problem& problem, const Placement& placement) {
  const OpGraph& graph = problem.graph;
  const ModelLayers layers(graph, [](OpId) { return false; });
  std::vector<std::size_t> number(problem.cluster.num_devices(), LayerSplit::host);
  LayerSplit split;
  for (const DeviceId d : problem.cluster.devices())
    if (!problem.cluster.device(d).is_cpu()) number[index(d)] = split.gpus++;
  const auto first = std::ranges::find_if(layers.names, is_numbered);
  if (first == layers.names.end())
    throw InputError("no module of the graph is a numbered layer, such as layers.0");
  const auto before = static_cast<std::size_t>(first - layers.names.begin());
  std::vector<OpId> op(layers.size(), no_op);
  std::size_t last = LayerSplit::host;
  const auto refuse = [&](OpId v, std::string_view why) {
    throw InputError(fmt::format("op '{}' is on {}, {}", graph.name(v),
                                 problem.cluster.device(placement.device[v]).name, why));
  };
  for (const OpId v : graph.ops()) {
    const std::size_t layer = layers.of[v], on = number[index(placement.device[v])];
    if (layer < before) continue;
    if (op[layer] != no_op) {
      if (placement.device[op[layer]] != placement.device[v])
        refuse(v, fmt::format("and op '{}' of its layer elsewhere", graph.name(op[layer])));
      continue;
    }
    op[layer] = v;
    if (last != LayerSplit::host && (on == LayerSplit::host || on < last))
      refuse(v, "before the device of an earlier layer: the framework has them in order");
    last = on;
    if (is_numbered(layers.names[layer]))
      split.device.push_back(on);
    else
      split.output = on;
  }
  return split;
}

std::string llama_cpp_split(const LayerSplit& split) {
  const std::vector<std::size_t> count = counts(split, true);
  std::size_t all = 0;
  for (const std::size_t n : count) all += n;
  return fmt::format("-ngl {}", all) +
         (count.size() > 1 ? fmt::format(" -ts {}", fmt::join(count, ",")) : "");
}

std::string vllm_split(const LayerSplit& split, std::string_view model) {
  const std::vector<std::size_t> count = stages(split, "vLLM");
  return fmt::format("VLLM_PP_LAYER_PARTITION={} vllm serve {} --pipeline-parallel-size {}",
                     fmt::join(count, ","), model, count.size());
}

std::string megatron_split(const LayerSplit& split) {
  std::string layout = "E";
  for (const std::size_t n : stages(split, "Megatron-LM"))
    layout += fmt::format("{}t*{}", layout == "E" ? "" : "|", n);
  return fmt::format("--pipeline-model-parallel-layout '{}L'", layout);
}

}  // namespace baechi
