#include "placers/framework_placement.h"

#include <nlohmann/json.hpp>

#include "placers/files/placement_file.h"
#include "placers/interface/registry.h"
#include "placers/whole_modules.h"
#include "sim/text.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

using FrameworkJson = nlohmann::ordered_json;

std::vector<std::string> parts_of(const std::string& list, char between) {
  std::vector<std::string> parts(1);
  for (const char c : list)
    if (c == between)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

/// The words of a shell's command; '=' is between the name and the value of a flag or variable.
std::vector<std::string> words_of_command(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;  // a word
  char quote = 0;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0 || c == '\\' ||
                       (c == '=' && inside &&
                        std::string_view("-CV").find(words.back()[0]) != std::string_view::npos);
    inside = inside && (quote != 0 || !space);
    if (quote == 0 && space) continue;
    if (!std::exchange(inside, true)) words.emplace_back();
    if (quote == 0 ? c == '\'' || c == '"' : c == quote)
      quote = quote == 0 ? c : 0;
    else
      words.back() += c;
  }
  return words;
}

std::optional<std::int64_t> layer_number(std::string_view layer) {
  if (!is_numbered(layer)) return std::nullopt;
  return parse_number<std::int64_t>(layer.substr(layer.find_last_not_of("0123456789") + 1));
}

class FrameworkFile {
  static constexpr std::size_t most_layers = 1'000'000;
  static constexpr std::string_view visible_gpus = "CUDA_VISIBLE_DEVICES";

 public:
  FrameworkFile(const std::string& text, const std::string& path, const Problem& problem)
      : text_(text), path_(path), problem_(problem), words_(accelerate_devices(problem.cluster)) {}

  std::optional<Placement> read() {
    const std::string_view text = trimmed(text_);
    if (text.starts_with('{')) return from_json();
    if (text.empty() || text.starts_with('[')) return std::nullopt;
    command_ = words_of_command(text_);
    for (const std::string_view flag : {"-ot", "--override-tensor", "-sm", "--split-mode", "-tp",
                                        "--tensor-parallel-size", "--tensor-model-parallel-size"})
      if (const auto value = argument({flag}); value && value != "layer" && value != "1")
        refuse(fmt::format("{} {}: layers are whole and in a line", flag, *value));
    if (const auto layers = argument({"-ngl", "--gpu-layers", "--n-gpu-layers"}))
      return of_llama_cpp(*layers);
    std::vector<std::size_t> layers;  // of each stage
    if (const auto vllm = argument({"VLLM_PP_LAYER_PARTITION"})) {
      for (const std::string& stage : parts_of(*vllm, ',')) layers.push_back(number(stage));
    } else if (const auto megatron = argument({"--pipeline-model-parallel-layout"})) {
      if (!megatron->starts_with('E') || !megatron->ends_with('L'))
        refuse(fmt::format("layout '{}' does not begin with E and end with L", *megatron));
      for (const std::string& stage : parts_of(megatron->substr(1, megatron->size() - 2), '|'))
        layers.push_back(layers_of(stage));
    } else {
      refuse(
          "neither JSON nor arguments of llama.cpp (-ngl), vLLM (VLLM_PP_LAYER_PARTITION) or "
          "Megatron-LM (--pipeline-model-parallel-layout)");
    }
    if (const auto stages =
            argument({"--pipeline-parallel-size", "-pp", "--pipeline-model-parallel-size"});
        stages && number(*stages) != layers.size())
      refuse(fmt::format("layers of {} stages, but {} stages", layers.size(), *stages));
    return of_stages(layers);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", path_, what));
  }
  std::size_t number(const std::string& text) const {
    const auto value = parse_number<std::size_t>(trimmed(text));
    if (!value) refuse(fmt::format("'{}' is not a whole number", text));
    return *value;
  }

