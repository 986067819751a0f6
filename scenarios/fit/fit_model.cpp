#include "scenarios/fit/fit_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/fit/gguf.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "scenarios/run/build.h"
#include "traces/format/compressed_file.h"
#include "traces/generate/config.h"
#include "traces/importer.h"

namespace baechi {
namespace {

void set_option(FitModel& model, const std::string& key, const std::string& value) {
  model.options.set(key, {value, model.text, {}});
}

void read_published(FitModel& model, const std::string& path) {
  const std::string text = read_file(path);
  const generate::PublishedConfig config = generate::read_published_config(text, path);
  const auto json = nlohmann::json::parse(text);
  model.generator = config.generator;
  set_option(model, "config", path);
  model.notes = config.not_modelled;
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  model.name = folder.filename().string();
  model.trained_context = json.value("max_position_embeddings", std::int64_t{0});
  if (const auto said = config.values.find("weights"); said != config.values.end())
    model.weights = said->second;
}

constexpr auto gguf_names =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"attn_q", "q_proj"},
                                                                  {"attn_k", "k_proj"},
                                                                  {"attn_v", "v_proj"},
                                                                  {"attn_output", "o_proj"},
                                                                  {"ffn_gate", "gate_proj"},
                                                                  {"ffn_up", "up_proj"},
                                                                  {"ffn_down", "down_proj"},
                                                                  {"ffn_gate_exps", "gate_proj"},
                                                                  {"ffn_up_exps", "up_proj"},
                                                                  {"ffn_down_exps", "down_proj"},
                                                                  {"token_embd", "embed_tokens"},
                                                                  {"output", "lm_head"}});

/// "layer_3/v_proj" of "blk.3.attn_v.weight"; "" of what is no matrix of the generators.
std::string tensor_of(std::string name) {
  if (!name.ends_with(".weight")) return "";
  name.resize(name.rfind('.'));
  const std::string layer = name.starts_with("blk.") ? name.substr(4, name.rfind('.') - 4) : "";
  const auto* const found = std::ranges::find(gguf_names, name.substr(name.rfind('.') + 1),
                                              &decltype(gguf_names)::value_type::first);
  if (found == gguf_names.end()) return "";
  return (layer.empty() ? "" : "layer_" + layer + "/") + std::string(found->second);
}

/// The type of most numbers, and the types of tensors that have another.
void read_types(FitModel& model, const GgufHeader& header, bool tied) {
  std::map<std::string, std::int64_t> numbers;
  for (const auto& [name, tensor] : header.tensors) numbers[tensor.type] += tensor.numbers;
  if (numbers.empty()) return;
  const auto& [most, count] =
      *std::ranges::max_element(numbers, {}, [](const auto& of) { return of.second; });
  std::string weights = most;
  for (const auto& [name, tensor] : header.tensors) {
    const std::string ours = tensor_of(name);
    if (ours.empty() || tensor.type == most) continue;
    weights +=
        fmt::format("+{}={}", tied && ours == "embed_tokens" ? "lm_head" : ours, tensor.type);
  }
  set_option(model, "weights", weights);
  const bool mixed = numbers.contains("q6_k") && (most == "q4_k" || most == "q5_k");
  model.weights = most + (mixed ? "_m" : "");
}

