// Peaks of memory in Megatron-LM's functional tests, of the last rank of the pipeline.
#include <fmt/format.h>

#include "validate/published/measured_files.h"
#include "validate/published/published.h"
#include "validate/published/trainings.h"

namespace baechi::validate {
namespace {

using namespace literals;

constexpr std::string_view ci_columns =
    "case, environment, platform, gpus=devices, mem_max_allocated_bytes=peak, num-layers=layers, "
    "encoder-num-layers=layers_of_encoder, hidden-size=hidden, ffn-hidden-size=inner, "
    "num-attention-heads=heads, num-query-groups=key_value_heads, kv-channels, seq-length=length, "
    "vocab-size=vocabulary, make-vocab-size-divisible-by=vocabulary_multiple, "
    "micro-batch-size=micro_batch, global-batch-size=batch, tensor-model-parallel-size=tensor, "
    "pipeline-model-parallel-size=pipeline, "
    "num-layers-per-virtual-pipeline-stage=layers_of_a_chunk, "
    "num-virtual-stages-per-pipeline-rank=virtual, context-parallel-size=context, "
    "expert-model-parallel-size=expert, sequence-parallel=sequence, "
    "use-distributed-optimizer=distributed_optimizer, "
    "num-distributed-optimizer-instances=instances, use-megatron-fsdp=sharded, "
    "recompute-granularity=recompute, bf16, fp16, fp8-format=fp8, transformer-impl=layers_by, "
    "attention-backend=attention, swiglu=--swiglu, normalization, "
    "untie-embeddings-and-output-weights=untied, position-embedding-type, "
    "disable-bias-linear=no_bias, num-experts=experts, moe-router-topk=top_k, "
    "moe-grouped-gemm=grouped, moe-ffn-hidden-size=inner_of_expert, "
    "moe-shared-expert-intermediate-size=shared_inner, "
    "expert-tensor-parallel-size=ranks_of_expert, "
    "multi-latent-attention=--multi-latent-attention, mtp-num-layers=--mtp-num-layers, optimizer, "
    "cuda-graph-impl=--cuda-graph-impl, deterministic-mode=deterministic, "
    "attention-dropout=attention_dropout, hybrid-layer-pattern=pattern, "
    "pipeline-model-parallel-layout=--pipeline-model-parallel-layout, "
    "fine-grained-activation-offloading=--fine-grained-activation-offloading";

void refuse(bool refused, std::string_view why) {
  if (refused) throw InputError(std::string(why));
}

/// CUBLAS_WORKSPACE_CONFIG=:4096:8 gives both handles of cuBLAS 32 MiB in place of their 8.1 where
/// the test asks for deterministic results. Megatron-LM's own layers have no workspace of
/// Transformer Engine; their attention writes its scores into a buffer that stays. The data loader
/// makes the causal mask: a byte for each pair of tokens of a sample. Grouped products of experts
/// run on four streams, each with a workspace as Transformer Engine's. Source: Megatron-LM,
/// model_config.yaml of the tests, core/transformer/dot_product_attention.py
/// (get_global_memory_buffer), legacy data loader (create_attention_mask); Transformer Engine,
/// cpp_extensions/gemm.py (get_multi_stream_cublas_workspace).
Bytes bytes_of_test(const Words& words, bool deterministic, bool own_layers, bool grouped) {
  const bool a100 = words.at("nodes") == "dgx_a100";
  const std::int64_t samples = whole_of(words, "micro_batch", 1),
                     length = whole_of(words, "length", 1024),
                     heads = whole_of(words, "heads", 1) / whole_of(words, "tensor", 1);
  Bytes bytes{samples * length * length};
  if (deterministic && a100) bytes += Bytes{2 * (32 * 1024 - 2 * 4096 - 8 * 16) * 1024};
  if (grouped) bytes += 4 * (a100 ? 4_MiB : 32_MiB);
  if (own_layers) bytes += Bytes{2 * samples * heads * length * length} - (a100 ? 4_MiB : 32_MiB);
  return bytes;
}

void name_machine(Words& words) {
  const std::string platform = take(words, "platform");
  words["nodes"] = platform == "gb200" ? "gb200_tray" : "dgx_" + platform;
  const std::int64_t of_replica =
      whole_of(words, "tensor", 1) * whole_of(words, "pipeline", 1) * whole_of(words, "context", 1);
  if (!words.contains("devices"))
    words["devices"] = std::to_string(std::max<std::int64_t>(8, of_replica));
}

void pad_vocabulary(Words& words) {
  constexpr std::int64_t of_gpt2 = 50'257;
  const std::int64_t multiple =
      whole_of(words, "vocabulary_multiple", 128) * whole_of(words, "tensor", 1);
  const std::int64_t given = whole_of(words, "vocabulary", of_gpt2);
  words["vocabulary"] = std::to_string((given + multiple - 1) / multiple * multiple);
  take(words, "vocabulary_multiple");
}

void share_embeddings(Words& words) {
  words["tied"] = take(words, "untied") == "true" ? "false" : "true";
}

void share_optimizer(Words& words) {
  const std::int64_t replicas =
      whole_of(words, "devices", 8) / whole_of(words, "tensor", 1) / whole_of(words, "pipeline", 1);
  const std::int64_t instances = whole_of(words, "instances", 1);
  take(words, "instances");
  if (take(words, "distributed_optimizer") != "true") return;
  words.try_emplace("zero", "1");  // Megatron-FSDP's rows have 3
  if (instances > 1) words["fsdp"] = std::to_string(replicas / instances);
}

/// A name such as "gpt/gpt3_mcore_te_tp1_pp2" without what every case has.
std::string short_name(std::string_view name) {
  for (const std::string_view all :
       {"gpt/", "moe/", "bert/", "t5/", "hybrid/", "nemotron/", "gpt3_", "hybrid_mr_", "mcore_"})
    if (name.starts_with(all)) name.remove_prefix(all.size());
  return std::string(name);
}

std::string group_of(const Words& words) {
  if (words.contains("pattern")) return "Mamba";
  if (words.contains("sharded")) return "FSDP";
  if (words.contains("experts")) return "experts";
  return whole_of(words, "context", 1) > 1 ? "context" : "dense";
}

void read_model(Words& words) {
  if (words.contains("pattern")) take(words, "--mtp-num-layers");
  for (const auto& [word, value] : words)
    refuse(word.starts_with("--"), fmt::format("no generator has {} {}", word, value));
  if (words.contains("sharded") && take(words, "sharded") == "true") words["zero"] = "3";
  refuse(words.contains("fp8"), "copies of weights in fp8 are not modelled");
  refuse(words.contains("optimizer") && words["optimizer"] != "adam", "optimizer is not Adam");
  refuse(!words.contains("layers") || !words.contains("batch"), "the row says no size");
  const bool hybrid = words.contains("pattern");
  if (const std::string norm = take(words, "normalization"); hybrid)
    words["norm"] = norm == "RMSNorm" ? "rms" : "layer";
  else
    refuse(!norm.empty() && norm != "LayerNorm", "no generator has norm " + norm);
  take(words, "optimizer");
  if (take(words, "no_bias") == "true") words["bias"] = "false";
  if (take(words, "attention_dropout") == "0.0") words["dropout"] = "false";
  const std::string positions = take(words, "position-embedding-type");
  if (!positions.empty()) words["positions"] = positions == "rope" ? "rotary" : "none";
  const std::string of_head = take(words, "kv-channels");
  refuse(!hybrid && !of_head.empty() &&
             whole_of(words, "hidden") / whole_of(words, "heads", 1) !=
                 parse_number<std::int64_t>(of_head),
         "heads are wider than their share of the features");
  words["generator"] = "gpt";
  words["loss"] = "separate";
  words["framework"] = "megatron";
  words["precision"] = words.contains("fp16") ? "fp16" : "bf16";
  take(words, "fp16");
  take(words, "bf16");
}

/// Experts are divided by ranks of tensor parallelism there, and whole here: so many more ranks
/// share them, with as many weights. Tokens are shared evenly.
void name_experts(Words& words) {
  const std::int64_t divided = whole_of(words, "ranks_of_expert", whole_of(words, "tensor", 1));
  words["expert"] = std::to_string(divided * whole_of(words, "expert", 1));
  take(words, "ranks_of_expert");
  if (const std::string inner = take(words, "inner_of_expert"); !inner.empty())
    words["inner"] = inner;
}

/// T5 of the tests reads 512 words and writes 128. Source: its model_config.yaml, as no column
/// says.
void name_t5(Words& words) {
  refuse(whole_of(words, "pipeline", 1) > 1, "encoder and decoder are one stage");
  words["generator"] = "transformer";
  words["target_length"] = "128";
  words["activation"] = "gelu";
  words["optimizer"] = "adam";
  words["bias"] = words["learned_positions"] = "true";
  words["shared_embeddings"] = take(words, "tied");
  take(words, "loss");
}

/// BERT's norms are before its blocks there, not behind them: as many bytes.
void name_bert(Words& words) {
  refuse(take(words, "layers") != "24" || take(words, "hidden") != "1024" ||
             take(words, "heads") != "16",
         "no generator has a BERT of this size");
  words["generator"] = "bert";
  words["size"] = "large";
  take(words, "loss");
}

/// Layers by letters; behind each '/' those that predict a token more. Mixers have the defaults of
/// Megatron-LM's arguments (mamba-head-dim 64, groups 8, states 128, expand 2), and those of
/// Nemotron 3 its own.
void name_hybrid(Words& words, bool nemotron) {
  const std::string pattern = take(words, "pattern");
  const std::size_t end = std::min(pattern.find('/'), pattern.size());
  words["generator"] = "hybrid";
  words["layers"] = pattern.substr(0, end);
  if (const auto further = std::ranges::count(pattern, '/'); further > 0)
    words["further_tokens"] = std::to_string(further);
  take(words, "positions");
  const std::int64_t stages = whole_of(words, "pipeline", 1),
                     parts = std::ranges::count(pattern, '|') + 1;
  if (parts > stages) words["virtual"] = std::to_string(parts / stages);
  words["size"] = nemotron ? "nemotron-3-nano" : "nemotron-h-8b";
  if (nemotron) return;
  const std::int64_t hidden = whole_of(words, "hidden");
  words["mixer_heads"] = std::to_string(2 * hidden / 64);
  words["head_size"] = std::to_string(hidden / whole_of(words, "heads", 1));
  words.try_emplace("inner", std::to_string(4 * hidden));
  words.try_emplace("bias", "true");
  words.try_emplace("dropout", "true");
  words["activation"] = "gelu";
}

bool read_ci(Words& words, PublishedRow& row) {
  const std::string name = take(words, "case"), environment = take(words, "environment");
  const bool bert = name.starts_with("bert/"), t5 = name.starts_with("t5/");
  for (const std::string_view unsaid : {"defer_embedding", "uninstall_te"})
    refuse(name.find(unsaid) != std::string::npos,
           fmt::format("no column says what {} does", unsaid));
  refuse(name.starts_with("gpt/gpt_grpo") || name.find("inference") != std::string::npos,
         "no training alone");
  const bool hybrid = words.contains("pattern"), nemotron = name.starts_with("nemotron/");
  refuse(!name.starts_with("gpt/") && !name.starts_with("moe/") && !bert && !t5 && !hybrid,
         "no generator makes the model");
  if (hybrid) words["layers"] = "1";  // its pattern says more
  if (bert) words["vocabulary"] = "30522";
  if (t5) {
    words["vocabulary"] = "29098";  // pieces of words, and 102 of no word
    words["length"] = "512";
    words["layers"] = take(words, "layers_of_encoder");
  }
  if (name.find("qk_layernorm") != std::string::npos) words["query_key_norm"] = "true";
  row.measured = take_number(words, "peak");
  row.what = fmt::format("{}, {}", short_name(name), environment);
  row.group = bert ? "BERT" : t5 ? "T5" : group_of(words);
  read_model(words);
  name_machine(words);
  pad_vocabulary(words);
  share_embeddings(words);
  share_optimizer(words);
  const std::string attention = take(words, "attention");
  const bool own_layers = take(words, "layers_by") == "local" || (bert && attention == "local"),
             deterministic = take(words, "deterministic") == "true";
  // Transformer Engine chooses; the older one of these environments has no deterministic kernel.
  const bool chose_none =
      attention.empty() && deterministic && environment.find("dracooci") != std::string::npos;
  const bool fused =
      !own_layers && !chose_none && !attention.starts_with("unfused") && attention != "local";
  words["fused_attention"] = fused ? "true" : "false";
  // Transformer Engine prefers cuDNN's kernel on compute capability 9.0, else FlashAttention.
  if (fused && attention != "fused" && words["nodes"] != "dgx_h100")
    words["copied_output"] = "true";
  if (const std::int64_t of_chunk = whole_of(words, "layers_of_a_chunk", 0, 0); of_chunk > 0)
    words["virtual"] =
        std::to_string(whole_of(words, "layers", 1) / of_chunk / whole_of(words, "pipeline", 1));
  take(words, "layers_of_a_chunk");
  row.simulated = static_cast<double>(
      bytes_of_test(words, deterministic, own_layers, take(words, "grouped") == "true").count);
  if (words.contains("experts")) name_experts(words);
  if (hybrid) name_hybrid(words, nemotron);
  if (bert) name_bert(words);
  if (t5) name_t5(words);
  return true;
}

/// The baseline: 18 bytes for each parameter of the rank.
void score_peak(const TrainedStep& step, PublishedRow& row) {
  row.simulated += static_cast<double>(step.last_peak.count);
  row.work = 18.0 / 4.0 * step.weights_read;
}

}  // namespace

std::optional<Comparison> compare_megatron_ci(const std::string& folder) {
  return compare_trainings(folder, {.path = "measured/megatron_ci/golden.csv",
                                    .columns = ci_columns,
                                    .read = read_ci,
                                    .score = score_peak});
}

}  // namespace baechi::validate