  /// The layers of a stage of Megatron-LM's: "ttt", "t*3".
  std::size_t layers_of(const std::string& stage) const {
    std::size_t layers = 0;
    for (std::size_t at = 0; at < stage.size();) {
      const std::size_t end =
          std::min(stage.find_first_not_of("*0123456789", at + 1), stage.size());
      const std::string part = stage.substr(at, end - at);
      if (part != "," && part != "t" && !part.starts_with("t*"))
        refuse(fmt::format("'{}' in a layout: a stage is as ttt or t*3", part));
      layers += part == "," ? 0 : part == "t" ? 1 : std::min(number(part.substr(2)), most_layers);
      at = end;
    }
    return layers;
  }

  /// The word behind the name; nothing if the name is not there.
  std::optional<std::string> argument(std::initializer_list<std::string_view> names) const {
    const auto found = std::ranges::find_first_of(command_, names);
    if (found == command_.end()) return std::nullopt;
    if (found + 1 == command_.end()) refuse(*found + " without a value");
    return found[1];
  }

  /// llama.cpp's, which computes.
  DeviceId cpu() const {
    for (const DeviceId d : problem_.cluster.devices())
      if (problem_.cluster.device(d).is_cpu() && problem_.cluster.device(d).computes()) return d;
    refuse("some layers or experts are on the CPU, but no device is a CPU, such as 1xcpu_ddr4_2ch");
  }

  /// The device that accelerate calls so; of several hosts, that of the GPU `user`.
  DeviceId called(const std::string& word, std::size_t user = 0) const {
    std::vector<DeviceId> found;
    for (const DeviceId d : words_.ids())
      if (words_[d] == word) found.push_back(d);
    if (found.empty())
      refuse(fmt::format("the cluster has no device '{}' (it has {})", word,
                         fmt::join(std::set(words_.begin(), words_.end()), ", ")));
    return found[user % found.size()];
  }

  Placement of_llama_cpp(const std::string& layers) const {
    if (argument({visible_gpus}))
      refuse(fmt::format("{}: -ts of llama.cpp has a share for each device", visible_gpus));
    Options options("ggml_split");
    if (layers != "all") {
      options.set("gpu_layers", {layers, path_, {}});
      const ModelLayers all(problem_.graph, [](OpId) { return false; });
      if (std::cmp_less_equal(number(layers), std::ranges::count_if(all.names, is_numbered))) cpu();
    }
    if (const auto shares = argument({"-ts", "--tensor-split"})) {
      Options::Value list{"", path_, {}};
      for (const std::string& share : parts_of(*shares, ','))
        list.children.push_back({"", {share, path_, {}}});
      options.set("tensor_split", std::move(list));
    }
    Placement placement = make_placer("ggml_split", std::move(options), path_)->place(problem_, 0);
    const auto some = argument({"--n-cpu-moe", "-ncmoe"});
    if (!some &&
        std::ranges::find_first_of(command_, std::array{"--cpu-moe", "-cmoe"}) == command_.end())
      return placement;
    const std::size_t moved = some ? number(*some) : most_layers;
    for (const OpId v : problem_.graph.ops()) {
      const std::string_view module = problem_.graph.module(v);
      const auto layer = layer_number(module_layer(module));
      if (module.find(".expert") != module.npos && layer && std::cmp_less(*layer, moved))
        placement.device[v] = cpu();
    }
    return placement;
  }

  /// What is before the layers is on the first GPU, what is behind them on the last.
  Placement of_stages(const std::vector<std::size_t>& count) const {
    const ModelLayers layers(problem_.graph, [](OpId) { return false; });
    std::vector<std::string> visible;  // of each stage
    if (const auto said = argument({visible_gpus}))
      visible = parts_of(*said, ',');
    else
      for (std::size_t d = 0; d < words_.size(); ++d) visible.push_back(std::to_string(d));
    if (count.size() > visible.size())
      refuse(fmt::format("{} stages, but {} devices", count.size(), visible.size()));
    std::vector<std::size_t> stage;  // of each layer, and of the output
    const auto numbered =
        static_cast<std::size_t>(std::ranges::count_if(layers.names, is_numbered));
    for (std::size_t s = 0; s < count.size(); ++s)
      stage.insert(stage.end(), std::min(count[s], numbered + 1), s);
    if (numbered != stage.size())
      refuse(fmt::format("{} layers, but the graph has {}", fmt::join(count, " + "), numbered));
    stage.push_back(count.size() - 1);
    std::vector<DeviceId> on;
    std::size_t next = 0;
    for (const std::string& name : layers.names)
      on.push_back(called(visible[is_numbered(name) ? stage[next++]
                                  : next == 0       ? 0
                                                    : stage[next]]));
    Placement placement;
    for (const OpId v : problem_.graph.ops()) placement.device.push_back(on[layers.of[v]]);
    return placement;
  }

