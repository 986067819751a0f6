#include <fmt/ranges.h>

#include "placers/framework_placement.h"
#include "placers/interface/registry.h"
#include "scenarios/export/framework_file.h"
#include "tests/prelude.h"

namespace {

/// embed, `layers` layers of two ops, norm, head; weights of 1 B.
OpGraph chain_of_layers(int layers, const char* mlp = "mlp", Bytes mlp_bytes = 1_B) {
  OpGraphBuilder g;
  std::optional<TensorId> before;
  const auto add = [&](const std::string& name, const std::string& module) {
    const Bytes held = module.ends_with(mlp) ? mlp_bytes : 1_B;
    const OpId v = g.add_op({.name = name, .persistent = held, .module = module});
    if (before) g.add_edge(*before, v);
    before = g.add_tensor(v, 1_B);
  };
  add("embed", "model.embed_tokens");
  for (int i = 0; i < layers; ++i)
    for (const char* part : {"self_attn", mlp})
      add(fmt::format("{}{}", part, i), fmt::format("model.layers.{}.{}", i, part));
  add("norm", "model.norm");
  add("head", "lm_head");
  return std::move(g).build();
}

Cluster equal_gpus(std::size_t gpus, bool cpu = false, Bytes memory = 1_GiB) {
  IdVector<DeviceId, Device> devices;
  for (std::size_t i = 0; i < gpus; ++i)
    devices.push_back({.name = fmt::format("gpu{}", i), .kind = "", .memory = memory});
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

}  // namespace

TEST_SUITE_BEGIN("ggml_split");
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
  // The device of each op by the arguments, of which all but llama.cpp's have no CPU.
  const auto again = [](const Split& made, const std::string& text) {
    const ProfiledCosts costs(made.graph, made.cluster);
    return parse_framework_placement(text, "file", {made.graph, made.cluster, costs})->device;
  };
  for (const std::size_t gpus : {1UL, 2UL, 3UL}) {
    const Split made = layers_split(10, gpus), with_cpu = layers_split(10, gpus, "7", true);
    const std::string vllm = vllm_split(made.split, "M");
    CHECK(vllm.ends_with(fmt::format(" vllm serve M --pipeline-parallel-size {}", gpus)));
    CHECK(again(made, vllm) == made.placement.device);
    CHECK(again(made, megatron_split(made.split)) == made.placement.device);
    CHECK(again(made, llama_cpp_split(made.split) + " -fa on") == made.placement.device);
    CHECK(again(with_cpu, llama_cpp_split(with_cpu.split)) == with_cpu.placement.device);
  }
  // The second stage is on the GPU that the command names second.
  const Split apart = layers_split(10, 3, "", false, {"5", "0", "6"});
  CHECK(again(apart, "CUDA_VISIBLE_DEVICES=0,2 VLLM_PP_LAYER_PARTITION=5,5 vllm serve M") ==
        apart.placement.device);
  // 11 entries, of which the output is on the last GPU.
  const Split three = layers_split(10, 3);
  CHECK(megatron_split(three.split) == "--pipeline-model-parallel-layout 'Et*4|t*4|t*2L'");
  // The output alone on the last GPU is said, too.
  const Split alone = layers_split(4, 2, "", false, {"4", "1"});
  CHECK(vllm_split(alone.split, "M").starts_with("VLLM_PP_LAYER_PARTITION=4,0 "));
  for (const std::string& text : {vllm_split(alone.split, "M"), megatron_split(alone.split)})
    CHECK(again(alone, text) == alone.placement.device);
  const auto refused = [&](const std::string& text) {
    return message<InputError>([&] { again(three, text); });
  };
  for (const auto& [text, why] : std::to_array<std::pair<const char*, const char*>>({
           {"VLLM_PP_LAYER_PARTITION=4,4 vllm serve M", "4 + 4 layers, but the graph has 10"},
           {"VLLM_PP_LAYER_PARTITION=99999999999999999,1", "layers, but the graph has 10"},
           {"VLLM_PP_LAYER_PARTITION=4,2,2,2", "4 stages, but 3 devices"},
           {"VLLM_PP_LAYER_PARTITION=5,5,", "'' is not a whole number"},
           {"CUDA_VISIBLE_DEVICES=1 VLLM_PP_LAYER_PARTITION=5,5", "2 stages, but 1 devices"},
           {"CUDA_VISIBLE_DEVICES=0,9 VLLM_PP_LAYER_PARTITION=5,5", "no device '9'"},
           {"CUDA_VISIBLE_DEVICES=0 llama-server -ngl 11",
            "CUDA_VISIBLE_DEVICES: -ts of llama.cpp"},
           {"VLLM_PP_LAYER_PARTITION=5,5 vllm serve M -pp 3", "layers of 2 stages, but 3 stages"},
           {"VLLM_PP_LAYER_PARTITION=5,5 vllm serve M -tp 2", "-tp 2: layers are whole"},
           {"VLLM_PP_LAYER_PARTITION", "VLLM_PP_LAYER_PARTITION without a value"},
           {"--pipeline-model-parallel-layout 'Em|t*10L'", "'m' in a layout"},
           {"--pipeline-model-parallel-layout 'E(t|)*9,tL'", "'(' in a layout"},
           {"--pipeline-model-parallel-layout 't*5|Et*5L'", "does not begin with E and end"},
           {"--pipeline-model-parallel-layout 'Ett*4|tt*3L'", "5 + 4 layers, but"},
           {"-ngl 3", "no device is a CPU"},
           {"-ngl 11 --cpu-moe -ot exps=CPU", "-ot exps=CPU: layers are whole"},
           {"-ngl many", "'many' is not a whole number"},
           {"some words", "file: neither JSON nor arguments of llama.cpp (-ngl), vLLM"},
           {R"({"layers.0": 0.5})", "'layers.0': 0.5 is not a device of a map"},
           {R"({"": 0, "layers.30": 1})", "'layers.30': the last layer of the graph is 9"},
           {R"({"zero_optimization": 2})", "zero_optimization is not an object"},
           {R"({"zero_optimization": {"offload_param": "cpu"}})", "offload_param is not an obj"},
           {R"({"stage_devices": [0]})", "stages have a list `stage_devices` and"},
           {R"({"stage_devices": [0], "modules": {"": 1}})", "1 is not one of 1 stages"},
           {R"({"stage_devices": [-1], "modules": {"": 0}})", "-1 is not one of 3 devices"},
       })) {
    CAPTURE(refused(text));
    CHECK(refused(text).starts_with("file:"));
    CHECK(holds(refused(text), why));
  }
  std::string deep;
  for (std::size_t i = 0; i < 100'000; ++i) deep += R"({"a":)";
  CHECK(refused(deep + "1" + std::string(100'000, '}')).starts_with("file: 'a': "));
  // As people write them.
  const auto ngl = again(three, "llama-server -m a-ts.gguf -ngl 99 -ts \"4,4,3\"");
  CHECK(ngl == three.placement.device);
  CHECK(ngl == again(three, "--gpu-layers=all \\\n --tensor-split 4,4,3"));
  CHECK(ngl == again(three, "--pipeline-model-parallel-layout \"Etttt|tt,t*2|ttL\""));
  CHECK(again(three, R"({"": "cuda:1"})") == again(three, R"({"": 1})"));
  CHECK(again(three, R"({"zero_optimization": {"stage3_prefetch_bucket_size": "auto"}})") ==
        again(three, R"({"": 0})"));
}

TEST_CASE("a margin without --fit is refused") {
  CHECK_THROWS_AS(make_placer("ggml_split", Options("ggml_split", {{"margin", {"1 MB", ""}}})),
                  InputError);
}

// A layer's weights take 2 B, and while layers run 2 B more: what they read and what they write.
TEST_CASE("--fit fills GPUs from the last to the first, and keeps a split that fits") {
  const auto fitted = [](const OpGraph& graph, const Cluster& cluster) {
    Options options("ggml_split", {{"fit", {"true", ""}}, {"margin", {"0 B", ""}}});
    const ProfiledCosts costs(graph, cluster);
    return make_placer("ggml_split", std::move(options))->place({graph, cluster, costs}, 0);
  };
  const auto counts = [&](Bytes memory) {
    const auto& [graph, cluster, costs, problem] =
        OwnedProblem(chain_of_layers(4), equal_gpus(2, true, memory));
    return llama_cpp_split(layer_split({graph, cluster, costs}, fitted(graph, cluster)));
  };
  CHECK(counts(8_B) == "-ngl 5 -ts 3,2");  // three layers, 3 x 2 + 2, where their shares are
  CHECK(counts(6_B) == "-ngl 4 -ts 2,2");  // a layer and the output, two layers; one is left
  // Experts of 4 B: all on the CPU leave 10 - (2 x 1 + 2 + 2) B, the first layer's.
  const OpGraph experts = chain_of_layers(2, "mlp.experts", 4_B);
  const Placement placement = fitted(experts, equal_gpus(1, true, 10_B));
  CHECK(placement.device[*experts.find("mlp.experts0")] == gpu0);
  CHECK(placement.device[*experts.find("mlp.experts1")] == gpu1);  // here the CPU
  CHECK(placement.device[*experts.find("self_attn0")] == gpu0);
  CHECK(placement.device[*experts.find("head")] == gpu0);
}

TEST_CASE("what a framework cannot say is refused, with the op") {
  Split s = layers_split(4, 2);
  const Problem& problem = OwnedProblem(s.graph, s.cluster).problem;
  const auto refused = [&](std::string_view op, std::size_t device) {
    Placement changed = s.placement;
    changed.device[*s.graph.find(op)] = static_cast<DeviceId>(device);
    return message<InputError>([&] { layer_split(problem, changed); });
  };
  CHECK(refused("mlp0", 1) ==
        "op 'mlp0' is on gpu1, and op 'self_attn0' of its layer elsewhere; --placer ggml_split "
        "keeps layers whole");
  CHECK(refused("head", 0) ==
        "op 'head' is on gpu0, before the device of an earlier layer: the framework has them in "
        "order");
  CHECK_REFUSED(megatron_split(layers_split(4, 2, "", false, {"0", "1"}).split),
                "Megatron-LM has the first layer on the first GPU");
  CHECK_REFUSED(vllm_split(layers_split(4, 1, "2", true).split, "M"),
                "vLLM cannot say that layers are on the host: another split");
}
