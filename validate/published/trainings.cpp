#include "validate/published/trainings.h"

#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>

#include "scenarios/planning/framework.h"
#include "scenarios/planning/machines.h"
#include "scenarios/read/device_table.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "scenarios/run/build.h"
#include "sim/enum_option.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

/// More than any step takes, and few enough bytes that a problem may have them.
constexpr std::int64_t without_end = 64;

template <NamedEnum E>
E one_of_words(Words& words, std::string_view word, E fallback) {
  const std::string text = take(words, word);
  if (text.empty()) return fallback;
  const auto value = parse<E>(text);
  if (!value) throw InputError(fmt::format("{} '{}' is not known", word, text));
  return *value;
}

std::vector<std::string> take_list(Words& words, std::string_view word) {
  std::vector<std::string> all;
  for (std::string text = take(words, word); !text.empty();) {
    const std::size_t end = text.find(", ");
    all.push_back(text.substr(0, end));
    text.erase(0, end == std::string::npos ? end : end + 2);
  }
  return all;
}

/// Models as published, as generators of ours. Nemotron: Parmar et al., "Nemotron-4 15B Technical
/// Report", table 1; NVIDIA, "Nemotron-4 340B Technical Report", table 1; nemotron-3-8b-base-4k's
/// model card. Grok-1 with the tokens of Llama 3: dgxc-benchmarking, grok1_314b.yaml.
struct KnownModel {
  std::string_view name, generator, why;  ///< no generator: why
};
constexpr std::string_view other_variant = "no generator has this variant";
constexpr auto known_models = std::to_array<KnownModel>({
    {"llama3.1-8b", "llama:size=3-8b", ""},
    {"llama3-8b", "llama:size=3-8b", ""},
    {"llama3_8b", "llama:size=3-8b", ""},
    {"llama3.1-70b", "llama:size=3-70b", ""},
    {"llama3-70b", "llama:size=3-70b", ""},
    {"llama3 70b", "llama:size=3-70b", ""},
    {"llama3_70b", "llama:size=3-70b", ""},
    {"llama3 70b 2-node", "llama:size=3-70b", ""},
    {"llama3.1-405b", "llama:size=3-405b", ""},
    {"llama3.1_405b", "llama:size=3-405b", ""},
    {"llama2-7b", "llama:size=7b", ""},
    {"llama2-13b", "llama:size=13b", ""},
    {"llama2-70b", "llama:size=70b", ""},
    {"internlm-7b", "llama:size=7b,vocabulary=103168", ""},
    {"internlm-20b",
     "llama:layers=60,hidden=5120,heads=40,key_value_heads=40,inner=13824,vocabulary=103168", ""},
    {"gpt3-5b", "gpt:layers=24,hidden=4096,heads=32,vocabulary=51200,fused_attention=true", ""},
    {"gpt3-175b",
     "gpt:layers=96,hidden=12288,heads=96,vocabulary=51200,tied=false,dropout=false,"
     "fused_attention=true",
     ""},
    {"nemotron-8b",
     "gpt:layers=32,hidden=4096,heads=32,vocabulary=256000,tied=false,bias=false,dropout=false,"
     "positions=rotary,activation=squared_relu,fused_attention=true",
     ""},
    {"nemotron4-15b",
     "gpt:layers=32,hidden=6144,heads=48,key_value_heads=8,vocabulary=256000,tied=false,bias=false,"
     "dropout=false,positions=rotary,activation=squared_relu,fused_attention=true",
     ""},
    {"nemotron4-340b",
     "gpt:layers=96,hidden=18432,heads=96,key_value_heads=8,vocabulary=256000,tied=false,"
     "bias=false,dropout=false,positions=rotary,activation=squared_relu,fused_attention=true",
     ""},
    {"deepseekv3", "moe:size=deepseek-v3,further_tokens=1", ""},
    {"deepseekv3 (w/ mtp)", "moe:size=deepseek-v3,further_tokens=1", ""},
    {"deepseekv3 (w/o mtp)", "moe:size=deepseek-v3", ""},
    {"deepseekv3 (tokendrop)", "moe:size=deepseek-v3,further_tokens=1", ""},
    {"deepseekv3", "", other_variant},
    {"kimi_k2",
     "moe:size=deepseek-v3,heads=64,key_value_heads=64,experts=384,dense_layers=1,vocabulary="
     "163840",
     ""},
    {"deepseek", "", "its attention is not modelled"},
    {"grok1",
     "moe:layers=64,hidden=6144,heads=48,key_value_heads=8,inner=32768,experts=8,top_k=2,"
     "vocabulary=128256",
     ""},
    {"qwen3_30b_a3b", "moe:size=qwen3-30b", ""},
    {"qwen3_235b_a22b", "moe:size=qwen3-235b", ""},
    {"qwen3_30b_a3b (tokendrop)", "moe:size=qwen3-30b", ""},
    {"qwen3_235b_a22b (tokendrop)", "moe:size=qwen3-235b", ""},
    {"qwen3 moe 30b", "moe:size=qwen3-30b", ""},
    {"qwen3", "", other_variant},
    {"gpt oss 120b", "moe:size=gpt-oss-120b", ""},
    {"gpt-oss 120b", "moe:size=gpt-oss-120b", ""},
    {"gpt-oss 20b", "moe:size=gpt-oss-20b", ""},
    {"nemotronh_56b",
     "hybrid:layers=M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-"
     "M-M"
     "-M*-M-M-M-M-M*-M-M-M-M-M-,hidden=8192,heads=64,inner=32768,mixer_heads=256,state=256",
     ""},
    {"nemotron_3_nano", "hybrid:size=nemotron-3-nano", ""},
    {"nemotron v3 nano 30b (26.02)", "hybrid:size=nemotron-3-nano", ""},
    {"nemotron_3_5_lightning", "hybrid:size=nemotron-3-nano,further_tokens=2", ""},
    {"nemotron_3_super", "hybrid:size=nemotron-3-super,further_tokens=2", ""},
    {"nemotron v3 super 120b (26.02)", "hybrid:size=nemotron-3-super", ""},
    {"nemotron", "", "its shape is not known"},
});

