#include "scenarios/planning/machines.h"
#include "scenarios/read/choice_text.h"
#include "tests/prelude.h"
#include "tests/scenarios/sweeps.h"
#include "traces/format/compressed_file.h"

namespace {

constexpr const char* model =
    "gpt:num_hidden_layers=4,hidden_size=512,num_attention_heads=8,length=256,vocab_size=8192,tie_"
    "word_embeddings=false";
constexpr std::int64_t batch = 64;

TrainingJob job(std::string_view of = model) {
  const Choice choice = parse_choice(of, "MODEL");
  return {.generator = choice.name, .options = choice.options, .batch = batch};
}

PlanNodes two_nodes() {
  const DeviceModel& gpu = *built_in_devices().devices.at("a100_megatron");
  return {.kind = "dgx_a100", .count = 2, .devices = 8, .gpu = &gpu, .memory = gpu.memory};
}

Cluster sixteen() { return make_cluster(cluster_of_nodes("dgx_a100", 16)); }

/// The cluster of the scenario.
Cluster cluster_in(const std::string& text, const TemporaryFolder& folder) {
  return make_cluster(scenario_of(text, {}, folder.file("plan.yaml")).clusters.at(0));
}

/// The one row that the text gives.
RunResult row_of(const std::string& text, const TemporaryFolder& folder) {
  const Results results = run_all(sweep_of(text, {}, folder.file("plan.yaml")));
  REQUIRE(results.rows.size() == 1);
  CAPTURE(results.rows[0].detail);
  REQUIRE(results.rows[0].status == Status::ok);
  return results.rows[0];
}

/// A plan and its scenario take the same time and memory.
void check_same(std::string_view of, const TrainingJob& job, const ParallelPlan& plan,
                const TemporaryFolder& folder) {
  CAPTURE(fmt::format("{}: t {} d {} p {} b {} zero {} send {}", of, plan.tensor, plan.data,
                      plan.pipeline, plan.micro_batch, plan.zero, to_text(plan.send)));
  write_file(folder.file("placement.json"), placement_of_stages(job, plan, sixteen()));
  const std::string text = plan_scenario(of, job, plan, two_nodes(), "placement.json");
  CAPTURE(text);
  const pipeline::PipelineResult planned =
      ParallelStep(rank_graph(job, plan), job, plan,
                   std::make_shared<const Cluster>(cluster_in(text, folder)))
          .simulated(*two_nodes().gpu, true);
  const RunResult run = row_of(text, folder);
  CHECK(run.value == planned.per_micro_batch);
  Bytes peak{};
  for (const pipeline::StageUse& stage : planned.stages) peak = std::max(peak, stage.peak);
  CHECK(run.peak == peak);
}

}  // namespace

TEST_SUITE_BEGIN("plan scenario");
TEST_CASE("a plan and its scenario take the same time and memory") {
  const std::vector<ParallelPlan> plans{
      {.data = 16, .micro_batch = 4, .recompute = Recomputing::off},
      {.data = 16, .micro_batch = 1, .recompute = Recomputing::full, .send = Sending::beside},
      {.data = 16, .micro_batch = 2, .recompute = Recomputing::off, .zero = 1},
      {.data = 16,
       .micro_batch = 4,
       .recompute = Recomputing::off,
       .zero = 1,
       .send = Sending::beside},
      {.data = 16, .micro_batch = 2, .recompute = Recomputing::off, .zero = 2},
      {.data = 16, .micro_batch = 1, .recompute = Recomputing::full, .zero = 3},
      {.data = 4, .pipeline = 4, .micro_batch = 2, .recompute = Recomputing::full},
      {.data = 8, .pipeline = 2, .micro_batch = 1, .recompute = Recomputing::off, .zero = 3},
      {.data = 4,
       .pipeline = 4,
       .micro_batch = 2,
       .recompute = Recomputing::off,
       .schedule = "gpipe"},
      {.tensor = 4,
       .data = 2,
       .pipeline = 2,
       .micro_batch = 2,
       .recompute = Recomputing::full,
       .zero = 2},
      {.data = 8, .pipeline = 2, .chunks = 2, .micro_batch = 1, .recompute = Recomputing::off},
      {.tensor = 4, .data = 4, .micro_batch = 2, .sequence = true},
      {.tensor = 4, .data = 4, .micro_batch = 2, .sequence = true, .overlap = true},
      {.tensor = 2, .context = 2, .data = 4, .micro_batch = 2, .zero = 1},
      {.data = 16, .micro_batch = 1, .recompute = Recomputing::off, .zero = 3, .group = 8},
      {.tensor = 2,
       .data = 4,
       .pipeline = 2,
       .micro_batch = 1,
       .recompute = Recomputing::selective},
      {.tensor = 2, .data = 2, .pipeline = 4, .micro_batch = 4, .precision = "fp32", .zero = 1},
  };
  const TemporaryFolder folder;
  TrainingJob tied = job();
  tied.options.set("tie_word_embeddings", {"true", {}, {}});
  CHECK(plan_scenario("gpt:tie_word_embeddings=true,num_hidden_layers=4", tied, plans[6],
                      two_nodes(), "placement.json")
            .find("generate: gpt, num_hidden_layers: 4, tie_word_embeddings: false, batch: 2") !=
        std::string::npos);
  for (const ParallelPlan& plan : plans) check_same(model, job(), plan, folder);
}