  std::optional<Placement> from_json() const {
    // Our own files may have millions of ops.
    if (text_.find("\"baechi-placement\"") != std::string::npos) return std::nullopt;
    // What is nested deeper is left out: the stack is finite.
    const auto shallow = [](int depth, FrameworkJson::parse_event_t, FrameworkJson&) {
      return depth < 16;
    };
    FrameworkJson json = FrameworkJson::parse(text_, shallow, false);
    if (!json.is_object() || json.empty()) return std::nullopt;
    if (json.contains("format") && json["format"] != "baechi-pipelining") return std::nullopt;
    if (json.contains("placement")) return std::nullopt;  // ours, with a mistake
    if (json.contains("zero_optimization")) return of_deepspeed(json["zero_optimization"]);
    if (json.contains("stage_devices")) {
      const FrameworkJson& devices = json["stage_devices"];
      if (!devices.is_array() || !json.contains("modules") || !json["modules"].is_object())
        refuse("stages have a list `stage_devices` and an object `modules`");
      FrameworkJson map = FrameworkJson::object();
      for (const auto& [module, stage] : json["modules"].items()) {
        if (!stage.is_number_unsigned() || stage.get<std::size_t>() >= devices.size())
          refuse(fmt::format("module '{}': {} is not one of {} stages", module, stage.dump(),
                             devices.size()));
        const FrameworkJson& d = devices[stage.get<std::size_t>()];
        if (!d.is_number_unsigned() || d.get<std::size_t>() >= words_.size())
          refuse(
              fmt::format("stage_devices: {} is not one of {} devices", d.dump(), words_.size()));
        map[module] = words_[static_cast<DeviceId>(d.get<std::uint32_t>())];
      }
      return of_modules(map);
    }
    for (auto& [module, device] : json.items()) {
      std::string word = device.is_string() ? device.get<std::string>() : device.dump();
      if (word.starts_with("cuda:")) word.erase(0, 5);
      if (word != "cpu" && word != "disk" && !parse_number<std::size_t>(word))
        refuse(fmt::format("'{}': {} is not a device of a map: a number, \"cpu\" or \"disk\"",
                           module, device.dump().substr(0, 40)));
      device = word;
    }
    return of_modules(json);
  }

  /// The value of the key that says where a module is.
  std::string value_at(const FrameworkJson& map, std::string_view module) const {
    const std::string layer = module_layer(module);
    std::string best;
    std::size_t longest = 0;  // and the point behind it
    for (const auto& [key, value] : map.items()) {
      const std::string last = key.substr(key.rfind('.') + 1);
      if (module.starts_with(key) && key.size() + 1 > longest &&
          (key.empty() || key.size() == module.size() || module[key.size()] == '.'))
        best = value, longest = key.size() + 1;
      else if (best.empty() &&
               (layer_number(layer) ? layer_number(layer) == layer_number(key) : last == layer))
        best = value;
    }
    if (best.empty()) refuse(fmt::format("no key is or encloses module '{}' of the graph", module));
    return best;
  }