/// What a row calls an option, and where it is now.
struct OptionWord {
  std::string_view generator, word, place, key;  ///< generator "": any
};
constexpr auto option_words =
    std::to_array<OptionWord>({{"hybrid", "layers", "option", "hybrid_override_pattern"},
                               {"moe", "inner", "option", "moe_intermediate_size"},
                               {"", "layers", "option", "num_hidden_layers"},
                               {"", "hidden", "option", "hidden_size"},
                               {"", "heads", "option", "num_attention_heads"},
                               {"", "key_value_heads", "option", "num_key_value_heads"},
                               {"", "inner", "option", "intermediate_size"},
                               {"", "vocabulary", "option", "vocab_size"},
                               {"", "tied", "option", "tie_word_embeddings"},
                               {"", "experts", "option", "num_local_experts"},
                               {"", "top_k", "option", "num_experts_per_tok"},
                               {"", "dense_layers", "option", "first_k_dense_replace"},
                               {"", "mixer_heads", "option", "mamba_num_heads"},
                               {"", "state", "option", "ssm_state_size"},
                               {"", "recompute_attention", "option", "recompute"},
                               {"transformer", "activation", "option", "hidden_act"},
                               {"transformer", "bias", "option", "bias"},
                               {"", "further_tokens", "config", "num_nextn_predict_layers"},
                               {"", "shared_inner", "config", "shared_expert_intermediate_size"},
                               {"", "activation", "config", "hidden_act"},
                               {"", "positions", "config", "position_embedding_type"},
                               {"", "query_key_norm", "config", "use_qk_norm"},
                               {"", "norm", "config", "norm"},
                               {"", "adapters", "config", "lora_rank"},
                               {"", "adapters_beside", "config", "lora_modules"},
                               {"gpt", "bias", "config", "bias"},
                               {"", "bias", "config", "attention_bias"},
                               {"hybrid", "dropout", "config", "dropout"},
                               {"llama", "size", "config", "like"},
                               {"moe", "size", "config", "like"},
                               {"hybrid", "size", "config", "like"},
                               {"", "mixer_head_size", "config", "mamba_head_dim"},
                               {"", "mixer_groups", "config", "n_groups"},
                               {"", "latent", "config", "moe_latent_size"},
                               {"", "head_size", "config", "head_dim"},
                               {"", "loss", "kernels", "unfused_loss"},
                               {"", "metrics", "kernels", "metrics"},
                               {"", "document", "kernels", "packed_sequence"},
                               {"", "eager", "kernels", "eager"},
                               {"", "fused_update", "kernels", "fused_optimizer"},
                               {"", "fuse_modules", "kernels", "fuse_modules"},
                               {"", "fuse_relu", "kernels", "fuse_relu"},
                               {"", "copied_output", "kernels", "attention_output_copy"},
                               {"", "packed_tokens", "kernels", "unpad_tokens"},
                               {"", "balanced", "kernels", "unbalanced_context"},
                               {"", "internlm_kernels", "kernels", "internlm"},
                               {"", "recompute_norm", "kernels", "recompute_norm"},
                               {"", "rotary_apart", "kernels", "unfused_rope"},
                               {"", "grouped_experts", "kernels", "grouped_gemm"},
                               {"", "weighted_experts", "kernels", "weighted_activation"},
                               {"", "bias_apart", "kernels", "unfused_expert_bias"},
                               {"", "clamp_apart", "kernels", "unfused_clamp"},
                               {"", "send_once", "kernels", "dispatch_once"},
                               {"moe", "fused_attention", "kernels", "unfused_attention"},
                               {"hybrid", "fused_attention", "kernels", "unfused_attention"},
                               {"", "kernels", "kernels", "kernels"}});