TEST_CASE("so do those that say what recipes of frameworks say") {
  const TemporaryFolder folder;
  const ParallelPlan again{
      .data = 16, .micro_batch = 1, .recompute = Recomputing::full, .recompute_layers = 3};
  const ParallelPlan stages{.data = 8,
                            .pipeline = 2,
                            .micro_batch = 1,
                            .recompute = Recomputing::off,
                            .offload_layers = 1,
                            .precision = "bf16",
                            .count_ends = true};
  const ParallelPlan plain{.data = 16, .micro_batch = 1, .recompute = Recomputing::off};
  check_same(model, job(), again, folder);
  check_same(model, job(), stages, folder);
  TrainingJob remainders = job();
  remainders.framework.master_weights = MasterWeights::remainders;
  check_same(model, remainders, stages, folder);
  const std::string llama =
      "llama:num_hidden_layers=4,hidden_size=512,num_attention_heads=8,num_key_value_heads=8,"
      "intermediate_size=1024,length=256,vocab_size=8192";
  TrainingJob modules = job(llama);
  modules.framework.recompute_modules = {"mlp", "layernorm"};
  modules.framework.master_weights = MasterWeights::none;
  ParallelPlan short_weights = plain;
  short_weights.precision = "bf16";
  check_same(llama, modules, short_weights, folder);
  const std::string experts = llama + ",num_local_experts=4,num_experts_per_tok=2";
  std::string of_moe = "moe" + experts.substr(experts.find(':'));
  of_moe.replace(of_moe.find(",intermediate"), 1, ",moe_");
  TrainingJob moe = job(of_moe);
  moe.framework.recompute_modules = {"moe"};
  check_same(of_moe, moe, plain, folder);
  // The kind has no rate in 8 bits: only what is written.
  modules.framework.fp8_attention = true;
  modules.framework.gemms_in_16_bits = {"Attention"};
  short_weights.precision = "fp8";
  const std::string text = plan_scenario(llama, modules, short_weights, two_nodes(), "");
  CHECK(holds(text, "batch: 1, recompute: mlp+layernorm}"));
  CHECK(holds(text, "{to: fp8, master_weights: false, attention: fp8, whole: [Attention]}"));
  CHECK(holds(plan_scenario(model, job(), again, two_nodes(), ""), "  - {recompute: {names: ["));
}

TEST_SUITE_BEGIN("frameworks");
TEST_CASE("workspaces depend on the GPU's compute capability") {
  const auto held = [](const char* framework, const char* kind) {
    return workspace_of(read_framework(framework), *device_kind(kind, ""));
  };
  CHECK(held("none", "h100") == 0_B);
  CHECK(held("fsdp", "a100") == Bytes{2 * 8'519'680});
  CHECK(held("megatron", "a100") == Bytes{2 * 8'519'680} + 4_MiB);
  CHECK(held("megatron", "h200") == 96_MiB);
  CHECK(held("megatron", "rtx_pro_6000") == 96_MiB);
  CHECK(held("deepspeed", "v100_pytorch") == Bytes{2 * 8'519'680});
}

TEST_CASE("gradients are reduced in 32 bits, unless weights or the framework say otherwise") {
  CHECK(reduces_in_fp32(read_framework("megatron"), "bf16"));
  CHECK_FALSE(reduces_in_fp32(read_framework("megatron"), "fp16"));
  CHECK(reduces_in_fp32(read_framework("fsdp2"), "bf16"));
  CHECK_FALSE(reduces_in_fp32(read_framework("fsdp:grad_reduce_dtype=weights"), "bf16"));
  CHECK_FALSE(reduces_in_fp32(read_framework("none"), "bf16"));
  CHECK_FALSE(reduces_in_fp32(read_framework("internevo"), "bf16"));
}

