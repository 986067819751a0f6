#include "scenarios/query/query.h"

#include "tests/temporary_folder.h"

using Json = nlohmann::json;

namespace {

std::vector<Json> answered(const std::vector<std::string>& questions) {
  std::vector<Json> answers;
  baechi::query::answer_all(
      questions, [&](const std::string& answer) { answers.push_back(Json::parse(answer)); });
  return answers;
}

Json query_answer(const Json& question) { return answered({question.dump()}).front(); }

/// A GPT of 12 blocks of 512 features on one node, as Megatron-LM's tests have it.
Json query_gpt() {
  return {{"ask", "training"},
          {"generator", "gpt"},
          {"options",
           {{"num_hidden_layers", 12},
            {"hidden_size", 512},
            {"num_attention_heads", 8},
            {"length", 1024},
            {"vocab_size", 50304},
            {"kernels", "unfused_loss"},
            {"fused_attention", false}}},
          {"micro_batch", 4},
          {"batch", 32},
          {"devices", 8},
          {"nodes", "dgx_h100"},
          {"precision", "bf16"},
          {"framework", "megatron"},
          {"zero", 1}};
}

}  // namespace

TEST_SUITE_BEGIN("query");
// 2e9 flops at 1 TFLOP/s are 2 ms, 1 MB at 1 GB/s 1 ms; the longer of both, and the launch.
TEST_CASE("a kernel takes its launch and the longer of arithmetic and traffic") {
  const Json device{{"base", "rtx_2080"},
                    {"peak", "1 TFLOP/s"},
                    {"bandwidth", "1 GB/s"},
                    {"bandwidth_efficiency", 1},
                    {"efficiency", {{"default", 1}}},
                    {"launch", "5 us"},
                    {"half", {{"traffic", "0 B"}}},
                    {"passes", {{"none", 1}}}};
  const Json times = query_answer(
      {{"ask", "kernels"},
       {"device", device},
       {"kernels",
        {{"MatMul", 2'000'000'000, 1'000'000, "fp32"}, {"Add", 1000, 4'000'000, "fp32"}}}});
  CAPTURE(times.dump());
  CHECK(times["times_us"] == Json{2005.0, 4005.0});
}

// A ring of 4: 2 x 3 steps of a quarter of 1 MB at 1 GB/s, 250 us each.
TEST_CASE("a collective is among the first devices of the cluster") {
  const Json cluster{
      {"nodes",
       {{"devices", {{"count", 8}, {"memory", "1 GB"}}}, {"link", {{"bandwidth", "1 GB/s"}}}}}};
  const Json times = query_answer({{"ask", "collectives"},
                                   {"cluster", cluster},
                                   {"collectives", {{"all_reduce", 1'000'000, 4}}}});
  CHECK(times["times_us"] == Json{1500.0});
}

TEST_CASE("what a question of a training leaves out is as its framework's file has it") {
  Json keys = query_gpt(), file = query_gpt();
  keys["recompute"] = file["recompute"] = "full";
  keys["recompute_layers"] = 3;
  keys["host_op"] = "50 us";
  keys["send"] = "beside";
  file["framework"] = {{"like", "megatron"},
                       {"recompute_layers", 3},
                       {"kernel_launch", "50 us"},
                       {"overlap_grad_reduce", true}};
  const Json answer = query_answer(keys);
  REQUIRE_MESSAGE(answer.contains("step_time_us"), answer.dump());
  CHECK(query_answer(file) == answer);
  CHECK(query_answer(query_gpt())["step_time_us"] != answer["step_time_us"]);
}

// h = 512, s = 1024, b = 4, a = 8, 12 layers, v = 50304 words. Parameters: 12 (12 h^2 + 13 h) +
// (v + s) h + 2 h = 64,109,568; of each 2 bytes of weight, 4 of gradient and, over 8 replicas, 12
// of weight, mean and variance. A layer keeps 34 s b h + 5 a s^2 b bytes. At the loss the logits
// are there in 16 and in 32 bits: 6 s b v. The last normalisation keeps its input and output, 4 s
// b h, the first dropout its mask, s b h. Two handles of cuBLAS and Transformer Engine: 96 MiB.
// Left out: statistics of normalisations, 0.1 %.
TEST_CASE("a GPT under Megatron-LM takes the bytes that its parts add up to") {
  constexpr std::int64_t sbh = 1024 * 4 * 512, parameters = 64'109'568;
  constexpr std::int64_t by_hand = parameters * 6 + parameters * 12 / 8 +
                                   12 * (34 * sbh + 5 * 8 * 1024 * 1024 * 4) +
                                   6 * 1024 * 4 * 50'304 + 5 * sbh + 96 * 1024 * 1024;
  const Json step = query_answer(query_gpt());
  CHECK(step["peak_bytes"].get<double>() == doctest::Approx(double(by_hand)).epsilon(0.001));
  CHECK(step["peak_bytes"] == step["last_peak_bytes"]);
  CHECK(step["fits"] == true);
  // Megatron-LM's own test of it says 4,702,430,720 bytes, with 4 MiB of causal masks.
  CHECK(step["peak_bytes"].get<double>() + 4 * 1024 * 1024 ==
        doctest::Approx(4'702'430'720.0).epsilon(0.002));
}

// A step of 12 layers, of which the host launches every kernel: 1 ms each is longer than all of
// the device's work.
TEST_CASE("a host that launches slowly is what a step waits for") {
  Json one = query_gpt(), two = one;
  one["host_op"] = "1 ms";
  two["host_op"] = "2 ms";
  CHECK(query_answer(two)["step_time_us"].get<double>() >
        1.9 * query_answer(one)["step_time_us"].get<double>());
}

// One expert layer of two layers: the forward work of all but the first layer is done twice.
TEST_CASE("layers of experts are recomputed where the question says so, and count once") {
  Json plain = query_gpt();
  plain["generator"] = "hybrid";
  plain["options"] = {
      {"hybrid_override_pattern", "*E"}, {"length", 1024}, {"num_local_experts", 8}};
  plain["expert"] = plain["batch"] = 8;
  plain["micro_batch"] = 1;
  plain["zero"] = 0;
  Json again = plain;
  again["framework"] = {{"like", "megatron"}, {"recompute_modules", {"moe"}}};
  const Json once = query_answer(plain), twice = query_answer(again);
  CHECK(twice["step_time_us"] > once["step_time_us"]);
  CHECK(twice["flops"] == once["flops"]);
  CHECK(twice["peak_bytes"] < once["peak_bytes"]);
}

TEST_CASE("a mistake costs its own answer, and answers are in the order of the questions") {
  const std::string wrong = R"({"ask": "collective"})";
  const std::string deep =
      R"({"ask": "step", "model": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  const auto answers = answered({wrong, query_gpt().dump(), "{", wrong, deep});
  REQUIRE(answers.size() == 5);
  CHECK(answers[4]["error"] == "nested too deeply");
  CHECK(answers[0]["error"].get<std::string>().find("did you mean 'collectives'?") !=
        std::string::npos);
  CHECK(answers[1].contains("step_time_us"));
  CHECK(answers[2]["error"].get<std::string>().find("parse error") != std::string::npos);
  CHECK(answers[3] == answers[0]);
  Json unknown = query_gpt();
  unknown["micro_batches"] = 2;
  CHECK(query_answer(unknown)["error"].get<std::string>().find("no option 'micro_batches'") !=
        std::string::npos);
}

TEST_CASE("ops of a step can be scaled to a sum, and images copied to the end") {
  Json step{{"ask", "step"},    {"generator", "resnet50"},          {"options", {{"batch", 1}}},
            {"device", "v100"}, {"engine", {{"queue", "program"}}}, {"sum", "1 s"}};
  CHECK(query_answer(step)["step_time_us"].get<double>() == doctest::Approx(1e6).epsilon(1e-4));
  step.erase("sum");
  step["transforms"] = {{{"precision", {{"to", "amp"}}}}};
  const double last = query_answer(step)["device_times_us"];
  step["channels_first"] = true;
  CHECK(query_answer(step)["device_times_us"].get<double>() > last);
}

TEST_CASE("the text of a file, packed or not") {
  const baechi::testing::TemporaryFolder folder;
  folder.write("a.csv", "a,b\n1,2\n");
  CHECK(query_answer({{"ask", "text"}, {"file", folder.file("a.csv")}})["text"] == "a,b\n1,2\n");
}
