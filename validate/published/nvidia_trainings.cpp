// Training steps that NVIDIA published: NeMo's tables, and the recipes of DGX Cloud.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "validate/published/measured_files.h"
#include "validate/published/published.h"
#include "validate/published/trainings.h"

namespace baechi::validate {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Number formats of the tables. FP8 there says how it is scaled; the row's own words say the rest.
std::string format_of_row(const std::string& text) {
  if (text == "BF16") return "bf16";
  if (text.starts_with("FP8") || text == "MXFP8") return "fp8";
  if (text == "NVFP4") return "nvfp4";
  throw InputError(text.empty() ? "the row says no number format"
                                : fmt::format("no number format '{}'", text));
}

std::string nodes_of_system(std::string system) {
  system = lower_case(std::move(system));
  if (system.starts_with("dgx-")) system.erase(0, 4);
  if (system == "h100" || system == "b200" || system == "b300") return "dgx_" + system;
  if (system == "gb200" || system == "gb300") return system + "_rack";
  throw InputError(fmt::format("no kind of nodes with {}", system));
}

void drop_if(Words& words, std::string_view word, std::initializer_list<std::string_view> none) {
  const auto found = words.find(word);
  if (found != words.end() && std::ranges::find(none, found->second) != none.end())
    words.erase(found);
}

/// Megatron-LM's way: the distributed optimizer, tokens shared by ranks of tensor parallelism. The
/// recipes of NeMo exchange them beside products (tp_comm_overlap), and send gradients beside the
/// backward pass (overlap_grad_reduce): here one stage does, several would gain nothing.
void as_megatron(Words& words) {
  words["framework"] = "megatron";
  words["zero"] = "1";
  if (whole_of(words, "pipeline", 1) == 1) words["send"] = "beside";
  if (const auto tensor = words.find("tensor"); tensor != words.end() && tensor->second != "1")
    words["sequence"] = words["overlap"] = "true";
  drop_if(words, "virtual", {"n/a", "-", "1", "NA"});
  drop_if(words, "expert", {"n/a", "-", "1", "NA"});
}

/// NeMo's fine-tuning: samples of SQuAD, of some 200 tokens, are packed one behind the other, and
/// each sees its own tokens. LoRA has adapters beside queries, keys and values alone, exchanges no
/// tokens beside products, and its loss is not fused (cross_entropy_loss_fusion). Source: NeMo,
/// collections/llm/recipes/llama3_8b.py and llama3_70b.py (finetune_performance_optimizations),
/// megatron_gpt_finetuning_config.yaml at r2.0.0rc1. The published rates of the rows of 24.07 count
/// no attention.
void fine_tune(Words& words, bool lora, std::string_view width) {
  words["document"] = "256";
  if (!lora) return;
  words["adapters"] = std::string(width);
  words["adapters_beside"] = "attention_qkv";
  words["loss"] = "separate";
  take(words, "overlap");
}

constexpr std::string_view nemo_columns =
    "task, model, system, gpus=devices, precision=format, gbs=batch, mbs=micro_batch, seq=length, "
    "tp=tensor, pp=pipeline, cp=context, vp=virtual, step_s_computed=seconds";
constexpr std::string_view shared_columns = ", ep=expert, fsdp=shards, ";  // of all but 24.07

/// The tables of release 25.09 name no format: most rows reach more than a GPU does in 16 bits.
std::string format_said(std::string format, std::string_view release) {
  return format.empty() && release == "25.09" ? "FP8" : format;
}

/// Microseconds in which Megatron-LM's host launches one of our kernels: the median of 13
/// iterations of its tests on H100, tiny models of 12 layers (megatron_ci, 98 to 252 us; README).
constexpr std::string_view host_us = "147";

/// A recipe of a model of experts: Megatron-Bridge's, but for the last of Automodel.
struct Recipe {
  std::string_view model, release, system, format;
  bool is(std::string_view part) const { return model.find(part) != std::string_view::npos; }
  bool on(std::string_view gpu) const { return system.ends_with(gpu); }
  bool since(std::string_view first) const { return release >= first; }
  bool rack() const { return on("GB200") || on("GB300"); }
  bool eight_bits() const { return format == "MXFP8" || format == "FP8-MX"; }
  bool automodel() const { return release.empty(); }

