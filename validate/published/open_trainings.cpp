// Training steps that MosaicML, PyTorch, InternLM and BigScience published.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "validate/published/published.h"
#include "validate/published/trainings.h"

namespace baechi::validate {
namespace {

// llm_foundry: MPT under FSDP, with micro-batches that were chosen by hand near the largest.

constexpr std::string_view foundry_columns =
    "section, model, seqlen_t=length, gpus=devices, gpu, microbatchsize=micro_batch, "
    "gradaccum=passes, throughput_t_s_gpu=tokens_per_s, precision=format, mp_mode=sums, "
    "sharding_strategy=sharding, activation_checkpointing=again";

struct Mpt {
  std::string_view name;
  std::int64_t layers, hidden, heads;
};
/// Source: llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml. Positions are learned, and
/// products have biases: the rows' `numparams` are those of these shapes to one.
constexpr std::array<Mpt, 9> mpts{{{"125m", 12, 768, 12},
                                   {"350m", 24, 1024, 16},
                                   {"760m", 24, 1536, 12},
                                   {"1b", 24, 2048, 16},
                                   {"3b", 32, 2560, 20},
                                   {"7b", 32, 4096, 32},
                                   {"13b", 40, 5120, 40},
                                   {"30b", 48, 7168, 56},
                                   {"70b", 80, 8192, 64}}};

/// What no column says: attn_impl is triton but for the later rows of 128 GPUs and more, which have
/// flash (FlashAttention-2, whose tokens are packed); metrics of training are on by default.
/// Source: llm-foundry, scripts/train/benchmarking/submit_benchmarks.py and sweep.py at the rows'
/// dates, models/mpt/modeling_mpt.py (use_train_metrics), models/layers/attention.py; Composer,
/// trainer/mosaic_fsdp_utils.py (mixed_precision), optim/decoupled_weight_decay.py.
void read_foundry(Words& words, PublishedRow& row) {
  const std::string name = take(words, "model"), gpu = take(words, "gpu");
  const auto model = std::ranges::find(mpts, name, &Mpt::name);
  if (model == mpts.end()) throw InputError(fmt::format("no model '{}'", name));
  words["generator"] = "gpt";
  words["layers"] = std::to_string(model->layers);
  words["hidden"] = std::to_string(model->hidden);
  words["heads"] = std::to_string(model->heads);
  words["vocabulary"] = "50368";
  words["dropout"] = "false";
  words["fused_attention"] = "true";
  words["eager"] = "true";
  words["metrics"] = "2";
  words["framework"] = "fsdp";
  words["nodes"] = gpu == "h100_80gb" ? "dgx_h100" : "a100_1600g_server";
  const bool large = take(words, "section").find("Large Scale") != std::string::npos;
  words["as"] = large                ? "h100_flash_2"
                : gpu == "h100_80gb" ? "h100_flash_triton"
                : gpu == "a100_80gb" ? "a100_flash_triton"
                                     : "a100_40gb_flash_triton";
  if (large) words["packed_tokens"] = "true";
  if (take(words, "sums") == "PURE") words["short_sums"] = "true";
  const std::string format = take(words, "format");
  words["precision"] = format == "amp_fp8" ? "fp8" : "bf16";
  words["zero"] = take(words, "sharding") == "FULL_SHARD" ? "3" : "2";
  words["recompute"] = take(words, "again") == "True" ? "full" : "off";
  row.group = gpu;
  row.alike = fmt::format("{} {}", gpu, format);
  row.race = fmt::format("{}, {} tokens, {} {}", name, words["length"], gpu, format);
  row.what = fmt::format("{}, {} tokens, {} {}, {} x {}", name, words["length"], words["devices"],
                         gpu, whole_of(words, "passes"), words["micro_batch"]);
}

std::int64_t batch_of(Words& words) {
  const std::int64_t passes = whole_of(words, "passes");
  take(words, "passes");
  return whole_of(words, "micro_batch") * whole_of(words, "devices") * passes;
}

/// A step of `batch` samples at so many tokens per second and GPU.
double seconds_of(Words& words, std::int64_t batch) {
  const double rate = take_number(words, "tokens_per_s");
  return static_cast<double>(batch * whole_of(words, "length")) /
         (rate * static_cast<double>(whole_of(words, "devices")));
}

/// What ran, or what is said not to fit: one sample more, or twice as many.
enum class MicroBatch : std::uint8_t { ran, one_more, twice };

TrainingFile foundry(MicroBatch asked) {
  return {.path = "measured/llm_foundry/training.csv",
          .columns = foundry_columns,
          .read =
              [asked](Words& words, PublishedRow& row) {
                constexpr std::array groups{"ran", "one more", "twice"};
                read_foundry(words, row);
                take(words, "tokens_per_s");
                const std::int64_t ran = whole_of(words, "micro_batch");
                words["micro_batch"] = std::to_string(asked == MicroBatch::ran        ? ran
                                                      : asked == MicroBatch::one_more ? ran + 1
                                                                                      : 2 * ran);
                words["batch"] = std::to_string(batch_of(words));
                row.group = groups.at(static_cast<std::size_t>(asked));
                if (asked != MicroBatch::ran) row.what += ", " + row.group;
                row.measured = 1.0;
                return true;
              },
          .score =
              [asked](const TrainedStep& step, PublishedRow& row) {
                row.simulated = step.fits == (asked == MicroBatch::ran) ? 1.0 : 0.0;
                if (asked != MicroBatch::ran) row.refused = false;  // nobody ran it
              }};
}

// torchtitan: Llama 3.1 under FSDP2.

constexpr std::string_view titan_columns =
    "system, model, gpus=devices, tp=tensor, pp=pipeline, cp=context, seq=length, "
    "local_batch=micro_batch, global_batch=batch, activation_checkpointing=again, compile, "
    "float8, async_tp, schedule=schedule_of_stages, tokens_per_s_per_gpu=tokens_per_s";

bool read_titan(Words& words, PublishedRow& row) {
  const std::string model = take(words, "model"), system = take(words, "system");
  const bool fp8 = !take(words, "float8").empty();
  row.what = fmt::format("{}, {} GPUs, {} tokens{}", model, words["devices"], words["length"],
                         fp8 ? ", fp8" : "");
  row.group = model;
  row.alike = fmt::format("{} {}", system, fp8);
  row.measured = seconds_of(words, whole_of(words, "batch"));
  set_model(words, model);
  words["nodes"] = system.starts_with("h200") ? "dgx_h200" : "dgx_h100";
  if (system.starts_with("h100_96gb")) words["as"] = "h100_96gb";
  words["precision"] = fp8 ? "fp8" : "bf16";
  words["framework"] = "fsdp2";
  // Source: torchtitan, parallelisms/parallelize_llama.py (SequenceParallel in every plan of tensor
  // parallelism; with stages reshard_after_forward is False), pipelining_utils.py (as many
  // micro-batches as stages; gradients are reduced in the last backward pass).
  const std::int64_t stages = whole_of(words, "pipeline", 1);
  words["zero"] = stages > 1 ? "1" : "3";
  if (stages > 1)
    words["micro_batch"] =
        std::to_string(std::max<std::int64_t>(1, whole_of(words, "micro_batch") / stages));
  if (whole_of(words, "tensor", 1) > 1) words["sequence"] = "true";
  if (take(words, "async_tp") == "1") words["overlap"] = "true";
  if (take(words, "compile") != "1") words["eager"] = "true";
  if (whole_of(words, "context", 1) > 1) words["balanced"] = "false";
  const std::string again = take(words, "again");
  words["recompute"] = again == "full"                                ? "full"
                       : again.find("selective") != std::string::npos ? "selective"
                                                                      : "off";
  if (const std::string schedule = take(words, "schedule_of_stages"); schedule.starts_with("Inter"))
    words["virtual"] = "2";
  return true;
}

// internevo: InternLM under ZeRO 1, whose gradients are sent beside the backward pass. Its norms
// read and write 32 bits, which ops of their own do here, and its attention is FlashAttention 1;
// what else is not fused: internlm_kernels of the generator.
// Source: InternEvo at the table's date, configs/7B_sft.py (overlap_sync_grad),
// model/modeling_internlm.py (norm1), doc/en/install.md.

constexpr std::string_view evo_columns =
    "table, model, tp=tensor, zero1=group, gpus=devices, seq=length, micro_batch, "
    "micro_batches=passes, recompute=again, pp=pipeline, fsdp=sharded, memory_gb=memory, "
    "tokens_per_s_per_gpu=tokens_per_s";

/// Memory as nvidia-smi prints it, in GiB: with the context of CUDA and what PyTorch keeps cached.
bool read_evo_memory(Words& words, PublishedRow& row) {
  if (take(words, "table") != "memory") return false;
  if (take(words, "sharded") != "True")
    throw InputError("its stages have unequal numbers of layers");
  const std::string model = take(words, "model");
  const std::int64_t replicas = whole_of(words, "devices") / whole_of(words, "tensor");
  row.what = fmt::format("{}, {} GPUs, t {}, FSDP", model, words["devices"], words["tensor"]);
  row.measured = take_number(words, "memory");
  words["batch"] =
      std::to_string(replicas * whole_of(words, "micro_batch") * whole_of(words, "passes"));
  for (const std::string_view word : {"passes", "group"}) take(words, word);
  set_model(words, model);
  words["nodes"] = "a100_400g_server";
  words["precision"] = "bf16";
  words["framework"] = "internevo";
  words["fuse_modules"] = "false";
  words["recompute"] = take(words, "again") == "true" ? "full" : "off";
  words["zero"] = "3";
  return true;
}

/// The baseline: 18 bytes for each parameter of a rank, whatever shares them.
void score_gibibytes(const TrainedStep& step, PublishedRow& row) {
  row.simulated = static_cast<double>(step.peak.count) / static_cast<double>(1LL << 30);
  row.work = step.weights_read;
}

bool read_evo(Words& words, PublishedRow& row) {
  if (take(words, "table") == "memory") return false;
  const std::string model = take(words, "model");
  const std::int64_t replicas = whole_of(words, "devices") / whole_of(words, "tensor");
  const std::int64_t batch = replicas * whole_of(words, "micro_batch") * whole_of(words, "passes");
  row.what = fmt::format("{} GPUs, t {}, ZeRO 1 over {}, {} x {}", words["devices"],
                         words["tensor"], words["group"], words["passes"], words["micro_batch"]);
  row.group = fmt::format("t {}", words["tensor"]);
  row.race = model;
  row.measured = seconds_of(words, batch);
  words["batch"] = std::to_string(batch);
  for (const std::string_view word : {"passes", "pipeline", "sharded", "memory"}) take(words, word);
  set_model(words, model);
  words["nodes"] = "a100_400g_server";
  words["as"] = "a100_flash_1";
  words["fuse_modules"] = "false";
  words["internlm_kernels"] = "true";
  words["precision"] = "bf16";
  const bool again = take(words, "again") == "true";
  words["recompute"] = again ? "full" : "off";
  if (!again) words["recompute_norm"] = "true";
  words["zero"] = "1";
  words["framework"] = "internevo";
  words["send"] = "beside";
  constexpr std::int64_t of_all = -1;
  if (const std::int64_t group = whole_of(words, "group", of_all, of_all);
      group > 0 && group < replicas)
    words["fsdp"] = std::to_string(group);
  take(words, "group");
  return true;
}

// bigscience: GPTs of 104 to 200 B under Megatron-DeepSpeed.

constexpr std::string_view science_columns =
    "gpus=devices, hidden, layers, heads, section, size, dp=data, tp=tensor, pp=pipeline, "
    "mbs=micro_batch, gbs=batch, s_per_iteration=seconds";

/// The page gives its hidden size and layers once for many tables. Rows say their number of
/// parameters, from which the layers follow, and their rate: in the first tables it is that of 80,
/// 77 and 72 layers of 14,400 features, and of no whole number of layers of any other size. The
/// tables of varied batches are headed by 72 layers of 14,336, but for the last of them. Source:
/// BigScience, train/tr11-176B-ml/chronicles-prequel.md.
void correct_shape(Words& words, std::string_view section) {
  constexpr double vocabulary = 250'880.0;
  std::string size = take(words, "size");
  if (section.starts_with("Choosing the fastest")) words["hidden"] = "14400";
  if (section == "GBS Variations" && size == "181B") words["hidden"] = "14336";
  if (!size.ends_with('B')) return;
  size.pop_back();
  words["billions"] = size;
  const double parameters = 1e9 * take_number(words, "billions");
  const auto hidden = static_cast<double>(whole_of(words, "hidden"));
  words["layers"] =
      std::to_string(std::llround((parameters - vocabulary * hidden) / (12.0 * hidden * hidden)));
}

/// The page says that the network became better on 25 February, so that rows of that day are not to
/// be compared with earlier ones, and that those of 28 February have another optimizer.
std::string_view days_of(std::string_view section) {
  if (section.starts_with("Rebalancing")) return "from 28 February";
  const bool later = section.starts_with("GBS") || section.starts_with("Another round") ||
                     section.starts_with("Re-do");
  return later ? "from 25 February" : "until 24 February";
}

bool read_science(Words& words, PublishedRow& row) {
  const std::string section = take(words, "section");
  correct_shape(words, section);
  row.measured = take_number(words, "seconds");
  row.what = fmt::format("h {}, {} layers, t {} d {} p {}, micro-batch {}, batch {}",
                         words["hidden"], words["layers"], words["tensor"], words["data"],
                         words["pipeline"], words["micro_batch"], words["batch"]);
  row.group = fmt::format("p {}", words["pipeline"]);
  row.race = fmt::format("h {}, {} layers, {} heads, {}", words["hidden"], words["layers"],
                         words["heads"], days_of(section));
  const std::int64_t replicas = whole_of(words, "data");
  words["devices"] =
      std::to_string(replicas * whole_of(words, "tensor") * whole_of(words, "pipeline"));
  take(words, "data");
  words["generator"] = "gpt";
  words["length"] = "2048";
  words["vocabulary"] = "250880";
  words["tied"] = "false";
  words["loss"] = "separate";
  words["kernels"] = "megatron";
  words["nodes"] = "jean_zay_a100";
  words["as"] = "a100_megatron";
  words["precision"] = "bf16";
  words["framework"] = "deepspeed";
  words["recompute"] = "full";
  words["zero"] = "1";
  return true;
}

}  // namespace

std::optional<Comparison> compare_llm_foundry(const std::string& folder) {
  TrainingFile steps{.path = "measured/llm_foundry/training.csv",
                     .columns = foundry_columns,
                     .read =
                         [](Words& words, PublishedRow& row) {
                           read_foundry(words, row);
                           const std::int64_t batch = batch_of(words);
                           words["batch"] = std::to_string(batch);
                           row.measured = seconds_of(words, batch);
                           return true;
                         },
                     .score = score_seconds};
  return compare_trainings(folder, steps);
}

/// Verdicts: 1 is the right one.
std::optional<Comparison> compare_llm_foundry_fits(const std::string& folder) {
  auto all = compare_trainings(folder, foundry(MicroBatch::ran));
  if (!all) return std::nullopt;
  for (const MicroBatch more : {MicroBatch::one_more, MicroBatch::twice})
    std::ranges::move(compare_trainings(folder, foundry(more))->rows,
                      std::back_inserter(all->rows));
  return all;
}

std::optional<Comparison> compare_torchtitan(const std::string& folder) {
  return compare_trainings(folder, {.path = "measured/torchtitan/training.csv",
                                    .columns = titan_columns,
                                    .read = read_titan,
                                    .score = score_seconds});
}

std::optional<Comparison> compare_internevo(const std::string& folder) {
  return compare_trainings(folder, {.path = "measured/internevo/training.csv",
                                    .columns = evo_columns,
                                    .read = read_evo,
                                    .score = score_seconds});
}

std::optional<Comparison> compare_internevo_memory(const std::string& folder) {
  return compare_trainings(folder, {.path = "measured/internevo/training.csv",
                                    .columns = evo_columns,
                                    .read = read_evo_memory,
                                    .score = score_gibibytes});
}

std::optional<Comparison> compare_bigscience(const std::string& folder) {
  return compare_trainings(folder, {.path = "measured/bigscience/a100_steps.csv",
                                    .columns = science_columns,
                                    .read = read_science,
                                    .score = score_seconds});
}

}  // namespace baechi::validate