void read_gguf_model(FitModel& model, const std::string& path) {
  const GgufHeader header = read_gguf(path);
  const auto said = [&](const std::string& key) {
    const auto found = header.values.find(key);
    return found == header.values.end() ? std::string() : found->second;
  };
  const std::string architecture = said("general.architecture");
  constexpr auto known = std::to_array<std::string_view>(
      {"llama", "mistral", "qwen2", "qwen3", "qwen2moe", "qwen3moe"});
  if (std::ranges::find(known, architecture) == known.end())
    throw InputError(fmt::format("{}: general.architecture '{}' is not modelled (those of {})",
                                 path, architecture, fmt::join(known, ", ")));
  const auto of = [&](const char* key) { return said(architecture + "." + key); };
  const bool experts = !of("expert_count").empty();
  model.generator = experts ? "moe" : "llama";
  const bool own = !of("expert_feed_forward_length").empty();
  for (const auto& [theirs, ours] : std::to_array<std::pair<const char*, const char*>>(
           {{"block_count", "num_hidden_layers"},
            {"embedding_length", "hidden_size"},
            {"attention.head_count", "num_attention_heads"},
            {"attention.head_count", "num_key_value_heads"},  // unless the next says so
            {"attention.head_count_kv", "num_key_value_heads"},
            {"attention.key_length", experts ? "" : "head_dim"},
            {own ? "expert_feed_forward_length" : "feed_forward_length",
             experts ? "moe_intermediate_size" : "intermediate_size"},
            {"expert_count", "num_local_experts"},
            {"expert_used_count", "num_experts_per_tok"}}))
    if (*ours != '\0' && !of(theirs).empty()) set_option(model, ours, of(theirs));
  const bool tied = !header.tensors.contains("output.weight");
  set_option(model, "tie_word_embeddings", tied ? "true" : "false");
  const std::string words =
      of("vocab_size").empty() ? said("tokenizer.ggml.tokens") : of("vocab_size");
  if (!words.empty()) set_option(model, "vocab_size", words);
  model.trained_context = parse_number<std::int64_t>(of("context_length")).value_or(0);
  model.name = path;
  read_types(model, header, tied);
}

Trace with_options(const FitModel& model, const FitVariant& v,
                   std::initializer_list<std::pair<const char*, std::string>> more) {
  Options options = model.options;
  const auto set = [&](const std::string& key, const std::string& value) {
    options.set(key, {value, model.text, {}});
  };
  set("batch", std::to_string(v.batch));
  for (const auto& [key, value] : more) set(key, value);
  if (model.writes && !v.flash)
    model.generator == "moe" ? set("kernels", "unfused_attention")
                             : set("fused_attention", "false");
  if (!v.weights.empty()) set("weights", v.weights);
  if (!v.cache.empty()) set("cache_dtype", v.cache);
  return load_generated({.name = model.generator, .options = std::move(options)});
}

}  // namespace

Trace FitModel::decode(const FitVariant& v) const {
  if (trace) return *trace;
  if (!writes) return with_options(*this, v, {{"training", "false"}});
  return with_options(*this, v,
                      {{"pass", "decode"},
                       {"context", std::to_string(v.context - 1)},
                       {"cache", std::to_string(v.context)}});
}

Trace FitModel::prefill(const FitVariant& v, std::int64_t before, std::int64_t tokens) const {
  return with_options(*this, v,
                      {{"pass", "prefill"},
                       {"tokens", std::to_string(tokens)},
                       {"context", std::to_string(before)},
                       {"cache", std::to_string(v.context)}});
}

FitModel read_fit_model(const std::string& text, const std::string& dtype) {
  FitModel model{.text = text, .name = text};
  const std::string path = with_data_folder(text);
  if (const auto published = published_path(text)) {
    read_published(model, *published);
  } else if (is_gguf(path)) {
    read_gguf_model(model, path);
  } else if (std::filesystem::is_regular_file(path)) {
    model.trace = std::make_shared<const Trace>(read_trace(path));
    return model;
  } else {
    Choice choice = parse_choice(text, "MODEL");
    model.generator = choice.name;
    model.options = std::move(choice.options);
    if (const auto* weights = model.options.raw("weights", "")) model.weights = weights->text;
    model.name = model.generator;
    for (const char* key : {"size", "config"})
      if (const auto* size = model.options.raw(key, "")) model.name += "-" + size->text;
  }
  model.writes = model.generator == "llama" || model.generator == "moe";
  if (!dtype.empty()) set_option(model, "dtype", dtype);
  return model;
}

}  // namespace baechi