  /// One CUDA graph of a whole iteration: tokens are exchanged beside other micro-batches,
  /// attention computes in 8 bits, and experts are one fused network.
  bool whole_graph() const {
    if (!eight_bits() || !since("26.06") || !(is("qwen3_") || is("oss"))) return false;
    if (rack()) return true;
    return is("qwen3_") && (since("26.06.01") || (is("30b") && on("B300"))) && !on("H100");
  }
  /// No CUDA graphs: the host launches kernel by kernel.
  bool launches() const {
    if (automodel() || whole_graph()) return false;
    if (is("oss")) return !on("300");
    if (is("nemotron_3_super")) return on("DGX-B200") && eight_bits();
    if (!is("qwen3_")) return false;
    const bool small = is("30b") && !is("tokendrop") && !since("26.02.01");
    return on("H100") || ((on("DGX-B200") || on("DGX-B300")) && (is("235b") || small));
  }
  /// A token goes once to each rank of a node, or to each node, that has one of its experts
  /// (HybridEP, DeepEP).
  bool sends_once() const {
    if (automodel()) return true;
    if (is("tokendrop")) return false;
    if (is("oss"))
      return whole_graph() ||
             (since("26.04") && (on("DGX-B300") || (on("200") && !since("26.06"))));
    if (is("qwen3_235b"))
      return rack() || whole_graph() || release == "26.02.01" || (on("B300") && since("26.06"));
    if (is("qwen3_30b")) return on("300") || rack() || since(on("H100") ? "26.02" : "26.02.01");
    return true;
  }
  /// Whether tokens go to experts and back beside other micro-batches. `stages`: of the pipeline.
  bool exchanges_beside(std::int64_t ranks, std::int64_t stages) const {
    if (whole_graph()) return true;
    if (is("tokendrop")) return false;
    if (is("oss")) return on("GB200") && since("26.04");
    if (is("qwen3_"))
      return (on("H100") && (is("235b") || stages > 1)) ||
             (is("235b") &&
              ((on("DGX-B200") && release == "25.11") || (on("DGX-B300") && release == "26.02")));
    if (format != "MXFP8" || is("nemotron")) return false;
    return (since("26.06") && (rack() || on("B300"))) || (is("deepseek") && !rack() && ranks > 8);
  }
  /// What is computed again (recompute_modules). `stages`: of the pipeline.
  std::string_view recomputed(std::int64_t stages) const {
    if (automodel()) return "";
    if (is("deepseek") || is("kimi")) return recomputed_latent(stages);
    if (is("oss")) return whole_graph() || on("300") ? "" : "moe_act, layernorm";
    if (is("nano") && on("H100"))
      return format == "BF16" ? "moe, layernorm" : "moe, layernorm, core_attn, moe_act";
    if (!is("super") || rack()) return "";
    if (on("B300")) return format == "MXFP8" ? "" : "moe_act, layernorm";
    if (format == "NVFP4") return "";
    if (format == "MXFP8") return "moe_act, layernorm";
    return release == "26.06.01" ? "moe_act, layernorm, core_attn"
                                 : "moe_act, moe, layernorm, core_attn";
  }
  /// Layers of Llama, under FSDP, whose activations are in the host's memory.
  std::int64_t offloaded() const {
    const bool whole = format == "BF16", large = is("405b");
    if (!large && !is("llama3_70b")) return 0;
    if (on("GB300") || (large && on("B300"))) return large ? (whole ? 40 : 10) : (whole ? 30 : 20);
    if (on("GB200")) return large ? (whole ? 0 : release == "25.09" ? 95 : 92) : (whole ? 20 : 40);
    return !large && on("DGX-B200") && !whole ? 5 : 0;
  }
  /// The same of models whose keys and values come from latent tokens.
  std::string_view recomputed_latent(std::int64_t stages) const {
    constexpr std::string_view both = "mla_up_proj, mlp";
    if (on("H100")) return both;
    if (is("kimi")) return "mla_up_proj";
    if (on("GB300")) {
      if (release == "25.11" || format == "BF16") return "moe_act";
      return since("26.06") && eight_bits() ? "" : "mla_up_proj";
    }
    if (on("GB200")) {
      if (release == "25.09" && !is("tokendrop")) return both;
      const bool dense = since("26.04") && format != "BF16" && (!since("26.06") || !eight_bits());
      return dense ? "mlp" : "mla_up_proj";
    }
    if (on("B300") && release == "26.02" && format == "BF16")
      return "mla_up_proj, moe_act, layernorm";
    return on("DGX-B200") && since("26.06") && eight_bits() && stages == 8 ? both : "mla_up_proj";
  }
};

/// What recipes of experts say beside their plans: their products are grouped, and apply the
/// weights of routes (Megatron-LM, core/transformer/moe/experts.py, weighted_bias_swiglu_impl);
/// Nemotron 3 exchanges no tokens beside products. What is computed again differs by model, machine
/// and release. Attention of DeepSeek in MXFP8 on GB300 and B300 from release 26.06 on is in 8
/// bits. In NVFP4 the products of Super's attention, and those to and from its latent tokens, stay
/// in 16 bits. gpt-oss adds the last biases of its experts, and limits what they activate, by
/// kernels of their own, unless one graph holds all, and turns queries and keys so. Source:
/// Megatron-Bridge, scripts/performance/configs at v0.1.0rc4 to v0.5.1, perf_recipes at v0.6.0
/// (moe_flex_dispatcher_backend, moe_a2a_overlap, cuda_graph_impl, fp8_dot_product_attention,
/// recompute_modules; nemotronh/te_quant.cfg); Automodel, examples/llm_benchmark
/// (activation_checkpointing).
void add_recipe(Words& words, const Recipe& r) {
  const std::int64_t ranks = whole_of(words, "expert", 1);
  const std::int64_t of_node = r.rack() ? 64 : 8;
  words["grouped_experts"] = "true";
  if (!r.automodel()) words["send"] = "beside";
  if (!r.automodel()) words["weighted_experts"] = "true";
  if (r.launches()) words["host"] = std::string(host_us);
  if (r.sends_once() && ranks > 1)
    words["send_once"] = std::to_string(ranks <= of_node ? ranks : (ranks + of_node - 1) / of_node);
  if (r.is("oss")) {
    words["rotary_apart"] = "true";
    if (!r.whole_graph() && !r.automodel()) words["bias_apart"] = words["clamp_apart"] = "true";
  }
  if (r.is("nemotron")) take(words, "overlap");
  const std::int64_t stages = whole_of(words, "pipeline", 1);
  if (const std::string_view parts = r.recomputed(stages); !parts.empty())
    words["recompute_modules"] = parts;
  if (r.exchanges_beside(ranks, stages)) words["overlap_experts"] = "true";
  if (r.is("nemotron_3_super") && r.format == "NVFP4")
    words["whole_products"] = "HybridAttention, TopKRouter, MixtralCombine";
  if (r.whole_graph() || (r.is("deepseek") && r.on("300") && r.since("26.06") && r.eight_bits()))
    words["short_attention"] = "true";
}

/// Automodel's recipes, which have PyTorch's fully_shard: they compute every layer again, but for
/// gpt-oss 120B. Where several micro-batches go into a step of Qwen3 and Nemotron 3 Nano, weights
/// stay gathered from the first on, and gradients are sent with the last alone
/// (enable_fsdp_optimizations); with stages that is so for every model of experts. LoRA has
/// adapters beside all products. Weights are in bf16, and so is the state of torch.optim.Adam.
/// Source: Automodel, examples/benchmark/configs at the rows' dates (activation_checkpointing,
/// ep_size, optimizer); components/moe/fsdp_mixin.py, _transformers/auto_model.py (torch_dtype).
void add_automodel(Words& words, const std::string& model, bool lora) {
  const auto is = [&](std::string_view part) { return model.find(part) != std::string::npos; };
  words["framework"] = "fsdp2";
  const bool large = is("gpt-oss 120b"), experts = words["generator"] != "llama";
  words["recompute"] = large ? "off" : "full";
  if (is("gpt-oss") && !words.contains("expert")) words["expert"] = large ? "64" : "8";
  const bool deferred = is("qwen3") || is("nano") || whole_of(words, "pipeline", 1) > 1;
  if (!experts || !deferred) words["zero"] = "3";
  if (lora) words["adapters"] = "16";
  words["masters"] = "none";
}

/// Stages of Llama 3.1 405B and Qwen3 235B count embeddings and loss as a layer each. Llama 3.1
/// 405B in NVFP4 with 64 samples on (G)B200, and Llama 3 8B in FP8 on H100 from release 25.11 on,
/// compute layers of each chunk again. FSDP's layers may be in the host's memory. Source:
/// Megatron-Bridge, recipes/llama/llama3.py, qwen/qwen3_moe.py
/// (account_for_embedding_in_pipeline_split); scripts/performance/configs/llama at v0.1.0rc4 to
/// v0.5.1 (recompute_num_layers, cpu_offloading_num_layers).
void divide_layers(Words& words, const Recipe& r) {
  if (r.is("405b") || r.is("235b")) words["count_ends"] = "true";
  if (r.is("llama3_8b") && r.on("H100") && r.since("25.11") && r.format.starts_with("FP8")) {
    words["recompute"] = "full";
    words["recompute_layers"] = "5";
  }
  if (r.is("405b") && r.format == "NVFP4" && words["batch"] == "64" && r.on("B200")) {
    words["recompute"] = "full";
    words["recompute_layers"] = "1";
  }
  if (const std::int64_t layers = words["zero"] == "3" ? r.offloaded() : 0; layers > 0)
    words["offload_layers"] = std::to_string(layers);
}

bool read_nemo(Words& words, PublishedRow& row) {
  const std::string task = take(words, "task"), kernels = take(words, "kernels");
  const std::string release = take(words, "release"), model = take(words, "model"),
                    system = take(words, "system"),
                    format = format_said(take(words, "format"), release);
  row.what = fmt::format("{}, {} {}, {}", model, words["devices"], system, format);
  row.group = model;
  row.alike = fmt::format("{} {}", system, format);
  row.measured = take_number(words, "seconds");
  words["nodes"] = nodes_of_system(system);
  words["precision"] = format_of_row(format);
  set_model(words, lower_case(model));
  as_megatron(words);
  const bool automodel = !kernels.empty();
  const std::string shards = take(words, "shards");
  if (!automodel && !shards.empty() && shards != "0" && shards != "-") words["zero"] = "3";
  if (automodel) add_automodel(words, lower_case(model), task == "lora");
  if (kernels.find("DeepEP") != std::string::npos && !words.contains("expert"))
    throw InputError("ranks share its experts, and the row does not say how many");
  if (!release.empty()) words["short_sums"] = "true";
  const std::string name = lower_case(model);
  const Recipe recipe{name, release, system, format};
  if (!automodel) divide_layers(words, recipe);
  if (words["generator"] == "moe" || words["generator"] == "hybrid") add_recipe(words, recipe);
  if (!automodel && release.empty()) {
    take(words, "send");  // the configurations of 24.07 do not say that it is beside the passes
    if (task != "pretrain") fine_tune(words, task == "lora", "32");
  }
  return true;
}

TrainingFile nemo(std::string path, std::string_view columns) {
  return {.path = std::move(path), .columns = columns, .read = read_nemo, .score = score_seconds};
}

// DGX Cloud. The plan is in the title of a table, or that of its page.

constexpr std::string_view cloud_columns =
    "page, title, system, gpus=devices, precision=format, gbs=batch, step_s=seconds, "
    "tokens_per_s, release";

/// A page's plan where its tables say none, as its other releases have it.
struct CloudPlan {
  std::string_view title;  ///< begins so
  std::string_view model, plan;
  std::int64_t length;
};
constexpr std::array<CloudPlan, 16> cloud_plans{
    {{"Llama3 8b Finetuning", "llama3-8b", "TP=1", 4096},
     {"Llama3 70b Finetuning", "llama3-70b", "", 4096},
     {"Llama 3.1 8b BF16", "llama3-8b", "CP=2", 8192},
     {"Llama 3.1 8b", "llama3-8b", "CP=2", 8192},
     {"Llama 3.1 70b", "llama3-70b", "TP=4, PP=4, CP=2, VP=5", 8192},
     {"Maxtext LLama2 70b", "llama2-70b", "FSDP", 4096},
     {"Maxtext Llama3 70b", "llama3-70b", "FSDP", 8192},
     {"NeMo Megatron", "gpt3-175b", "TP=4, PP=8, VP=12", 2048},
     {"Nemotron4 340b", "nemotron4-340b", "TP=8, PP=8, VP=12", 4096},
     {"Nemotron4 15b", "nemotron4-15b", "", 4096},
     {"Nemotron-H", "nemotronh_56b", "", 8192},
     {"NemotronH", "nemotronh_56b", "", 8192},
     {"Grok", "grok1", "", 8192},
     {"Llama 3.1 405b", "llama3.1-405b", "", 8192},
     {"Llama3.1 405b", "llama3.1-405b", "", 8192},
     {"Llama", "", "", 8192}}};

/// A row of their table of configurations: the plan of a page, a machine and a number of GPUs.
struct CloudConfiguration {
  std::string page, system, devices, release;
  std::string size, formats;  ///< "": of all
  Words plan{};
};
using CloudConfigurations = std::vector<CloudConfiguration>;

constexpr std::string_view configuration_columns =
    "page, system, GPUs=devices, release, Size=size, Precision=formats, SeqLen=length, "
    "Layers=layers, TP=tensor, PP=pipeline, CP=context, VP=virtual, MBS=micro_batch, GBS=batch, "
    "EP=expert, ETP=expert_tensor";

CloudConfigurations cloud_configurations(const std::string& folder, Leftovers& left) {
  CloudConfigurations all;
  const auto table = read_measured(folder, "measured/dgxc/configurations.csv", left);
  if (!table) return all;
  for (std::size_t row = 0; row < table->num_rows(); ++row) {
    Words words = words_of(*table, row, configuration_columns);
    CloudConfiguration c{.page = take(words, "page"),
                         .system = take(words, "system"),
                         .devices = take(words, "devices"),
                         .release = take(words, "release"),
                         .size = lower_case(take(words, "size")),
                         .formats = take(words, "formats")};
    c.size = c.size.substr(0, c.size.find('-'));  // "405b-Proxy" has fewer layers
    if (c.system.empty()) c.system = "H100";
    for (const std::string_view word : {"virtual", "context", "expert", "expert_tensor"})
      drop_if(words, word, {"NA", "N/A"});
    if (!words.contains("tensor") || !words.contains("layers")) continue;
    c.plan = std::move(words);
    all.push_back(std::move(c));
  }
  return all;
}

/// The plan of the first release from the row's own on that has the page's row.
const CloudConfiguration* configuration_of(const CloudConfigurations& all,
                                           const CloudConfiguration& row) {
  const CloudConfiguration* found = nullptr;
  for (const CloudConfiguration& c : all)
    if (c.page == row.page && c.system == row.system && c.devices == row.devices &&
        c.release >= row.release && row.size.find(c.size) != std::string::npos &&
        (c.formats.empty() || c.formats.find(row.formats) != std::string::npos) &&
        (found == nullptr || c.release < found->release))
      found = &c;
  return found;
}

/// The number behind `key`= in a title; `fallback` if there is none.
std::string said_number(std::string_view text, std::string_view key, std::string fallback = "") {
  const std::size_t at = text.find(fmt::format("{}=", key));
  if (at == std::string_view::npos) return fallback;
  std::string digits;
  for (const char c : text.substr(at + key.size() + 1)) {
    if (c < '0' || c > '9') break;
    digits += c;
  }
  return digits;
}

/// Megatron-LM divides experts among the ranks of tensor parallelism unless it is told to divide
/// them among fewer. Source: Megatron-LM, core/model_parallel_config.py.
void share_experts(Words& words) {
  if (words["generator"] != "moe") {
    take(words, "expert");
    take(words, "expert_tensor");
    return;
  }
  const std::int64_t divided = whole_of(words, "expert_tensor", whole_of(words, "tensor", 1));
  words["expert_tensor"] = std::to_string(divided);
  words["expert"] = std::to_string(divided * whole_of(words, "expert", 1));
}

/// What the recipes of DGX Cloud say beside their plans. GPT-3 drops out, and does not fuse its
/// loss. NeMo's launcher, in all pages until release 25.02 and of GPT-3 after it, adds up gradients
/// in 16 bits, and NeMo 2 those of FP8. Nemotron-4 340B computes attention's core again, and its
/// optimizer, NVIDIA Apex's, keeps remainders where weights have no copy in 8 bits. Llama 3.1 405B
/// counts embeddings and loss as a layer each. Source: dgxc-benchmarking, v24.11.1 to v25.04,
/// gpt3_175b_hydra.yaml, nemotron4-340b-synth.yaml, llama3.1_8b.yaml, llama3.1_70b.yaml,
/// grok1_314b.yaml (grad_sync_dtype, hidden_dropout, cross_entropy_loss_fusion,
/// activations_checkpoint_granularity, optim.name), pretrain_llama31.py (grad_reduce_in_fp32);
/// NeMo, megatron_base_model.py (store_param_remainders), recipes/llama31_405b.py.
void add_cloud_recipe(Words& words, std::string_view model, std::string_view release) {
  const bool launcher = release <= "v25.02" || model == "gpt3-175b";
  if (launcher || words["precision"] == "fp8") words["short_sums"] = "true";
  if (model == "gpt3-175b") {
    words["dropout"] = "true";
    words["loss"] = "separate";
  }
  if (model == "llama3.1-405b") words["count_ends"] = "true";
  if (model == "nemotron4-340b") words["recompute"] = "selective";
  if (model == "nemotron4-340b" && words["precision"] != "fp8") words["masters"] = "remainders";
}

bool read_cloud(const CloudConfigurations& configurations, Words& words, PublishedRow& row) {
  const std::string title = take(words, "title"), system = take(words, "system"),
                    format = take(words, "format"), page = take(words, "page"),
                    release = take(words, "release");
  const auto plan = std::ranges::find_if(
      cloud_plans, [&](const CloudPlan& p) { return title.starts_with(p.title); });
  const bool titled = title.find("TP=") != std::string::npos;
  const CloudConfiguration* configured =
      titled ? nullptr
             : configuration_of(configurations, {.page = page,
                                                 .system = system,
                                                 .devices = words["devices"],
                                                 .release = release,
                                                 .size = lower_case(title),
                                                 .formats = format});
  if (plan == cloud_plans.end() || (plan->plan.empty() && configured == nullptr && !titled))
    throw InputError(fmt::format("no plan is said for '{}'", title));
  const std::string said = titled ? title : std::string(plan->plan);
  const bool sharded = said.find("FSDP") != std::string::npos;
  row.what = fmt::format("{}, {} {}", title.substr(0, title.find(" (")), words["devices"], system);
  row.group = fmt::format("{} {}", plan->model, format);
  row.alike = fmt::format("{} {}", system, format);
  row.measured = take_number(words, "seconds");
  const double tokens = parse_number<double>(take(words, "tokens_per_s")).value_or(0.0);
  // Weak scaling: the batch is what the rate says, in whole samples for each GPU.
  const double samples = row.measured * tokens / static_cast<double>(plan->length);
  if (!words.contains("batch"))
    words["batch"] = std::to_string(static_cast<std::int64_t>(samples + 0.5) / 8 * 8);
  words["length"] = std::to_string(plan->length);
  for (const auto& [key, word] :
       {std::pair{"TP", "tensor"}, {"PP", "pipeline"}, {"CP", "context"}, {"VP", "virtual"}})
    words[std::string(word)] = said_number(said, key, "1");
  words["micro_batch"] = said_number(title, "MBS", sharded ? "2" : "1");
  words["nodes"] = nodes_of_system(system);
  words["precision"] = format_of_row(format);
  set_model(words, plan->model);
  if (configured != nullptr)
    for (const auto& [word, value] : configured->plan)
      if (word != "layers" || words["generator"] != "hybrid") words[word] = value;
  as_megatron(words);
  share_experts(words);
  if (!sharded && title.find("Finetuning") == std::string::npos)
    add_cloud_recipe(words, plan->model, release);
  if (title.find("Finetuning") != std::string::npos) {
    const bool lora = title.find("LORA") != std::string::npos;
    fine_tune(words, lora, plan->model == "llama3-8b" ? "8" : "16");
    if (!lora) words["short_sums"] = "true";  // grad_reduce_in_fp32
  }
  if (sharded) {
    words["framework"] = "none";
    words["zero"] = "3";
    words["recompute"] = "full";
  }
  return true;
}

}  // namespace

std::optional<Comparison> compare_nemo(const std::string& folder) {
  const std::string shared = std::string(nemo_columns) + std::string(shared_columns);
  auto all =
      compare_trainings(folder, nemo("measured/nemo/megatron_bridge.csv", shared + "release"));
  if (!all) return std::nullopt;
  for (const auto& [file, columns] :
       {std::pair{"automodel", shared + "kernels"}, {"nemo_24.07", std::string(nemo_columns)}})
    if (auto more =
            compare_trainings(folder, nemo(fmt::format("measured/nemo/{}.csv", file), columns)))
      all->add(std::move(*more));
  return all;
}

std::optional<Comparison> compare_dgxc(const std::string& folder) {
  Leftovers left;
  const CloudConfigurations configurations = cloud_configurations(folder, left);
  return compare_trainings(
      folder, {.path = "measured/dgxc/training.csv",
               .columns = cloud_columns,
               .read = [&](Words& words,
                           PublishedRow& row) { return read_cloud(configurations, words, row); },
               .score = score_seconds});
}

}  // namespace baechi::validate