/// The machines of a training, on their own network.
ClusterChoice machines_of_row(const Training& t) {
  if (t.network.empty()) return cluster_of_nodes(t.nodes, t.devices);
  constexpr std::int64_t node = 8;  // where a network is said
  Mistakes mistakes;
  ClusterChoice choice = read_cluster(
      parse_yaml(fmt::format("nodes: {{kind: {}, count: {}, nics: {}, network: {{kind: {}}}}}",
                             t.nodes, (t.devices + node - 1) / node, t.nics, t.network),
                 "nodes"),
      "", built_in_devices(), mistakes);
  mistakes.throw_if_any();
  return choice;
}

/// Operations of the forward and backward ops of a graph.
double model_flops(const OpGraph& graph) {
  double flops = 0.0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase != Phase::update) flops += static_cast<double>(graph.work(v).flops);
  return flops;
}

double weight_bytes(const OpGraph& graph) {
  double bytes = 0.0;
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == Phase::forward)
      bytes += static_cast<double>(graph.op(v).persistent.count);
  return bytes;
}

}  // namespace

std::string take(Words& words, std::string_view word) {
  const auto found = words.find(word);
  if (found == words.end()) return "";
  std::string value = std::move(found->second);
  words.erase(found);
  return value;
}

std::int64_t whole_of(const Words& words, std::string_view word, std::optional<std::int64_t> unsaid,
                      std::int64_t least) {
  const auto found = words.find(word);
  if (found == words.end() && unsaid) return *unsaid;
  if (found == words.end()) throw InputError(fmt::format("the row says no {}", word));
  const auto value = parse_number<std::int64_t>(found->second);
  if (!value || *value < least)
    throw InputError(fmt::format("{} '{}' is no number from {}", word, found->second, least));
  return *value;
}

double take_number(Words& words, std::string_view word) {
  const std::string text = take(words, word);
  const auto value = parse_number<double>(text);
  if (!value || *value <= 0.0)
    throw InputError(fmt::format("{} '{}' is no number above 0", word, text));
  return *value;
}

void set_model(Words& words, std::string_view model) {
  const auto known = std::ranges::find_if(known_models, [&](const KnownModel& m) {
    return m.generator.empty() ? model.starts_with(m.name) : model == m.name;
  });
  if (known == known_models.end()) throw InputError(fmt::format("no model '{}'", model));
  if (known->generator.empty()) throw InputError(fmt::format("{}: {}", model, known->why));
  std::string_view rest = known->generator;
  const std::size_t colon = rest.find(':');
  words["generator"] = rest.substr(0, colon);
  rest.remove_prefix(colon + 1);
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find(','));
    const std::size_t equals = option.find('=');
    words[std::string(option.substr(0, equals))] = option.substr(equals + 1);
    rest.remove_prefix(std::min(rest.size(), option.size() + 1));
  }
}

