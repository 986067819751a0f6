#include <fmt/ranges.h>

#include "placers/interface/registry.h"
#include "scenarios/export/framework_file.h"
#include "tests/message.h"
#include "tests/prelude.h"
#include "tests/small_graphs.h"

using namespace baechi::literals;

namespace {

/// embed, `layers` layers of two ops, norm, head; weights of 1 B.
OpGraph chain_of_layers(int layers) {
  OpGraphBuilder g;
  std::optional<TensorId> before;
  const auto add = [&](const std::string& name, const std::string& module) {
    const OpId v = g.add_op({.name = name, .persistent = 1_B, .module = module});
    if (before) g.add_edge(*before, v);
    before = g.add_tensor(v, 1_B);
  };
  add("embed", "model.embed_tokens");
  for (int i = 0; i < layers; ++i)
    for (const char* part : {"self_attn", "mlp"})
      add(fmt::format("{}{}", part, i), fmt::format("model.layers.{}.{}", i, part));
  add("norm", "model.norm");
  add("head", "lm_head");
  return std::move(g).build();
}

Cluster equal_gpus(std::size_t gpus, bool cpu = false) {
  IdVector<DeviceId, Device> devices;
  for (std::size_t i = 0; i < gpus; ++i)
    devices.push_back({.name = fmt::format("gpu{}", i), .kind = "", .memory = 1_GiB});
  if (cpu) devices.push_back({.name = "host", .kind = "cpu_ddr4_2ch", .memory = 1_GiB});
  return Cluster::uniform(devices, {.bandwidth = {1e9}, .latency = {}});
}

struct Split {
  OpGraph graph;
  Cluster cluster;
  Placement placement;
  LayerSplit split;
};

Split layers_split(int layers, std::size_t gpus, const std::string& gpu_layers = "",
                   bool cpu = false, const std::vector<std::string>& shares = {}) {
  Split s{chain_of_layers(layers), equal_gpus(gpus, cpu), {}, {}};
  Options options("ggml_split");
  if (!gpu_layers.empty()) options.set("gpu_layers", {gpu_layers, "", {}});
  Options::Value list;
  for (const std::string& share : shares) list.children.push_back({"", {share, "", {}}});
  if (!shares.empty()) options.set("tensor_split", list);
  const Problem& problem = OwnedProblem(s.graph, s.cluster).problem;
  s.placement = make_placer("ggml_split", std::move(options))->place(problem, 0);
  s.split = layer_split(problem, s.placement);
  return s;
}

/// The device of each layer by VLLM_PP_LAYER_PARTITION: the number of layers of each stage.
std::vector<std::size_t> read_by_vllm(const std::string& text) {
  std::vector<std::size_t> device;
  std::istringstream counts(text.substr(text.find('=') + 1, text.find(' ') - text.find('=') - 1));
  std::size_t stage = 0;
  for (std::string count; std::getline(counts, count, ','); ++stage)
    device.insert(device.end(), std::stoul(count), stage);
  return device;
}

/// By --pipeline-model-parallel-layout: E, t and L are layers, | begins a stage, x*n is x n times.
std::vector<std::size_t> read_by_megatron(const std::string& text) {
  std::vector<std::size_t> device;
  std::size_t stage = 0;
  for (std::size_t i = text.find('\''); i < text.rfind('\''); ++i) {
    stage += text[i] == '|' ? 1U : 0U;
    if (text[i] != 't') continue;
    const std::size_t times = text[i + 1] == '*' ? std::stoul(text.substr(i + 2)) : 1;
    device.insert(device.end(), times, stage);
  }
  return device;
}

}  // namespace

TEST_SUITE("ggml_split") {
  TEST_CASE("layers are split as llama.cpp's buffers show, the output behind the last") {
    // 33 entries: the k-th of n equal GPUs takes those with i / 33 < k / n.
    for (const auto& [gpus, counts] :
         std::vector<std::pair<std::size_t, const char*>>{{1, "-ngl 33"},
                                                          {2, "-ngl 33 -ts 17,16"},
                                                          {4, "-ngl 33 -ts 9,8,8,8"},
                                                          {6, "-ngl 33 -ts 6,5,6,5,6,5"},
                                                          {8, "-ngl 33 -ts 5,4,4,4,4,4,4,4"}})
      CHECK(llama_cpp_split(layers_split(32, gpus).split) == counts);
    // Three of nine entries are on GPUs: the last two layers and the output.
    const Split some = layers_split(8, 2, "3", true);
    CHECK(llama_cpp_split(some.split) == "-ngl 3 -ts 2,1");
    CHECK(some.placement.device[OpId{0}] == DeviceId{2});  // the table of words is on the CPU
    CHECK(llama_cpp_split(layers_split(8, 2, "", false, {"2", "1"}).split) == "-ngl 9 -ts 6,3");
  }

  TEST_CASE("arguments of llama.cpp, vLLM and Megatron give the same placement again") {
    for (const std::size_t gpus : {2UL, 3UL}) {
      const Split made = layers_split(10, gpus);
      const std::string text = llama_cpp_split(made.split);
      std::vector<std::string> shares;
      std::istringstream list(text.substr(text.rfind(' ') + 1));
      for (std::string share; std::getline(list, share, ',');) shares.push_back(share);
      CHECK(layers_split(10, gpus, "11", true, shares).split.device == made.split.device);
      const std::string vllm = vllm_split(made.split, "M"), megatron = megatron_split(made.split);
      CHECK(read_by_vllm(vllm) == made.split.device);
      CHECK(vllm.ends_with(fmt::format(" vllm serve M --pipeline-parallel-size {}", gpus)));
      CHECK(read_by_megatron(megatron) == made.split.device);
    }
    // 11 entries, of which the output is on the last GPU.
    CHECK(megatron_split(layers_split(10, 3).split) ==
          "--pipeline-model-parallel-layout 'Et*4|t*4|t*2L'");
  }

  TEST_CASE("what a framework cannot say is refused, with the op") {
    Split s = layers_split(4, 2);
    const Problem& problem = OwnedProblem(s.graph, s.cluster).problem;
    const auto refused = [&](std::string_view op, std::size_t device) {
      Placement changed = s.placement;
      changed.device[*s.graph.find(op)] = static_cast<DeviceId>(device);
      return message<InputError>([&] { layer_split(problem, changed); });
    };
    CHECK(refused("mlp0", 1) == "op 'mlp0' is on gpu1, and op 'self_attn0' of its layer elsewhere");
    CHECK(refused("head", 0) ==
          "op 'head' is on gpu0, before the device of an earlier layer: the framework has them in "
          "order");
    CHECK(message<InputError>([] { vllm_split(layers_split(4, 1, "2", true).split, "M"); }) ==
          "vLLM cannot say that layers are on the host: another split");
  }
}