TEST_CASE("DeepSpeed's stages wait for what they send, and InternEvo broadcasts new weights") {
  CHECK_FALSE(read_framework("megatron").blocking_p2p);
  CHECK(read_framework("deepspeed").blocking_p2p);
  // 20 of 132 processors are NCCL's.
  CHECK(read_framework("fsdp").overlapped_compute_slowdown * 112.0 == doctest::Approx(132.0));
  CHECK(read_framework("megatron").overlapped_compute_slowdown == 1.0);
  DataParallelOptions options{.mode = Synchronisation::zero1};
  add_moves(read_framework("deepspeed"), "bf16", options);
  CHECK_FALSE(options.broadcasts);
  add_moves(read_framework("internevo"), "bf16", options);
  CHECK(options.broadcasts);
}

// A gradient of 2 bytes: joined 2 + 2, cast 2 + 4, divided 4 + 4, of 4 that are sent: 18 / 4. In
// 16 bits it is not cast: 8 / 2; nor in 32: 16 / 4. fully_shard joins and casts at once: 6 / 4.
TEST_CASE("FSDP moves gradients before it sends them, fully_shard also what it gathers") {
  const auto moved = [](const char* framework, const char* precision, Synchronisation mode) {
    DataParallelOptions options{.mode = mode};
    add_moves(read_framework(framework), precision, options);
    return std::pair(options.before_sum, options.after_gather);
  };
  using S = Synchronisation;
  CHECK(moved("fsdp", "bf16", S::zero3) == std::pair(4.5, 0.0));
  CHECK(moved("fsdp:grad_reduce_dtype=weights", "bf16", S::zero2) == std::pair(4.0, 0.0));
  CHECK(moved("fsdp", "fp32", S::zero3) == std::pair(4.0, 0.0));
  CHECK(moved("fsdp2", "bf16", S::zero3) == std::pair(1.5, 2.0));
  CHECK(moved("fsdp2", "bf16", S::zero2) == std::pair(1.5, 0.0));
  CHECK(moved("fsdp", "bf16", S::zero1) == std::pair(0.0, 0.0));
  CHECK(moved("megatron", "bf16", S::zero3) == std::pair(0.0, 0.0));
}

TEST_CASE("kernels are words or a mapping, also where a file begins from another") {
  const auto kernels = [](const Options::Value& section) {
    std::map<std::string, std::string> said;
    for (const auto& [name, value] : read_framework(section).kernels.children)
      said[name] = value.text;
    return said;
  };
  const auto text = [](const char* word) { return Options::Value{word, ""}; };
  const std::map<std::string, std::string> both{{"eager", "true"}, {"metrics", "2"}};
  CHECK(kernels({"", "", {{"kernels", text("eager+metrics=2")}}}) == both);
  const TemporaryFolder folder;
  folder.write("base.yaml", "kernels: eager\n");
  CHECK(kernels({"",
                 "",
                 {{"like", text(folder.file("base.yaml").c_str())},
                  {"kernels", text("metrics=2")}}}) == both);
}

TEST_CASE("a device whose kernels are a framework's sends as that does, unless told otherwise") {
  using Pair = std::array<Sending, 2>;
  const auto sent = [](const char* framework, const char* kind) {
    return usual_sending(read_framework(framework), *device_kind(kind, ""));
  };
  CHECK(sent("none", "a100") == Pair{Sending::beside, Sending::after});
  CHECK(sent("none", "a100_megatron") == Pair{Sending::after, Sending::after});
  CHECK(sent("none:overlap_grad_reduce=true", "a100_megatron") ==
        Pair{Sending::beside, Sending::beside});
}

TEST_SUITE_BEGIN("step formulas");
TEST_CASE("a flushed pipeline fills once, then waits for its longest stage") {
  // One micro-batch through both stages: 2 + 3 s. Each of three more: the 3 s of the longest.
  // Then the longer end, 1 s.
  constexpr std::array stages{StageSeconds{.passes = 2.0, .last = 1.0},
                              StageSeconds{.passes = 3.0, .last = 0.5}};
  CHECK(flushed_step(stages, 4) == doctest::Approx(15.0));
}