Words words_of(const CsvTable& table, std::size_t row, std::string_view columns) {
  Words words;
  while (!columns.empty()) {
    const std::string_view one = columns.substr(0, columns.find(", "));
    columns.remove_prefix(std::min(columns.size(), one.size() + 2));
    const std::size_t equals = one.find('=');
    const std::string_view word = equals == std::string_view::npos ? one : one.substr(equals + 1);
    const std::string& text = table.text(row, table.column(one.substr(0, equals)));
    if (!text.empty()) words[std::string(word)] = text;
  }
  return words;
}

void set_options(Options& options, const Words& words) {
  Options::Value kernels, config;
  for (const auto& [word, value] : words) {
    const auto entry = std::ranges::find_if(option_words, [&](const OptionWord& w) {
      return w.word == word && (w.generator.empty() || w.generator == options.owner());
    });
    if (entry == option_words.end()) {
      options.set(word, {value, {}, {}});
    } else if (entry->place == "kernels") {
      // Words for true and false.
      const bool named = word == "kernels", yes = value == "separate",
                 no = word == "balanced" || word == "fused_attention";
      if (value == "one" || value == "fused") continue;
      kernels.children.emplace_back(named ? value : entry->key,
                                    Options::Value{named || yes      ? "true"
                                                   : !no             ? value
                                                   : value == "true" ? "false"
                                                                     : "true",
                                                   ""});
    } else if (entry->place == "config") {
      config.children.emplace_back(entry->key, Options::Value{value, ""});
    } else {
      options.set(std::string(entry->key),
                  {word == "recompute_attention" ? "core_attn" : value, {}, {}});
    }
  }
  if (!kernels.children.empty()) options.set("kernels", std::move(kernels));
  if (!config.children.empty()) options.set("config", std::move(config));
}

Training training_of(Words words) {
  Training t;
  t.nodes = take(words, "nodes");
  t.as = take(words, "as");
  t.nics = take(words, "nics");
  t.network = take(words, "network");
  const auto take_whole = [&](std::string_view word, std::int64_t unsaid, std::int64_t least) {
    const std::int64_t value = whole_of(words, word, unsaid, least);
    take(words, word);
    return value;
  };
  t.devices = take_whole("devices", 1, 1);
  ParallelPlan& p = t.plan;
  p.tensor = take_whole("tensor", 1, 1);
  p.context = take_whole("context", 1, 1);
  p.expert = take_whole("expert", 1, 1);
  p.pipeline = take_whole("pipeline", 1, 1);
  p.chunks = take_whole("virtual", 1, 1);
  p.micro_batch = take_whole("micro_batch", 1, 1);
  p.sequence = take(words, "sequence") == "true" && p.tensor > 1;
  p.overlap = take(words, "overlap") == "true" && p.sequence;
  p.overlap_experts = take(words, "overlap_experts") == "true" && p.expert > 1;
  p.recompute = one_of_words(words, "recompute", Recomputing::off);
  p.recompute_layers = take_whole("recompute_layers", 0, 0);
  p.offload_layers = take_whole("offload_layers", 0, 0);
  p.count_ends = take(words, "count_ends") == "true";
  if (const std::string format = take(words, "precision"); !format.empty()) p.precision = format;
  p.zero = static_cast<int>(take_whole("zero", 0, 0));
  p.group = take_whole("fsdp", 0, 0);
  p.send = one_of_words(words, "send", Sending::by_mode);
  const std::int64_t of_a_replica = p.tensor * p.context * p.pipeline;
  if (t.devices % of_a_replica != 0)
    throw InputError(fmt::format("{} devices in replicas of {}", t.devices, of_a_replica));
  p.data = t.devices / of_a_replica;
  const bool shards = p.zero == 3;
  if (p.data * p.context == 1) p.zero = 0;
  t.job.batch = take_whole("batch", 1, 1);
  const std::string framework = take(words, "framework");
  Framework& f = t.job.framework = read_framework(framework.empty() ? "none" : framework);
  f.multi_tensor_update = shards;
  f.kernel_launch = std::chrono::microseconds(take_whole("host", 0, 0));
  if (take(words, "short_sums") == "true") f.grad_reduce_in_fp32 = false;
  f.fp8_attention = take(words, "short_attention") == "true";
  f.master_weights = one_of_words(words, "masters", MasterWeights::fp32);
  f.gemms_in_16_bits = take_list(words, "whole_products");
  f.recompute_modules = take_list(words, "recompute_modules");
  t.job.generator = take(words, "generator");
  t.job.options = Options(t.job.generator);
  set_options(t.job.options, words);
  return t;
}

