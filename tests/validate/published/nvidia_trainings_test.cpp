#include <doctest/doctest.h>

#include "tests/validate/published/measurements.h"
#include "validate/published/trainings.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::testing;

TEST_SUITE("nvidia trainings") {
  // A page's rows say no plan. Its configurations do, from one release to the next: the row's
  // release has none of its own, v25.04.01 is the first behind it. Nothing is said of FP8.
  TEST_CASE("a recipe of DGX Cloud has the plan of its page's next table of configurations") {
    const Measurements files("dgxc");
    files.write("training.csv",
                "page,title,system,gpus,precision,gbs,step_s,tokens_per_s,release\n"
                "llama,Llama 3.1 405b BF16,H100,32,BF16,,5.4,97090,v25.04\n"
                "llama,Llama 3.1 405b FP8,H100,32,FP8,,3.5,148524,v25.04\n");
    files.write("configurations.csv",
                "page,system,release,GPUs,SeqLen,Layers,TP,PP,CP,VP,MBS,GBS,Size,Precision,EP,ETP\n"
                "llama,,v25.03,32,8192,1,4,1,2,NA,1,64,405b,BF16,NA,\n"
                "llama,,v25.04.01,32,8192,1,8,1,2,NA,1,64,8b,BF16/FP8,NA,\n"
                "llama,H100,v25.05,32,8192,2,8,1,2,NA,1,64,405b-Proxy,BF16,NA,\n"
                "llama,,v25.04.01,32,8192,1,8,1,2,NA,1,64,405b-Proxy,BF16,NA,\n");
    const auto all = files.compared("dgxc");
    REQUIRE(all);
    REQUIRE(all->rows.size() == 1);
    REQUIRE(all->left.skipped.size() == 1);
    const TrainedStep step = trained(training_of({{"generator", "llama"},
                                                  {"size", "3-405b"},
                                                  {"layers", "1"},
                                                  {"length", "8192"},
                                                  {"tensor", "8"},
                                                  {"context", "2"},
                                                  {"micro_batch", "1"},
                                                  {"batch", "64"},
                                                  {"devices", "32"},
                                                  {"zero", "1"},
                                                  {"nodes", "dgx_h100"},
                                                  {"precision", "bf16"},
                                                  {"sequence", "true"},
                                                  {"overlap", "true"},
                                                  {"send", "beside"},
                                                  {"framework", "megatron"}}));
    CHECK(all->rows[0].simulated == step.seconds);
  }

  TEST_CASE("a training whose ranks share experts must say how many") {
    const Measurements files("nemo");
    const std::string columns =
        "task,model,system,gpus,precision,gbs,mbs,seq,tp,pp,cp,vp,step_s_computed,ep,fsdp";
    files.write("megatron_bridge.csv", columns + ",release\n");
    files.write("automodel.csv",
                columns + ",kernels\n" +
                    "pretrain,Qwen3 MoE 30B,DGX-H100,8,BF16,16,2,1024,1,1,1,-,10,-,8,DeepEP\n"
                    "pretrain,Qwen3 MoE 30B,DGX-H100,8,BF16,32,2,1024,1,1,1,-,10,8,8,DeepEP\n"
                    "pretrain,GPT-OSS 20B,DGX-H100,8,BF16,32,2,1024,1,1,1,-,10,-,8,DeepEP\n");
    const auto all = files.compared("nemo");
    REQUIRE(all);
    REQUIRE(all->left.skipped.size() == 1);
    CHECK(all->left.skipped[0].why.ends_with(
        "ranks share its experts, and the row does not say how many"));
    // Qwen3's gradients go with the last micro-batch alone. The recipe of gpt-oss has 8 ranks.
    REQUIRE(all->rows.size() == 2);
    Words words{{"generator", "moe"},  {"grouped_experts", "true"}, {"length", "1024"},
                {"micro_batch", "2"},  {"precision", "bf16"},       {"framework", "fsdp2"},
                {"recompute", "full"}, {"send", "beside"},          {"batch", "32"},
                {"devices", "8"},      {"nodes", "dgx_h100"},       {"expert", "8"},
                {"send_once", "8"},    {"masters", "none"}};
    Words qwen = words;
    qwen.insert({{"size", "qwen3-30b"}, {"zero", "1"}});
    CHECK(all->rows[0].simulated == trained(training_of(qwen)).seconds);
    words.insert({{"size", "gpt-oss-20b"}, {"zero", "3"}, {"rotary_apart", "true"}});
    CHECK(all->rows[1].simulated == trained(training_of(words)).seconds);
  }

  TEST_CASE("from release 26.06 on, recipes in MXFP8 send tokens to experts beside other work") {
    const Measurements files("nemo");
    const std::string plan = ",DGX-GB200,8,MXFP8,16,1,1024,1,1,1,1,9,8,0,";
    files.write("megatron_bridge.csv",
                "task,model,system,gpus,precision,gbs,mbs,seq,tp,pp,cp,vp,step_s_computed,ep,fsdp,"
                "release\npretrain,Qwen3_30B_a3B" +
                    plan + "26.04.01\npretrain,Qwen3_30B_a3B" + plan + "26.06\n");
    const auto all = files.compared("nemo");
    REQUIRE(all);
    REQUIRE(all->rows.size() == 2);
    CHECK(all->rows[1].simulated < 0.95 * all->rows[0].simulated);
  }

  // Two nodes share the experts: a token goes to each once. Its host launches kernels one by one.
  TEST_CASE("a recipe of experts runs what its files say, and no column") {
    const Measurements files("nemo");
    files.write("megatron_bridge.csv",
                "task,model,system,gpus,precision,gbs,mbs,seq,tp,pp,cp,vp,step_s_computed,ep,fsdp,"
                "release\npretrain,Qwen3_30B_a3B,DGX-H100,16,FP8,32,1,1024,1,1,1,n/a,9,16,0,26.04\n"
                "pretrain,DeepSeekV3 (w/o MTP),DGX-GB300,64,MXFP8,64,1,1024,1,1,1,1,9,64,,26.06\n"
                "pretrain,DeepSeekV3 (w/o MTP),DGX-GB300,64,MXFP8,64,1,1024,1,1,1,1,9,64,,26.04\n"
                "pretrain,LLAMA3_8B,DGX-H100,8,FP8-CS,128,1,8192,1,1,1,n/a,9,1,8,25.11\n");
    const auto all = files.compared("nemo");
    REQUIRE(all);
    REQUIRE(all->rows.size() == 4);
    Words words{{"generator", "moe"},        {"grouped_experts", "true"}, {"short_sums", "true"},
                {"send", "beside"},          {"length", "1024"},          {"micro_batch", "1"},
                {"precision", "fp8"},        {"framework", "megatron"},   {"zero", "1"},
                {"weighted_experts", "true"}};
    Words qwen = words;
    qwen.insert({{"size", "qwen3-30b"},
                 {"batch", "32"},
                 {"devices", "16"},
                 {"nodes", "dgx_h100"},
                 {"expert", "16"},
                 {"send_once", "2"},
                 {"host", "147"}});
    CHECK(all->rows[0].simulated == trained(training_of(qwen)).seconds);
    words.insert({{"size", "deepseek-v3"},
                  {"batch", "64"},
                  {"devices", "64"},
                  {"nodes", "gb300_rack"},
                  {"expert", "64"},
                  {"send_once", "64"},
                  {"overlap_experts", "true"},
                  {"short_attention", "true"}});
    CHECK(all->rows[1].simulated == trained(training_of(words)).seconds);
    // Before 26.06 nothing runs beside other micro-batches, attention is in 16 bits, and queries,
    // keys and values are made again. Five of 32 layers of Llama are.
    words.erase("overlap_experts");
    words.erase("short_attention");
    words["recompute_modules"] = "mla_up_proj";
    CHECK(all->rows[2].simulated == trained(training_of(words)).seconds);
    CHECK(all->rows[3].simulated == trained(training_of({{"generator", "llama"},
                                                         {"size", "3-8b"},
                                                         {"length", "8192"},
                                                         {"micro_batch", "1"},
                                                         {"batch", "128"},
                                                         {"devices", "8"},
                                                         {"nodes", "dgx_h100"},
                                                         {"precision", "fp8"},
                                                         {"framework", "megatron"},
                                                         {"short_sums", "true"},
                                                         {"zero", "3"},
                                                         {"send", "beside"},
                                                         {"recompute", "full"},
                                                         {"recompute_layers", "5"}}))
                                        .seconds);
  }

  // NeMo's launcher adds up in 16 bits until v25.02; NeMo 2 in FP8 alone. The optimizer of 340B
  // keeps remainders where weights have no copy in 8 bits.
  TEST_CASE("recipes of DGX Cloud say more than their plans") {
    const Measurements files("dgxc");
    files.write(
        "training.csv",
        "page,title,system,gpus,precision,gbs,step_s,tokens_per_s,release\n"
        "a,\"Nemotron4 340b BF16 (TP=8, PP=8, MBS=1, VP=12)\",H100,128,BF16,32,4,1,v25.01.1\n"
        "b,\"NeMo Megatron FP8 (TP=4, PP=8, MBS=1, VP=12)\",H100,32,FP8,8,4,1,v25.04\n"
        "c,\"Llama 3.1 8b BF16 (TP=1, PP=1, CP=2, MBS=1)\",H100,8,BF16,8,4,1,v25.04\n");
    files.write(
        "configurations.csv",
        "page,system,release,GPUs,SeqLen,Layers,TP,PP,CP,VP,MBS,GBS,Size,Precision,EP,ETP\n");
    const auto all = files.compared("dgxc");
    REQUIRE(all);
    REQUIRE(all->rows.size() == 3);
    const auto seconds = [](const char* model, std::initializer_list<Words::value_type> more) {
      Words words{
          {"framework", "megatron"}, {"zero", "1"}, {"micro_batch", "1"}, {"nodes", "dgx_h100"}};
      set_model(words, model);
      for (const auto& [word, value] : more) words[word] = value;
      return trained(training_of(words)).seconds;
    };
    CHECK(all->rows[0].simulated == seconds("nemotron4-340b", {{"length", "4096"},
                                                               {"precision", "bf16"},
                                                               {"batch", "32"},
                                                               {"devices", "128"},
                                                               {"tensor", "8"},
                                                               {"pipeline", "8"},
                                                               {"virtual", "12"},
                                                               {"sequence", "true"},
                                                               {"overlap", "true"},
                                                               {"short_sums", "true"},
                                                               {"recompute", "selective"},
                                                               {"masters", "remainders"}}));
    CHECK_FALSE(all->rows[0].refused);
    CHECK(all->rows[1].simulated == seconds("gpt3-175b", {{"length", "2048"},
                                                          {"precision", "fp8"},
                                                          {"batch", "8"},
                                                          {"devices", "32"},
                                                          {"tensor", "4"},
                                                          {"pipeline", "8"},
                                                          {"virtual", "12"},
                                                          {"sequence", "true"},
                                                          {"overlap", "true"},
                                                          {"short_sums", "true"},
                                                          {"dropout", "true"},
                                                          {"loss", "separate"}}));
    CHECK(all->rows[2].simulated == seconds("llama3-8b", {{"length", "8192"},
                                                          {"precision", "bf16"},
                                                          {"batch", "8"},
                                                          {"devices", "8"},
                                                          {"context", "2"},
                                                          {"send", "beside"}}));
  }

  // In 16 bits on GB200 its host launches kernels, and activations run once more. From 26.04 on
  // tokens go to each rank once, beside other micro-batches.
  TEST_CASE("gpt-oss runs what its recipe says, and no column") {
    const Measurements files("nemo");
    const std::string plan = ",DGX-GB200,64,BF16,256,4,1024,1,1,1,n/a,5,64,0,";
    files.write("megatron_bridge.csv",
                "task,model,system,gpus,precision,gbs,mbs,seq,tp,pp,cp,vp,step_s_computed,ep,fsdp,"
                "release\npretrain,GPT OSS 120B" +
                    plan + "26.02\npretrain,GPT OSS 120B" + plan + "26.04\n");
    const auto all = files.compared("nemo");
    REQUIRE(all);
    REQUIRE(all->rows.size() == 2);
    Words words{{"generator", "moe"},
                {"size", "gpt-oss-120b"},
                {"length", "1024"},
                {"micro_batch", "4"},
                {"precision", "bf16"},
                {"framework", "megatron"},
                {"zero", "1"},
                {"grouped_experts", "true"},
                {"short_sums", "true"},
                {"send", "beside"},
                {"batch", "256"},
                {"devices", "64"},
                {"nodes", "gb200_rack"},
                {"expert", "64"},
                {"host", "147"},
                {"rotary_apart", "true"},
                {"bias_apart", "true"},
                {"clamp_apart", "true"},
                {"weighted_experts", "true"},
                {"recompute_modules", "moe_act, layernorm"}};
    CHECK(all->rows[0].simulated == trained(training_of(words)).seconds);
    words.insert({{"send_once", "64"}, {"overlap_experts", "true"}});
    CHECK(all->rows[1].simulated == trained(training_of(words)).seconds);
  }

  // NeMo's samples are documents of 256 tokens, and its LoRA trains beside queries, keys and
  // values. Automodel computes every layer again.
  TEST_CASE("fine-tuning as the recipes have it") {
    const Measurements files("nemo");
    const std::string columns =
        "task,model,system,gpus,precision,gbs,mbs,seq,tp,pp,cp,vp,step_s_computed";
    files.write("megatron_bridge.csv", columns + ",ep,fsdp,release\n");
    files.write("automodel.csv", columns +
                                     ",ep,fsdp,kernels\n"
                                     "lora,LLAMA2-7B,DGX-H100,8,BF16,16,1,1024,1,1,1,1,9,-,8,TE\n");
    files.write("nemo_24.07.csv", columns +
                                      "\nlora,LLAMA2-7B,DGX-H100,8,FP8,16,1,1024,1,1,1,,9\n"
                                      "sft,LLAMA2-7B,DGX-H100,8,FP8,16,1,1024,1,1,1,,9\n");
    const auto all = files.compared("nemo");
    REQUIRE(all);
    REQUIRE(all->rows.size() == 3);
    const Words words{{"generator", "llama"}, {"size", "7b"},  {"length", "1024"},
                      {"micro_batch", "1"},   {"batch", "16"}, {"devices", "8"},
                      {"nodes", "dgx_h100"}};
    const auto seconds = [&](std::initializer_list<Words::value_type> more) {
      Words all_words = words;
      all_words.insert(more);
      return trained(training_of(all_words)).seconds;
    };
    CHECK(all->rows[0].simulated == seconds({{"precision", "bf16"},
                                             {"framework", "fsdp2"},
                                             {"zero", "3"},
                                             {"adapters", "16"},
                                             {"send", "beside"},
                                             {"masters", "none"},
                                             {"recompute", "full"}}));
    CHECK(all->rows[1].simulated == seconds({{"precision", "fp8"},
                                             {"framework", "megatron"},
                                             {"zero", "1"},
                                             {"adapters", "32"},
                                             {"adapters_beside", "attention_qkv"},
                                             {"loss", "separate"},
                                             {"document", "256"}}));
    CHECK(
        all->rows[2].simulated ==
        seconds(
            {{"precision", "fp8"}, {"framework", "megatron"}, {"zero", "1"}, {"document", "256"}}));
  }

  TEST_CASE("models and machines of recipes that are not in the first half of the tables") {
    for (const auto& [model, parts] : {std::pair{"kimi_k2", std::pair{"generator", "moe"}},
                                       {"nemotronh_56b", {"generator", "hybrid"}},
                                       {"llama3_70b", {"size", "3-70b"}}}) {
      Words words;
      set_model(words, model);
      CHECK(words[parts.first] == parts.second);
      words.insert({{"length", "1024"},
                    {"batch", "8"},
                    {"devices", "8"},
                    {"nodes", "dgx_b300"},
                    {"micro_batch", "1"},
                    {"precision", "bf16"}});
      CHECK(trained(training_of(words)).seconds > 0.0);
    }
  }
}
