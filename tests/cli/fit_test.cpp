#include <set>

#include "tests/cli/session.h"

namespace {

constexpr const char* config_of_llama_3 = R"({"model_type": "llama", "hidden_size": 4096,
 "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 32,
 "num_hidden_layers": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16",
 "vocab_size": 128256})";

const Json& way_called(const Json& answer, const char* name) {
  for (const Json& one : answer["ways"])
    if (one["name"] == name) return one;
  FAIL("no way ", name, " in ", answer.dump());
  return answer;
}

}  // namespace

TEST_SUITE_BEGIN("fit");
TEST_CASE_FIXTURE(Session, "Llama 3 8B in 16 bits fits an RTX 4080 with 4096 tokens, not 8192") {
  // Weights without the table: 15 009 857 536 B = 13.98 GiB; a token takes 131 072 B; the scores
  // of a prompt's 512 tokens take 6 B for each head and token of the cache: 384 and 768 MiB.
  const std::string ask = "fit llama:size=3-8b,dtype=fp16 --gpus 1xrtx_4080 --context ";
  const Json small = json(ask + "4096"), large = json(ask + "8192");
  CHECK(small["fits"] == true);
  CHECK(large["fits"] == false);
  CHECK(small["answer"].get<std::string>().starts_with("fits: 1 of 1 GPUs, "));
  CHECK(large["answer"].get<std::string>().starts_with("does not fit: gpu0 lacks "));
  const Json& as_is = way_called(small, "as is");
  CHECK(as_is["memory"][0]["cache_bytes"] == 4096 * 131'072);
  CHECK(as_is["tokens_per_s"].get<double>() ==
        doctest::Approx(1e6 / as_is["step_time_us"].get<double>()));
  CHECK(as_is["spare_bytes"] == as_is["memory"][0]["spare_bytes"]);
  CHECK(holds(as_is["command"].get<std::string>(), "llama-server -m llama-3-8b-F16.gguf -c 4096"));
  // vLLM has the table on the GPU: 14.96 GiB with 0.50 of cache and 0.62 of reserve are too many;
  // and it takes 0.95 of the memory.
  CHECK(way_called(small, "vLLM")["fits"] == false);
  CHECK(way_called(small, "vLLM")["memory"][0]["reserve_bytes"].get<double>() ==
        doctest::Approx(640 * 1'048'576 + 0.05 * as_is["memory"][0]["limit_bytes"].get<double>()));
  CHECK(way_called(large, "as is")["spare_bytes"].get<std::int64_t>() < 0);
  CHECK(way_called(large, "weights q4_k_m")["fits"] == true);
}

// 16 059 990 016 B of matrices, of which each GPU has half, and norms of 532 480 B, which both
// have. vLLM reads the matrices but the table, 15 009 316 864 B, at 0.911 of 936.2 GB/s, and
// takes 0.9 ms of the host for each token. Two GPUs all-reduce the table's output and two of each
// layer: 65 times 8 KiB, 7.94 us each.
TEST_CASE_FIXTURE(Session, "vLLM on one GPU, and on two that share each layer") {
  const Json answer = json("fit llama:size=3-8b --gpus 2xrtx_3090 --context 4096");
  const Json &line = way_called(answer, "vLLM"), &shared = way_called(answer, "tensor 2");
  const double reading = 15'009'316'864 / (0.911 * 936'000);
  CHECK(line["memory"][0]["weights_bytes"] == 16'060'522'496);
  CHECK(line["command"] ==
        "CUDA_VISIBLE_DEVICES=0 vllm serve meta-llama/Meta-Llama-3-8B --max-model-len 4096 "
        "--gpu-memory-utilization 0.95");
  // A pass of 2048 tokens: the gated network's 3 x 14 336 numbers each, and 2 x 4096.
  CHECK(line["memory"][0]["buffers_bytes"] == 2048 * 2 * (3 * 14'336 + 2 * 4096));
  CHECK(line["step_time_us"].get<double>() > reading + 900);
  CHECK(line["step_time_us"].get<double>() < 1.2 * (reading + 900));
  for (const Json& gpu : shared["memory"]) {
    CHECK(gpu["weights_bytes"] == 16'059'990'016 / 2 + 532'480);
    CHECK(gpu["cache_bytes"] == 4096 * 131'072 / 2);
  }
  CHECK(shared["step_time_us"].get<double>() > reading / 2 + 900 + 65 * 7.94);
  CHECK(shared["step_time_us"].get<double>() < 1.25 * (reading / 2 + 900 + 65 * 7.94));
  CHECK(shared["command"] ==
        "vllm serve meta-llama/Meta-Llama-3-8B --max-model-len 4096 "
        "--gpu-memory-utilization 0.95 --tensor-parallel-size 2");
  CHECK(way_called(answer, "weights fp8 + tensor 2")["step_time_us"] < shared["step_time_us"]);
  // A file for vLLM is the command, and is read back.
  const Json& ways = answer["ways"];
  runs(
      fmt::format("fit llama:size=3-8b --gpus 2xrtx_3090 --context 4096 --export vllm -o out "
                  "--way {}",
                  &line - &ways[0] + 1));
  CHECK(read("out") == "VLLM_PP_LAYER_PARTITION=32 " + line["command"].get<std::string>() + "\n");
  runs("place llama:size=3-8b,pass=decode --placer expert:file=out --gpus 2xrtx_3090");
  refuses(fmt::format("fit llama:size=3-8b --gpus 2xrtx_3090 --context 4096 --export llamacpp -o "
                      "out --way {}",
                      &shared - &ways[0] + 1),
          "llamacpp cannot say that GPUs share layers");
  // Mixtral has 46 702 792 704 numbers. All GPUs have its 32 routers of 8 x 4096 and 65 norms.
  const Json experts = json("fit mixtral:8x7b --gpus 4xl40s");
  for (const Json& gpu : way_called(experts, "tensor 4")["memory"])
    CHECK(gpu["weights_bytes"] ==
          2 * (46'702'792'704 - 1'048'576 - 266'240) / 4 + 2 * (1'048'576 + 266'240));
  // Three do not divide 32 heads, and GPUs that differ do not share layers: two that are alike
  // do.
  for (const auto& [gpus, numbers] : {std::pair("3xrtx_3090", "0,1"),
                                      {"1xrtx_3090,1xrtx_4090", ""},
                                      {"1xrtx_4090,2xrtx_3090", "1,2"},
                                      {"1xrtx_3060,1xrtx_3090,1xrtx_3060,1xrtx_3090", "1,3"}}) {
    CAPTURE(gpus);
    const Json some = json(fmt::format("fit llama:size=3-8b --gpus {}", gpus));
    std::string command;
    for (const Json& way : some["ways"])
      if (way["name"] == "tensor 2") command = way["command"];
    CHECK(command.starts_with(fmt::format("CUDA_VISIBLE_DEVICES={} vllm", numbers)) ==
          (*numbers != 0));
  }
}

// The file that ggml-org publishes has 12.1 GB, with a table of 201 088 x 2880 in 8.5 bits, which
// stays on the host; vLLM runs OpenAI's own, of 13.8 GB.
TEST_CASE_FIXTURE(Session, "gpt-oss: 8 bits beside its experts for llama.cpp, 16 for vLLM") {
  const Json answer = json("fit openai/gpt-oss-20b --gpus 1xrtx_4090 --context 4096");
  const auto weights = [&](const char* way) {
    return way_called(answer, way)["memory"][0]["weights_bytes"].get<double>();
  };
  CHECK(weights("as is") == doctest::Approx(12.1e9 - 201'088.0 * 2880 * 34 / 32).epsilon(0.002));
  CHECK(weights("vLLM") == doctest::Approx(13.8e9).epsilon(0.005));
}

TEST_CASE_FIXTURE(Session, "no way needs two frameworks") {
  std::set<std::string> seen;
  for (const char* model : {"llama:size=3-8b", "llama:size=3-8b,weights=q4_k_m", "mixtral:8x7b"})
    for (const char* gpus :
         {"2xrtx_3060 --cpu-memory 100GB", "1xp40 --memory 6GB --cpu-memory 60GB",
          "2xrtx_3060 --memory 4GB --cpu-memory 5GB --disk '3.5 GB/s'"}) {
      const Json ways = json(fmt::format("fit {} --gpus {}", model, gpus))["ways"];
      for (const Json& way : ways) {
        if (way["fits"] == false) continue;
        const std::string name = way["name"], command = way["command"];
        INFO(name, " ", command);
        const std::string by = holds(command, "vllm serve")            ? "vLLM"
                               : holds(command, "--export accelerate") ? "accelerate"
                                                                       : "llama.cpp";
        const bool shared = holds(name, "tensor") || holds(name, "fp8");
        if (holds(name, "_k") || holds(name, "on the CPU") || holds(model, "q4_k"))
          CHECK(by == "llama.cpp");
        if (shared) CHECK(by == "vLLM");
        if (holds(name, "offload")) CHECK(by != "llama.cpp");
        if (by == "accelerate") CHECK(!holds(name, " + "));
        seen.insert(by + (shared ? " shared" : "") + (holds(name, "offload") ? " offload" : ""));
      }
    }
  for (const char* kind :
       {"llama.cpp", "vLLM", "vLLM offload", "vLLM shared", "accelerate offload"})
    CHECK(seen.contains(kind));
}

TEST_CASE_FIXTURE(Session, "a model is asked by the name that Hugging Face or Ollama gives it") {
  const std::string gpus = " --gpus 1xrtx_4080 --context 4096";
  const Json ways = json("fit llama:size=3-8b,weights=q4_k_m" + gpus)["ways"];
  for (const char* name : {"meta-llama/Meta-Llama-3-8B-Instruct", "llama3:8b"}) {
    const Json same = json(fmt::format("fit {}:weights=q4_k_m{}", name, gpus))["ways"];
    CHECK(same[0]["step_time_us"] == ways[0]["step_time_us"]);
    CHECK(same[0]["spare_bytes"] == ways[0]["spare_bytes"]);
  }
  refuses("fit mixtral --gpus 1xrtx_4080",
          "mixtral: neither a file, a generator nor a known model (did you mean mixtral-8x22b, "
          "mixtral-8x7b?)");
  CHECK(json("plan gpt2-xl --batch 8 --devices 2 --as v100")["status"] == "ok");
  // Commands name the model as Hugging Face or Ollama does, or where it is.
  const auto commands = [&](const std::string& model) {
    const Json answer = json("fit " + model + " --gpus 1xrtx_3060 --cpu-memory 64GB");
    std::string all;
    for (const Json& way : answer["ways"]) all += way["command"].get<std::string>() + "\n";
    return all;
  };
  CHECK(
      holds(commands("NousResearch/Meta-Llama-3-8B"), "vllm serve NousResearch/Meta-Llama-3-8B "));
  CHECK(holds(commands("llama-3-8b:weights=gptq"), "--quantization gptq"));
  CHECK(holds(commands("llama:size=3-8b"), "vllm serve meta-llama/Meta-Llama-3-8B "));
  CHECK(holds(commands("llama3:8b"),
              "ollama run llama3:8b  # /set parameter num_ctx 8192, num_gpu 33"));
  CHECK(holds(commands("llama3:8b-instruct-q8_0"), "ollama run llama3:8b-instruct-q8_0  # "));
  std::filesystem::create_directories(file("my models"));
  write("my models/config.json", config_of_llama_3);
  CHECK(holds(commands("'my models'"), "/my models' --max-model-len 8192"));
  CHECK_FALSE(holds(commands("Qwen/Qwen2.5-7B:"), "ollama run"));
  // A name may end in the format of the weights; in a repository of GGUF files vLLM has no model.
  CHECK(holds(commands("Qwen/Qwen2.5-7B-Instruct-AWQ"),
              "vllm serve Qwen/Qwen2.5-7B-Instruct-AWQ --max-model-len 8192 "
              "--gpu-memory-utilization 0.95 --quantization awq"));
  const std::string gguf = commands("bartowski/Qwen2.5-7B-Instruct-GGUF:Q8_0");
  CHECK(holds(gguf, "llama-server -m qwen2.5-7b-Q8_0.gguf"));
  CHECK_FALSE(holds(gguf, "vllm serve bartowski"));
  // Such a model writes text in other verbs, too, and is not trained.
  CHECK(run("place Qwen/Qwen2.5-0.5B-Instruct-AWQ --gpus 1xrtx_3060").code == 0);
  CHECK(run("place bert-base:weights=awq --gpus 1xrtx_3060").code == 2);
  refuses("fit Qwen/Qwen2.5-0.5B-Instruct-AWQ --train --gpus 1xrtx_3060",
          "--train: weights in awq are not trained");
  // The model gpt2, not the generator of this name, writes text.
  CHECK(holds(commands("gpt2"), "-c 1024"));
  // A release that is not known is said; a file that is not there, too.
  for (const auto& [name, said] : std::to_array<std::pair<const char*, std::size_t>>(
           {{"mistralai/Mistral-7B-v0.2", 0}, {"mistralai/Mistral-7B-v0.9", 1}}))
    CHECK(json(fmt::format("fit {}{}", name, gpus))["notes"].size() == said);
  for (const char* ask : {"fit model.gguf", "plan model.gguf --batch 2"})
    refuses(fmt::format("{} --gpus 1xh100", ask), "model.gguf: no such file");
  // A folder without a config.json, or a path that is not there, is not taken for a name.
  std::filesystem::create_directories(file("llama-2-7b"));
  for (const char* path : {"llama-2-7b", "of/my/llama-2-7b"})
    CHECK(run(fmt::format("place {} --gpus 1xh100", path)).code == 2);
}

TEST_CASE_FIXTURE(Session, "a config.json is the same model, also in files of frameworks") {
  write("config.json", config_of_llama_3);
  const std::string gpus = " --gpus 1xrtx_4090,1xrtx_3060 --memory 10G,12G --context 2048";
  const Json path = json("fit config.json" + gpus),
             spec = json("fit llama:size=3-8b,dtype=bf16" + gpus);
  REQUIRE(path["fits"] == true);
  CHECK(way_called(path, "as is")["memory"] == way_called(spec, "as is")["memory"]);
  const Json layers = way_called(path, "as is")["layers"];
  std::size_t number = 1;
  while (path["ways"][number - 1]["name"] != "as is") ++number;
  const auto exported = [&](const std::string& format) {
    runs("fit config.json" + gpus + " --export " + format + " -o out --way " +
         std::to_string(number));
    return read("out");
  };
  const Json map = Json::parse(exported("accelerate"));
  CHECK(map["model.embed_tokens"] == 1);  // 128256 x 4096 x 2 B: 62 MiB and 6 GiB are spare
  CHECK(map["model.layers.0"] == 0);
  CHECK(map["model.layers.31"] == 1);
  CHECK(map["lm_head"] == 1);
  const int first = layers[0], second = layers[1];
  CHECK(first + second == 32);
  CHECK(exported("llamacpp") == fmt::format("-ngl 33 -ts {},{}\n", first, second + 1));
  CHECK(exported("megatron") ==
        fmt::format("--pipeline-model-parallel-layout 'Et*{}|t*{}L'\n", first, second));
  refuses("fit config.json" + gpus + " --export deepspeed -o out", "weights wait in host memory");
  // Each is read back: as many layers of the decode step are on each GPU.
  for (const char* format : {"accelerate", "llamacpp", "vllm", "megatron"}) {
    exported(format);
    runs(
        "place config.json:pass=decode,context=2047 --placer expert:file=out -o p.json "
        "--gpus 1xrtx_4090,1xrtx_3060,1xcpu_ddr4_2ch");
    const Json placed = Json::parse(read("p.json"))["placement"];
    std::set<std::string> on[3];
    for (const auto& [op, device] : placed.items())
      if (op.starts_with("layer_"))
        on[device.get<std::size_t>()].insert(op.substr(0, op.find('/')));
    CAPTURE(format);
    CHECK(on[0].size() == static_cast<std::size_t>(first));
    CHECK(on[1].size() == static_cast<std::size_t>(second));
    CHECK(on[2].empty());
  }
  // Weights that wait: as many layers of accelerate's map on the CPU as the way says.
  const std::string one = " --gpus 1xrtx_3060 --cpu-memory 64GB --context 2048";
  const Json offloaded = json("fit config.json" + one)["ways"];
  number = 1;
  while (!offloaded[number - 1]["name"].get<std::string>().starts_with("offload ")) ++number;
  const auto waiting = std::stoul(offloaded[number - 1]["name"].get<std::string>().substr(8));
  const auto written = [&](const std::string& format) {
    runs("fit config.json" + one + " --export " + format + " -o out --way " +
         std::to_string(number));
    return Json::parse(read("out"));
  };
  std::size_t on_cpu = 0;
  const Json waiting_map = written("accelerate");
  for (const auto& [module, device] : waiting_map.items())
    on_cpu += module != "model.embed_tokens" && device == "cpu" ? 1U : 0U;
  CHECK(on_cpu == waiting);
  const Json deepspeed = written("deepspeed")["zero_optimization"];
  CHECK(deepspeed["stage"] == 3);
  CHECK(deepspeed["offload_param"]["device"] == "cpu");
}

// A layer of Llama 3 8B is 218 103 808 numbers in 16 bits and two norms of 4096 in 32. From 3 GB
// the table of words takes 1.05 GB, and two copies of a layer on its way from the disk 0.87 GB.
TEST_CASE_FIXTURE(Session, "weights for which the host has no memory wait on a disk") {
  const std::string ask =
      "fit llama:size=3-8b --gpus 1xrtx_3060 --context 2048 --cpu-memory 3GB --disk '3.5 GB/s'";
  const Json ways = json(ask)["ways"];
  const auto found = std::ranges::find_if(ways, [](const Json& way) {
    const std::string name = way["name"];
    return name.starts_with("offload ") && name.ends_with(" on disk") && way["fits"];
  });
  REQUIRE(found != ways.end());
  const std::string name = (*found)["name"], command = (*found)["command"];
  const auto waiting = std::stoul(name.substr(8)),
             on_disk = std::stoul(name.substr(name.find(", ") + 2));
  CHECK(waiting - on_disk == 2);
  const double reading = static_cast<double>(on_disk) * (436'207'616.0 + 2 * 4096 * 4) / 3500;
  CHECK((*found)["step_time_us"].get<double>() > reading);
  CHECK((*found)["step_time_us"].get<double>() < 1.5 * reading);
  runs(command.substr(7));
  std::size_t disks = 0;
  const Json map = Json::parse(read("device_map.json"));
  for (const auto& [module, device] : map.items()) disks += device == "disk" ? 1U : 0U;
  CHECK(disks == on_disk);
  const Json step = json(
      "simulate llama:size=3-8b,dtype=fp16,pass=decode,context=2047 --gpus 1xrtx_3060 "
      "--placement device_map.json --cpu-memory 3GB --disk '3.5 GB/s'");
  CHECK(step["step_time_us"].get<double>() > reading);
  CHECK(step["step_time_us"].get<double>() < 1.5 * reading);
  refuses("place llama --gpus 1xrtx_3060 --disk '3.5 GB/s'", "--disk needs --cpu-memory");
  refuses("fit llama --gpus 1xrtx_3060 --disk '3.5 GB/s'", "--disk needs --cpu-memory");
  refuses("fit llama --gpus 1xrtx_3060 --cpu-memory 3GB --disk fast",
          "--disk: 'fast' is not a rate");
  // What would have no effect is refused.
  refuses("fit llama --gpus 1xrtx_3060 --lora-rank 8", "--lora-rank needs --train");
  refuses("fit llama --gpus 1xrtx_3060 --train --cpu-memory 3GB --disk '3.5 GB/s'",
          "--disk: in training no weights wait on a disk");
}

// In 16 bits all layers but a few run on the CPU, from 16 GB of its memory; in 4 bits, too large
// for 4 GB by themselves, half of them, from 2.
TEST_CASE_FIXTURE(Session, "two changes are faster than one that fits") {
  const Json ways = json(
      "fit llama:size=3-8b,dtype=fp16 --gpus 1xrtx_3060 --memory 4GB --cpu-memory 64GB "
      "--context 2048")["ways"];
  CHECK(ways[0]["name"].get<std::string>().starts_with("weights q4_k_m + "));
  const auto one = std::ranges::find_if(ways, [](const Json& way) {
    const std::string name = way["name"];
    return name.ends_with("layers on the CPU") && name.find('+') == std::string::npos;
  });
  REQUIRE(one != ways.end());
  CHECK((*one)["fits"]);
  CHECK((*one)["step_time_us"].get<double>() > 2 * ways[0]["step_time_us"].get<double>());
}

// 32 experts of 3 x 256 x 512 numbers in 16 bits are 25.2 MB a layer; the rest of a layer and of
// the model is below 1 MB. Where 80 MB are free, experts of one of four layers must leave.
TEST_CASE_FIXTURE(Session, "experts of no more layers than necessary are on the CPU") {
  const Json ways = json(
      "fit moe:num_hidden_layers=4,hidden_size=256,num_attention_heads=4,num_key_value_heads=4,"
      "moe_intermediate_size=512,num_local_experts=32,num_experts_per_tok=2,vocab_size=256 "
      "--gpus 1xrtx_3090 --memory 87MB --reserve 0 --context 256 --cpu-memory 1GB")["ways"];
  const auto found = std::ranges::find_if(
      ways, [](const Json& way) { return way["name"] == "experts on the CPU of 1 layers"; });
  REQUIRE(found != ways.end());
  CHECK(holds((*found)["command"].get<std::string>(), "-ngl 5 --n-cpu-moe 1 -fa off"));
  // A prompt is computed by the GPU, with copies of these experts over PCIe.
  CHECK((*found)["first_token_us"].get<double>() < 20'000);
}

TEST_CASE_FIXTURE(Session, "a config.json of another family is read, with its modules' names") {
  write("config.json", R"({"model_type": "bloom", "n_layer": 2, "n_head": 4,
      "hidden_size": 64, "vocab_size": 256})");
  CHECK(json("fit config.json --gpus 1xrtx_3090")["fits"] == true);
  runs("fit config.json --gpus 1xrtx_3090 --export accelerate -o map");
  const Json map = Json::parse(read("map"));
  for (const char* module : {"transformer.h.0", "transformer.h.1", "transformer.ln_f",
                             "transformer.word_embeddings_layernorm", "lm_head"})
    CHECK(map[module] == 0);
  CHECK(json("plan config.json --gpus 2xa100 --batch 4").size() > 0);
  runs("trace generate config.json batch=2 -o graph.json");
  runs("place config.json --placer single --devices 1xa100");
  write("config.json", R"({"model_type": "t5", "num_layers": 2, "num_heads": 4,
      "d_model": 64, "d_kv": 16, "d_ff": 128, "vocab_size": 256})");
  CHECK(json("fit config.json --gpus 1xrtx_3090")["fits"] == true);
}

TEST_CASE_FIXTURE(Session, "the command of a way that is ours runs as it is printed") {
  const Json ways = json("fit gpt2:batch=1 --gpus 1xrtx_3060 --reserve '1 GiB'")["ways"];
  const std::string command = ways[0]["command"];
  CHECK(command ==
        "baechi fit gpt2:batch=1 --gpus 1xrtx_3060 --reserve '1 GiB' --export accelerate -o "
        "device_map.json --way 1");
  runs(command.substr(7));
  CHECK(Json::parse(read("device_map.json")).size() > 0);
}

TEST_CASE_FIXTURE(Session, "what cannot be asked is said") {
  write("config.json", R"({"model_type": "rwkv"})");
  refuses("fit config.json --gpus 1xh100",
          "config.json: no generator has model_type 'rwkv' (those of ");
  const auto wrong = run("fit llama --gpus 1xh10 --reserve much --link wire");
  CHECK(wrong.code == 2);
  for (const char* part : {"the nearest are h100", "--reserve: 'much'", "--link: 'wire'"})
    CHECK(holds(wrong.err, part));
  refuses("fit llama", "--gpus is missing");
}

TEST_CASE("the ways to train are plans of the planner") {
  const std::string ask =
      "fit llama:num_hidden_layers=4,hidden_size=512,num_attention_heads=8,num_key_value_heads=8,"
      "intermediate_size=1024,vocab_size=1024,length=256 --gpus 2xrtx_4090 --train --batch 4";
  const Json answer = Session().json(ask);
  CHECK(answer["fits"] == true);
  CHECK(answer["ways"][0]["fits"] == true);
  // --context is the length of samples.
  std::string typed = ask;
  typed.replace(typed.find(",length=256"), 11, "");
  CHECK(Session().json(typed + " --context 256")["ways"] == answer["ways"]);
  CHECK(Session().json(typed)["context"] == 2048);
  // PyTorch without a compiler trains, unless MODEL says which kernels do.
  const auto with = [&](const char* kernels) {
    std::string text = ask;
    return Session().json(text.insert(text.find(" --gpus"), kernels))["ways"];
  };
  CHECK(with(",kernels=eager") == answer["ways"]);
  CHECK(with(",kernels=fuse_modules")[0]["step_time_us"] < answer["ways"][0]["step_time_us"]);
  CHECK(holds(Session().run(ask + " --context 256").err, "--context: MODEL has a length"));
  CHECK(holds(Session().run("fit resnet50 --train --context 512 --gpus 1xh100").err, "length"));
  const Json none = Session().json(ask + " --memory 700M --cpu-memory 8GB");
  CHECK(none["fits"] == false);
  CHECK_FALSE(holds(none["answer"].get<std::string>(), "lacks -"));
  // GPUs of two kinds have the layers in a line; the host may have the optimizer.
  std::string two = ask;
  two.replace(two.find("2xrtx_4090"), 10, "1xrtx_4090,1xrtx_3060");
  const Json ways = Session().json(two + " --cpu-memory 4GB")["ways"];
  for (const char* name : {"layers in a line, recompute", "QLoRA 16, layers in a line, recompute",
                           "layers in a line, recompute, optimizer on the host"})
    CHECK(std::ranges::any_of(ways, [&](const Json& w) { return w["name"] == name && w["fits"]; }));
}