TrainedStep trained(const Training& t) {
  if (const std::string why = t.plan.mistake(t.job.batch); !why.empty()) throw InputError(why);
  ClusterChoice choice = machines_of_row(t);
  const DeviceModel gpu = launched_by(
      t.job.framework, *device_kind(t.as.empty() ? choice.devices.front().kind : t.as, "--as"));
  const Bytes memory = t.as.empty() ? choice.devices.front().memory : gpu.memory;
  for (DeviceChoice& devices : choice.devices) devices.memory = Bytes{without_end * memory.count};
  const OpGraph graph = rank_graph(t.job, t.plan);
  const ParallelStep step(graph, t.job, t.plan,
                          std::make_shared<const Cluster>(make_cluster(choice)));
  const pipeline::PipelineResult result = step.simulated(gpu, true);
  TrainedStep s{.seconds = to_us(result.makespan) / 1e6};
  if (result.oom) throw InputError("more memory than 64 devices have");
  for (const pipeline::StageUse& stage : result.stages) s.peak = std::max(s.peak, stage.peak);
  s.last_peak = result.stages.back().peak;
  s.fits = s.peak <= memory;
  ParallelPlan once = t.plan;
  once.recompute = Recomputing::off;
  once.recompute_layers = once.offload_layers = 0;
  TrainingJob job = t.job;
  job.framework.recompute_modules.clear();
  const bool same = t.plan.recompute == Recomputing::off &&
                    t.job.framework.recompute_modules.empty() && t.plan.offload_layers == 0;
  const OpGraph plain = same ? graph : rank_graph(job, once);
  s.flops = model_flops(plain) * static_cast<double>(t.plan.micro_batches(t.job.batch)) /
            static_cast<double>(t.plan.pipeline);
  s.weights_read = weight_bytes(graph) / static_cast<double>(t.plan.pipeline);
  return s;
}

void score_seconds(const TrainedStep& step, PublishedRow& row) {
  row.simulated = step.seconds;
  row.work = step.flops;
}

std::optional<Comparison> compare_trainings(const std::string& folder, const TrainingFile& file) {
  Comparison all;
  const auto table = read_measured(folder, file.path, all.left);
  if (!table) return std::nullopt;
  struct Asked {
    Words words;
    TrainedStep step{};
    std::string why{};  ///< it cannot be asked
  };
  std::vector<Asked> asked;
  std::map<Words, std::size_t> known;
  std::vector<std::pair<PublishedRow, std::size_t>> rows;  // and what was asked
  each_row(*table, all.left, [&](std::size_t r) {
    Words words = words_of(*table, r, file.columns);
    PublishedRow row{.lines = {line_of(*table, r)}};
    if (!file.read(words, row)) return;
    const auto [found, added] = known.try_emplace(words, asked.size());
    if (added) asked.push_back({words});
    rows.emplace_back(std::move(row), found->second);
  });
  tbb::parallel_for(std::size_t{0}, asked.size(), [&](std::size_t i) {
    try {
      asked[i].step = trained(training_of(asked[i].words));
    } catch (const InputError& e) {
      asked[i].why = e.what();
    }
  });
  for (auto& [row, i] : rows) {
    if (!asked[i].why.empty()) {
      all.left.skip(row.lines[0], asked[i].why);
      continue;
    }
    row.refused = !asked[i].step.fits;
    file.score(asked[i].step, row);
    all.rows.push_back(std::move(row));
  }
  return all;
}

}  // namespace baechi::validate