  Placement of_modules(const FrameworkJson& map) const {
    const auto computes = [&](DeviceId d) { return problem_.cluster.device(d).computes(); };
    std::optional<DeviceId> main;
    for (const auto& [module, word] : map.items())
      if (const DeviceId d = called(word); !main && computes(d)) main = d;
    if (!main) refuse("no module is on a device that computes");
    const WholeModules modules = whole_modules(problem_.graph);
    std::int64_t most = -1;
    for (const std::string& name : modules.names)
      most = std::max(most, layer_number(module_layer(name)).value_or(-1));
    // The last ones may have no ops, such as a dropout; those of a deeper model are more.
    for (const auto& [key, word] : map.items())
      if (most >= 0 && layer_number(module_layer(key)).value_or(0) > most + 3)
        refuse(fmt::format("'{}': the last layer of the graph is {}", key, most));
    std::vector<DeviceId> home, device;
    for (const std::string& name : modules.names) {
      home.push_back(called(value_at(map, name), index(*main)));
      device.push_back(computes(home.back()) ? home.back() : *main);
    }
    Placement placement = place_on_modules(problem_.graph, modules, device);
    if (device == home) return placement;
    for (const OpId v : problem_.graph.ops()) {
      const DeviceId d = home[modules.of[v]];
      placement.home.push_back(computes(d) ? placement.device[v] : d);
    }
    return placement;
  }

  /// One GPU computes: others have other samples.
  Placement of_deepspeed(const FrameworkJson& zero) const {
    if (!zero.is_object()) refuse("zero_optimization is not an object");
    const OpGraph& graph = problem_.graph;
    const IdVector<OpId, DeviceId> device(graph.num_ops(), called("0"));
    Placement placement{.device = device};
    placement.home = device;
    const auto bucket = zero.find("stage3_prefetch_bucket_size");  // may be "auto"
    placement.prefetch = bucket != zero.end() && *bucket == 0 ? 0 : 1;
    for (const auto& [key, phase] : {std::pair("offload_param", Phase::forward),
                                     std::pair("offload_optimizer", Phase::update)}) {
      if (!zero.contains(key) || zero[key].is_null()) continue;
      if (!zero[key].is_object() || !zero[key].value("device", FrameworkJson("none")).is_string())
        refuse(fmt::format("{} is not an object such as {{\"device\": \"cpu\"}}", key));
      const std::string where = zero[key].value("device", "none");
      if (where == "none") continue;
      for (const OpId v : graph.ops())
        if (graph.op(v).phase == phase &&
            (phase == Phase::update || graph.op(v).persistent > graph.cache(v)))
          placement.home[v] = called(where == "nvme" ? "disk" : where);
    }
    return placement;
  }

  const std::string& text_;
  const std::string& path_;
  const Problem& problem_;
  IdVector<DeviceId, std::string> words_;
  std::vector<std::string> command_;
};

}  // namespace

IdVector<DeviceId, std::string> accelerate_devices(const Cluster& cluster) {
  IdVector<DeviceId, std::string> words;
  std::size_t gpus = 0;
  for (const DeviceId d : cluster.devices()) {
    const Device& device = cluster.device(d);
    const bool called_cpu = device.name.starts_with("cpu") &&
                            device.name.find_first_not_of("0123456789", 3) == std::string::npos;
    words.push_back(device.kind.starts_with("disk") ? "disk"
                    : device.is_cpu() || called_cpu ? "cpu"
                                                    : std::to_string(gpus++));
  }
  return words;
}

std::optional<Placement> parse_framework_placement(const std::string& text, const std::string& path,
                                                   const Problem& problem) {
  try {
    return FrameworkFile(text, path, problem).read();
  } catch (const FrameworkJson::exception& wrong) {
    throw InputError(fmt::format("{}: {}", path, wrong.what()));
  }
}

Placement parse_any_placement(const std::string& text, const std::string& path,
                              const Problem& problem) {
  if (is_split(text)) return parse_split(text, path, problem);
  if (auto placement = parse_framework_placement(text, path, problem)) return *std::move(placement);
  return parse_placement(text, path, problem.graph, problem.cluster.num_devices());
}

Placement read_any_placement(const std::string& path, const Problem& problem) {
  TextFile file(path, Content::any);
  require_kind(file, "a placement");
  file.require_text();
  return parse_any_placement(file.rest(most_placement_bytes), path, problem);
}

}  // namespace baechi
