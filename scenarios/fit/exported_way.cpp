#include <nlohmann/json.hpp>

#include "scenarios/fit/fit.h"

namespace baechi {
namespace {

using WayJson = nlohmann::ordered_json;

/// The map of accelerate: a module to a GPU's number or "cpu". Names of Hugging Face's models.
/// accelerate would copy an embedding table on the CPU in each step: it is on the first GPU with
/// spare memory for it.
std::string device_map_of(const FitQuestion& q, const FitWay& way, std::string& note) {
  WayJson map = WayJson::object();
  const auto put = [&](const std::string& layer, std::size_t device) {
    constexpr std::string_view numbered = "layer_";
    const bool in_layers = layer.starts_with(numbered);
    const auto own = q.model.names.find(in_layers ? std::string(numbered) : layer);
    std::string name = own != q.model.names.end()              ? own->second
                       : !q.model.writes || layer == "lm_head" ? layer
                       : in_layers                             ? "model.layers."
                                                               : "model." + layer;
    if (q.model.writes && in_layers) name += layer.substr(numbered.size());
    map[name] = device < way.layers.size()    ? WayJson(device)
                : device == way.layers.size() ? WayJson("cpu")
                                              : WayJson("disk");
  };
  const auto is_table = [](const auto& entry) { return entry.first == "embed_tokens"; };
  if (q.model.writes && std::ranges::none_of(way.map, is_table)) {
    const auto found = std::ranges::find_if(
        way.memory, [&](const FitMemory& memory) { return memory.spare() >= way.table; });
    put("embed_tokens", static_cast<std::size_t>(found - way.memory.begin()));
    if (found == way.memory.end())
      note = fmt::format("accelerate copies the embedding table, {}, in each step: slower\n",
                         to_text(way.table));
  }
  for (const auto& [layer, device] : way.map) put(layer, device);
  return map.dump(1);
}

/// The command, which also says where the layers are that one GPU has alone.
std::string vllm_file(const FitWay& way, std::size_t layers) {
  const bool said =
      way.variant.tensor > 1 || way.command.find("LAYER_PARTITION") != std::string::npos;
  return (said ? "" : fmt::format("VLLM_PP_LAYER_PARTITION={} ", layers)) + way.command;
}

void refuse_if_unsaid(const FitWay& way, ExportFormat format) {
  const auto unless = [&](bool said, const char* what) {
    if (!said) throw InputError(fmt::format("{} cannot say that {}", to_text(format), what));
  };
  using enum ExportFormat;
  unless(format == llamacpp || way.cpu_experts.empty(), "experts are on the CPU");
  unless(format == vllm || way.variant.tensor == 1, "GPUs share layers");
  unless(format == accelerate || way.on_disk == 0, "some weights wait on a disk");
  if (format == deepspeed && way.waiting == Bytes{})
    throw InputError("--export deepspeed says that weights wait in host memory: take such a --way");
  unless(format == accelerate || format == deepspeed || way.waiting == Bytes{},
         "weights wait in host memory");
}

}  // namespace

ExportedWay exported_way(const FitQuestion& q, const FitWay& way, ExportFormat format) {
  refuse_if_unsaid(way, format);
  ExportedWay result;
  const LayerSplit split = split_of(way);
  if (format == ExportFormat::accelerate)
    result.text = device_map_of(q, way, result.note);
  else if (format == ExportFormat::llamacpp)
    result.text = llama_cpp_split(split) + way.cpu_experts;
  else if (format == ExportFormat::vllm && way.variant.vllm)
    result.text = vllm_file(way, split.device.size());
  else if (format == ExportFormat::vllm)
    result.text = vllm_split(split, q.model.repository);
  else if (format == ExportFormat::megatron)
    result.text = megatron_split(split);
  else
    result.text = deepspeed_file(zero_of_waiting_weights("cpu", 0));
  result.text += "\n";
  if (format == ExportFormat::deepspeed &&
      std::ranges::count(split.device, LayerSplit::host) < std::ssize(split.device))
    result.note = "DeepSpeed lets the weights of all layers wait: slower than this way\n";
  return result;
}

}  // namespace baechi
