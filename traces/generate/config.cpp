#include "traces/generate/config.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "sim/text.h"
#include "traces/format/compressed_file.h"
#include "traces/generate/expand.h"

namespace baechi::generate {

extern const char* const models_json;  // made by CMake of traces/generate/models.json

namespace {

using Json = nlohmann::json;

struct ModelType {
  std::string_view type, generator;
};
constexpr auto model_types = std::to_array<ModelType>({{"gpt2", "gpt"},
                                                       {"llama", "llama"},
                                                       {"mistral", "llama"},
                                                       {"qwen2", "llama"},
                                                       {"qwen3", "llama"},
                                                       {"gemma", "llama"},
                                                       {"gemma2", "llama"},
                                                       {"gemma3_text", "llama"},
                                                       {"phi3", "llama"},
                                                       {"mixtral", "moe"},
                                                       {"qwen2_moe", "moe"},
                                                       {"qwen3_moe", "moe"},
                                                       {"gpt_oss", "moe"},
                                                       {"deepseek_v2", "moe"},
                                                       {"deepseek_v3", "moe"},
                                                       {"kimi_k2", "moe"},
                                                       {"nemotron_h", "hybrid"}});

/// What transformers takes where a config.json does not say it, if that is not our default.
struct Unsaid {
  std::string_view type, key, value;
};
constexpr auto unsaid = std::to_array<Unsaid>({{"gemma", "tie_word_embeddings", "true"},
                                               {"gemma2", "tie_word_embeddings", "true"},
                                               {"gemma2", "sliding_window", "4096"},
                                               {"gemma3_text", "tie_word_embeddings", "true"},
                                               {"gemma3_text", "num_attention_heads", "8"},
                                               {"gemma3_text", "num_key_value_heads", "4"},
                                               {"gemma3_text", "head_dim", "256"},
                                               {"gemma3_text", "vocab_size", "262208"},
                                               {"gemma3_text", "sliding_window", "4096"},
                                               {"gemma3_text", "sliding_window_pattern", "6"}});

/// Names in config.json of what our generators call `ours`. The first that is there counts.
struct Alias {
  std::string_view theirs, ours;
};
constexpr auto aliases = std::to_array<Alias>({
    {"num_hidden_layers", "num_hidden_layers"},
    {"n_layer", "num_hidden_layers"},
    {"hidden_size", "hidden_size"},
    {"n_embd", "hidden_size"},
    {"num_attention_heads", "num_attention_heads"},
    {"n_head", "num_attention_heads"},
    {"num_key_value_heads", "num_key_value_heads"},
    {"head_dim", "head_dim"},
    {"qk_nope_head_dim", "head_dim"},
    {"qk_rope_head_dim", "qk_rope_head_dim"},
    {"vocab_size", "vocab_size"},
    {"tie_word_embeddings", "tie_word_embeddings"},
    {"attention_bias", "attention_bias"},
    {"torch_dtype", "torch_dtype"},
    {"dtype", "torch_dtype"},
    {"layer_types", "layer_types"},
    {"kv_lora_rank", "kv_lora_rank"},
    {"q_lora_rank", "q_lora_rank"},
    {"first_k_dense_replace", "first_k_dense_replace"},
    {"num_local_experts", "num_local_experts"},
    {"n_routed_experts", "num_local_experts"},
    {"num_experts", "num_local_experts"},
    {"num_experts_per_tok", "num_experts_per_tok"},
    {"num_nextn_predict_layers", "num_nextn_predict_layers"},
    {"shared_expert_intermediate_size", "shared_expert_intermediate_size"},
    {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"},
    {"moe_latent_size", "moe_latent_size"},
    {"hybrid_override_pattern", "hybrid_override_pattern"},
    {"mtp_hybrid_override_pattern", "mtp_hybrid_override_pattern"},
    {"mamba_num_heads", "mamba_num_heads"},
    {"mamba_head_dim", "mamba_head_dim"},
    {"n_groups", "n_groups"},
    {"ssm_state_size", "ssm_state_size"},
});

/// Keys that change what is computed, with the value that changes nothing.
struct Plain {
  std::string_view key, value, why;
};
constexpr auto plain = std::to_array<Plain>({
    {"attn_logit_softcapping", "null", "scores are not capped"},
    {"final_logit_softcapping", "null", "logits are not capped"},
    {"partial_rotary_factor", "1.0", "positions are in all features of a head"},
    {"decoder_sparse_step", "1", "every layer has experts"},
    {"moe_layer_freq", "1", "every layer has experts"},
    {"mlp_only_layers", "[]", "every layer has experts"},
    {"mlp_bias", "false", "products of feed-forward networks have no biases of their own"},
});

std::string text_of_value(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_said(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  return found != json.end() && !found->is_null();
}

/// The format of weights, as of Hugging Face's quantizers.
void add_weights(const Json& json, PublishedConfig& config) {
  const std::string method = json.value("quant_method", "");
  std::string format = method;
  const std::int64_t group = json.value("group_size", std::int64_t{128});
  const std::int64_t bits = json.value("bits", std::int64_t{4});
  if (json.value("load_in_4bit", false))
    format = json.value("bnb_4bit_use_double_quant", false)
                 ? "nf4_double"
                 : json.value("bnb_4bit_quant_type", "fp4");
  else if (json.value("load_in_8bit", false))
    format = "int8";
  else if ((method == "gptq" || method == "awq") && group != 128)
    format = fmt::format("{}_{}", method, group);
  else if (method == "fp8" && is_said(json, "weight_block_size"))
    format = "fp8_block";
  else if (method == "mxfp4")
    format = "bf16+experts=mxfp4";
  if (find_weight_format(format.substr(0, format.find('+'))) && bits == 4)
    config.values["weights"] = format;
  else
    config.not_modelled.emplace_back("quantization_config: weights are in the model's dtype");
}

/// Keys whose meaning depends on the model's type.
void add_by_type(const Json& json, const std::string& type, PublishedConfig& config) {
  const auto set = [&](std::string_view ours, std::string_view theirs) {
    if (is_said(json, theirs)) config.values.emplace(ours, text_of_value(json.at(theirs)));
  };
  const bool experts = config.generator == "moe";
  if (experts || config.generator == "hybrid")
    set(experts ? "moe_intermediate_size" : "intermediate_size", "moe_intermediate_size");
  if (experts && !is_said(json, "moe_intermediate_size"))
    set("moe_intermediate_size", "intermediate_size");
  else
    set("intermediate_size", type == "gpt2" ? "n_inner" : "intermediate_size");
  if (is_said(json, "n_shared_experts") && is_said(json, "moe_intermediate_size") &&
      !config.values.contains("shared_expert_intermediate_size"))
    config.values["shared_expert_intermediate_size"] =
        std::to_string(json.at("n_shared_experts").get<std::int64_t>() *
                       json.at("moe_intermediate_size").get<std::int64_t>());
  if (type.starts_with("qwen2"))
    config.not_modelled.push_back(type + ": biases of queries, keys, values");
  if (type.starts_with("gemma"))
    config.not_modelled.push_back(fmt::format(
        "{}: {}GeLU in place of SiLU", type, type == "gemma" ? "" : "two more norms of a layer, "));
  if (type.starts_with("qwen3") || type == "gemma3_text") config.values["use_qk_norm"] = "true";
  if (!is_said(json, "sliding_window") || json.value("use_sliding_window", true) == false) return;
  const bool all = (type == "mistral" || type == "phi3") && !is_said(json, "layer_types");
  if (all) config.values["layer_types"] = "sliding_attention";
  if (is_said(json, "sliding_window_pattern") && !is_said(json, "layer_types"))
    for (std::int64_t i = 1; i <= json.at("num_hidden_layers").get<std::int64_t>(); ++i)
      config.values["layer_types"] += i % json.at("sliding_window_pattern").get<std::int64_t>() == 0
                                          ? "full_attention "
                                          : "sliding_attention ";
  if (type == "gpt_oss" || type == "gemma2" || config.values.contains("layer_types"))
    set("sliding_window", "sliding_window");
  else
    config.not_modelled.emplace_back("sliding_window: every token sees all before it");
}

PublishedConfig published(Json json, const std::string& path) {
  if (!json.is_object()) throw InputError(fmt::format("{}: no JSON object", path));
  if (is_said(json, "text_config") && json.at("text_config").is_object()) {
    PublishedConfig text = published(json.at("text_config"), path);
    text.not_modelled.emplace_back("text_config: of the model this part alone");
    return text;
  }
  const std::string type = json.value("model_type", "");
  const auto known = std::ranges::find(model_types, type, &ModelType::type);
  if (known == model_types.end()) {
    std::vector<std::string_view> types;
    for (const ModelType& one : model_types) types.push_back(one.type);
    throw InputError(fmt::format("{}: no generator has model_type '{}' (those of {})", path, type,
                                 fmt::join(types, ", ")));
  }
  PublishedConfig config{.generator = std::string(known->generator)};
  for (const auto& [of, key, value] : unsaid)
    if (of == type && !is_said(json, key)) json[key] = Json::parse(value);
  for (const auto& [key, other] : {std::pair("num_hidden_layers", "n_layer"),
                                   {"hidden_size", "n_embd"},
                                   {"num_attention_heads", "n_head"},
                                   {"vocab_size", "vocab_size"}})
    if (!is_said(json, key) && !is_said(json, other) && config.generator != "hybrid")
      throw InputError(fmt::format("{}: it has no '{}'", path, key));
  for (const auto& [theirs, ours] : aliases)
    if (is_said(json, theirs)) config.values.emplace(ours, text_of_value(json.at(theirs)));
  add_by_type(json, type, config);
  if (is_said(json, "quantization_config")) add_weights(json.at("quantization_config"), config);
  for (const auto& [key, value, why] : plain)
    if (is_said(json, key) && json.at(key).dump() != value)
      config.not_modelled.push_back(fmt::format("{}: {}", key, why));
  return config;
}

const Json& models() {
  static const Json all = Json::parse(models_json);
  return all;
}

/// The values of a model by its name in models.json, or of a file.
PublishedConfig config_of(std::string_view generator, const std::string& name,
                          const Options& options, const std::string& where) {
  const Json known = models().value(generator, Json::object());
  if (known.contains(name)) return published(known.at(name), name);
  if (name.ends_with(".json")) {
    const std::string path =
        name.starts_with('/') || options.base().empty() ? name : options.base() + "/" + name;
    PublishedConfig config = read_published_config(read_file(path), path);
    if (config.generator != generator)
      throw InputError(
          fmt::format("{}{}: generator {} makes this model", at(where), path, config.generator));
    return config;
  }
  std::vector<std::string> names;
  for (const auto& [one, value] : known.items()) names.push_back(one);
  throw InputError(
      fmt::format("{}{}.config: '{}' is not {}a config.json{}", at(where), generator, name,
                  names.empty() ? "" : fmt::format("one of {}, nor ", fmt::join(names, ", ")),
                  did_you_mean(name, names)));
}

}  // namespace

PublishedConfig read_published_config(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw InputError(fmt::format("{}: not JSON", path));
  return published(json, path);
}

Config::Config(Options& options, std::string_view generator, std::string_view fallback,
               std::string_view keys) {
  const Options::Value* given = options.raw(
      "config", fmt::format("a config.json as Hugging Face publishes it{}{}; keys in place of its "
                            "own behind +: {}",
                            fallback.empty() ? "" : ", or a model of traces/generate/models.json, ",
                            fallback.empty() ? "" : fmt::format("such as {}", fallback), keys));
  std::map<std::string, Options::Value> entries;
  const std::string where = given == nullptr ? "" : given->where;
  name_ = fallback;
  if (given != nullptr) {
    for (const auto& [key, value] : given->children) entries[key] = value;
    if (const auto like = entries.extract("like"); !like.empty()) name_ = like.mapped().text;
    std::string_view text = given->text;
    for (bool first = true; !text.empty(); first = false) {
      const std::string_view entry = text.substr(0, text.find('+'));
      const std::size_t equals = entry.find('=');
      if (equals != std::string_view::npos)
        entries[std::string(entry.substr(0, equals))] = {std::string(entry.substr(equals + 1)),
                                                         where};
      else if (first)
        name_ = entry;
      else
        options.mistake("config", fmt::format("'{}' is not KEY=VALUE", entry));
      text.remove_prefix(std::min(text.size(), entry.size() + 1));
    }
  }
  const std::string owner = options.owner().empty() ? "" : options.owner() + ".config";
  own_ = Options(owner, std::move(entries), options.base());
  if (!name_.empty()) published_ = config_of(generator, name_, options, where).values;
  published_options_ = Options(owner);
  for (const auto& [key, value] : published_) published_options_.set(key, {value, where});
  if (const std::size_t slash = name_.rfind('/'); slash != std::string::npos)
    name_ = name_.substr(slash + 1);
}

}  // namespace baechi::generate
