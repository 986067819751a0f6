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
  std::vector<std::string> parts;
  std::istringstream rest(list);
  for (std::string part; std::getline(rest, part, between);) parts.push_back(part);
  return parts;
}

std::optional<std::int64_t> layer_number(std::string_view layer) {
  if (!is_numbered(layer)) return std::nullopt;
  return parse_number<std::int64_t>(layer.substr(layer.find_last_not_of("0123456789") + 1));
}

class FrameworkFile {
 public:
  FrameworkFile(const std::string& text, const std::string& path, const Problem& problem)
      : text_(text), path_(path), problem_(problem), words_(accelerate_devices(problem.cluster)) {}

  std::optional<Placement> read() const {
    if (trimmed(text_).starts_with('{')) return from_json();
    if (argument("-ngl")) return of_llama_cpp();
    const auto vllm = argument("VLLM_PP_LAYER_PARTITION"),
               megatron = argument("--pipeline-model-parallel-layout");
    std::vector<std::size_t> layers;  // of each stage
    if (vllm)
      for (const std::string& stage : parts_of(*vllm, ',')) layers.push_back(number(stage));
    if (megatron)
      for (const std::string& stage : parts_of(*megatron, '|')) {
        const std::size_t times = stage.find("t*");
        if (stage.find_first_not_of("EtL*0123456789") != stage.npos)
          refuse(fmt::format("'{}' in a layout of E, t*N and L", stage));
        layers.push_back(times == stage.npos
                             ? static_cast<std::size_t>(std::ranges::count(stage, 't'))
                             : number(stage.substr(times + 2, stage.find('L') - times - 2)));
      }
    if (layers.empty()) return std::nullopt;
    return of_stages(layers);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", path_, what));
  }
  std::size_t number(const std::string& text) const {
    const auto value = parse_number<std::size_t>(trimmed(text));
    if (!value) refuse(fmt::format("'{}' is not a number", text));
    return *value;
  }

  /// The text behind `name` and '=' or spaces, without quotes; nothing if it is not there.
  std::optional<std::string> argument(std::string_view name) const {
    const std::size_t at = text_.find(name);
    if (at == std::string::npos) return std::nullopt;
    const std::size_t from =
        std::min(text_.find_first_not_of(" ='", at + name.size()), text_.size());
    return text_.substr(from, text_.find_first_of(" '\n", from) - from);
  }

  /// The device that accelerate calls so; of several hosts, that of the GPU `user`.
  DeviceId called(const std::string& word, std::size_t user = 0) const {
    std::vector<DeviceId> found;
    for (const DeviceId d : words_.ids())
      if (words_[d] == word) found.push_back(d);
    if (found.empty()) refuse(fmt::format("the cluster has no device {}", word));
    return found[user % found.size()];
  }

  Placement of_llama_cpp() const {
    Options options("ggml_split");
    options.set("gpu_layers", {*argument("-ngl"), path_, {}});
    if (const auto shares = argument("-ts")) {
      Options::Value list{"", path_, {}};
      for (const std::string& share : parts_of(*shares, ','))
        list.children.push_back({"", {share, path_, {}}});
      options.set("tensor_split", std::move(list));
    }
    Placement placement = make_placer("ggml_split", std::move(options), path_)->place(problem_, 0);
    const auto some = argument("--n-cpu-moe");
    if (!some && !argument("--cpu-moe")) return placement;
    for (const OpId v : problem_.graph.ops()) {
      const std::string_view module = problem_.graph.module(v);
      const auto layer = layer_number(module_layer(module));
      if (module.find(".expert") != module.npos && layer &&
          (!some || std::cmp_less(*layer, number(*some))))
        placement.device[v] = called("cpu");
    }
    return placement;
  }

  /// What is before the layers is on the first GPU, what is behind them on the last.
  Placement of_stages(const std::vector<std::size_t>& count) const {
    const ModelLayers layers(problem_.graph, [](OpId) { return false; });
    std::vector<std::size_t> stage;  // of each layer, and of the output
    for (std::size_t s = 0; s < count.size(); ++s) stage.insert(stage.end(), count[s], s);
    const auto numbered = std::ranges::count_if(layers.names, is_numbered);
    if (std::cmp_not_equal(numbered, stage.size()))
      refuse(fmt::format("{} layers, but the graph has {}", stage.size(), numbered));
    stage.push_back(count.size() - 1);
    std::vector<DeviceId> on;
    std::size_t next = 0;
    for (const std::string& name : layers.names)
      on.push_back(called(std::to_string(is_numbered(name) ? stage[next++]
                                         : next == 0       ? 0
                                                           : stage[next])));
    Placement placement;
    for (const OpId v : problem_.graph.ops()) placement.device.push_back(on[layers.of[v]]);
    return placement;
  }

  std::optional<Placement> from_json() const {
    // Our own files may have millions of ops.
    if (text_.find("\"baechi-placement\"") != std::string::npos) return std::nullopt;
    FrameworkJson json = FrameworkJson::parse(text_, nullptr, false);
    if (!json.is_object() || json.empty()) return std::nullopt;
    if (json.contains("zero_optimization")) return of_deepspeed(json["zero_optimization"]);
    if (json.contains("stage_devices")) {
      FrameworkJson map = FrameworkJson::object();
      for (const auto& [module, stage] : json.at("modules").items()) {
        const auto d = json["stage_devices"].at(stage.get<std::size_t>()).get<std::uint32_t>();
        if (d >= words_.size()) refuse(fmt::format("the cluster has no device {}", d));
        map[module] = words_[static_cast<DeviceId>(d)];
      }
      return of_modules(map);
    }
    for (auto& [module, device] : json.items()) {
      if (device.is_number_unsigned()) device = device.dump();
      if (!device.is_string() || (device != "cpu" && device != "disk" &&
                                  !parse_number<std::size_t>(device.get<std::string>())))
        return std::nullopt;
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
    if (best.empty()) refuse(fmt::format("no key is or encloses module '{}'", module));
    return best;
  }

  Placement of_modules(const FrameworkJson& map) const {
    const auto computes = [&](DeviceId d) { return problem_.cluster.device(d).computes(); };
    std::optional<DeviceId> main;
    for (const auto& [module, word] : map.items())
      if (const DeviceId d = called(word); !main && computes(d)) main = d;
    if (!main) refuse("no module is on a device that computes");
    const WholeModules modules = whole_modules(problem_.graph);
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
    const OpGraph& graph = problem_.graph;
    const IdVector<OpId, DeviceId> device(graph.num_ops(), called("0"));
    Placement placement{.device = device};
    placement.home = device;
    placement.prefetch = zero.value("stage3_prefetch_bucket_size", 1) > 0 ? 1 : 0;
    for (const auto& [key, phase] : {std::pair("offload_param", Phase::forward),
                                     std::pair("offload_optimizer", Phase::update)}) {
      const std::string where =
          zero.contains(key) ? zero[key].value("device", "none") : std::string("none");
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
