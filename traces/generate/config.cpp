#include "traces/generate/config.h"

#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/text.h"
#include "traces/format/compressed_file.h"
#include "traces/generate/expand.h"
#include "traces/generate/gguf.h"

namespace baechi::generate {

// Made by CMake of the files in traces/generate/.
extern const char *const models_json, *const families_json;

namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

std::string text_of_value(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The value of a key, or of keys with dots between that lead into objects; null if it is not said.
const Json* said(const Json& json, std::string_view key) {
  const std::size_t dot = std::min(key.find('.'), key.size());
  const auto found = json.find(key.substr(0, dot));
  if (found == json.end() || found->is_null()) return nullptr;
  if (dot == key.size()) return &*found;
  return found->is_object() ? said(*found, key.substr(dot + 1)) : nullptr;
}
bool is_said(const Json& json, std::string_view key) { return said(json, key) != nullptr; }

/// A value of families.json: "$KEY" is what the configuration says, "2*$KEY*$KEY" a product.
/// Nothing if a key is not said.
std::optional<std::string> value_of(const Json& rule, const Json& json) {
  std::string text = text_of_value(rule);
  if (text.find('$') == std::string::npos) return text;
  double product = 1.0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view factor = rest.substr(0, rest.find('*'));
    const Json* value = factor.starts_with('$') ? said(json, factor.substr(1)) : nullptr;
    if (factor.starts_with('$') && (value == nullptr || !value->is_number())) return std::nullopt;
    product *= value != nullptr ? value->get<double>() : parse_number<double>(factor).value_or(1);
    rest.remove_prefix(std::min(rest.size(), factor.size() + 1));
  }
  return std::to_string(std::llround(product));
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

const Ordered& families() {
  static const Ordered all = Ordered::parse(families_json);
  return all;
}

const Ordered& part_of(const Ordered& row, const char* key) {
  static const Ordered none = Ordered::object();
  const auto found = row.find(key);
  return found == row.end() ? none : *found;
}

[[noreturn]] void refuse(const Json& json, const std::string& type, const std::string& path) {
  std::vector<std::string> types;
  std::string nearest = is_said(json, "num_experts_per_tok")  ? "mixtral"
                        : is_said(json, "num_decoder_layers") ? "t5"
                                                              : "llama";
  std::string why = "other keys may mean other layers";
  for (const auto& [name, row] : families()["families"].items())
    if (!row.contains("nearest")) types.push_back(name);
  if (const auto row = families()["families"].find(type); row != families()["families"].end())
    nearest = row->value("nearest", ""), why = row->value("why", "other layers");
  throw InputError(
      fmt::format("{}: no generator has model_type '{}' (those of {}); the nearest is {}: {}", path,
                  type, fmt::join(types, ", "), nearest, why));
}

/// The rows that say a family: its own, those that it is like, what is common to all.
std::vector<const Ordered*> rows_of(const Json& json, const std::string& path) {
  std::vector<const Ordered*> rows;
  const Json* said_type = said(json, "model_type");
  const std::string type =
      said_type != nullptr && said_type->is_string() ? said_type->get<std::string>() : "";
  for (std::string at = type; !at.empty() || rows.empty(); at = rows.back()->value("like", "")) {
    const auto found = families()["families"].find(at);
    if (found == families()["families"].end() || found->contains("nearest"))
      refuse(json, type, path);
    rows.push_back(&*found);
  }
  rows.push_back(&families()["common"]);
  return rows;
}

void apply_rules(const Json& json, const Ordered& row, std::map<std::string, std::string>& values) {
  for (const Ordered& rule : part_of(row, "says")) {
    bool holds = true;
    for (const auto& [key, wanted] : part_of(rule, "if").items()) {
      const Json* found = said(json, key);
      holds = holds && found != nullptr && *found == Json(wanted);
    }
    for (const auto& [ours, value] : rule.items()) {
      if (!holds || ours == "if") continue;
      if (value.is_null()) {
        values.erase(ours);
      } else if (const auto text = value_of(value, json)) {
        values[ours] = text->starts_with('+') ? values[ours] + text->substr(1) : *text;
      }
    }
  }
}

/// Which layers see a window alone.
void add_windows(const Json& json, bool alternates, PublishedConfig& config) {
  if (!config.values.contains("sliding_window")) return;
  const Json* every = said(json, "sliding_window_pattern");
  const bool listed = config.values.contains("layer_types");
  if (!listed && every != nullptr && every->is_number_integer() && every->get<std::int64_t>() > 0)
    for (std::int64_t i = 1;
         i <= parse_number<std::int64_t>(config.values["num_hidden_layers"]).value_or(1); ++i)
      config.values["layer_types"] +=
          i % every->get<std::int64_t>() == 0 ? "full_attention " : "sliding_attention ";
  else if (!listed && !alternates) {
    config.values.erase("sliding_window");
    config.not_modelled.emplace_back("sliding_window: every token sees all before it");
  }
}

PublishedConfig published(Json json, const std::string& path) {
  if (!json.is_object()) throw InputError(fmt::format("{}: no JSON object", path));
  if (is_said(json, "text_config") && json.at("text_config").is_object()) {
    PublishedConfig text = published(json.at("text_config"), path);
    text.not_modelled.emplace_back("text_config: of the model this part alone");
    return text;
  }
  const std::vector<const Ordered*> rows = rows_of(json, path);
  PublishedConfig config;
  bool alternates = false;
  for (const Ordered* row : rows) {
    for (const auto& [key, value] : part_of(*row, "unsaid").items())
      if (!is_said(json, key)) json[key] = Json(value);
    for (const auto& [part, name] : part_of(*row, "names").items())
      config.names.emplace(part, name);
    if (config.generator.empty()) config.generator = row->value("generator", "");
    if (config.also.empty()) config.also = row->value("also", "");
    alternates = alternates || row->value("alternates", false);
  }
  for (const Ordered* row : rows)
    for (const auto& [theirs, ours] : part_of(*row, "keys").items())
      if (const Json* value = said(json, theirs))
        config.values.emplace(ours, text_of_value(*value));
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) apply_rules(json, **row, config.values);
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"})
    if (!config.values.contains(key) && config.generator != "hybrid")
      throw InputError(fmt::format("{}: it has no '{}'", path, key));
  add_windows(json, alternates, config);
  if (is_said(json, "quantization_config")) add_weights(json.at("quantization_config"), config);
  for (const Ordered& row : families()["plain"])
    if (const Json* value = said(json, row[0].get<std::string>());
        value != nullptr && *value != Json(row[1]))
      config.not_modelled.push_back(
          fmt::format("{}: {}", row[0].get<std::string>(), row[2].get<std::string>()));
  return config;
}

/// A row with `like` has what that row says, but for its names and what it says itself.
const Json& models() {
  static const Json all = [] {
    Json rows = Json::parse(models_json);
    for (Json& row : rows) {
      if (!row.contains("like")) continue;
      Json whole = rows.at(row["like"].get<std::string>());
      whole.erase("short"), whole.erase("names");
      whole.update(row);
      row = std::move(whole);
    }
    return rows;
  }();
  return all;
}

/// The words of a name in lower case, without organization and words that leave the shapes as they
/// are.
std::vector<std::string> words_of(std::string_view name) {
  constexpr auto unshaped = std::to_array<std::string_view>(
      {"meta", "instruct", "it", "chat", "hf", "base", "pt", "math"});
  std::vector<std::string> words;
  name.remove_prefix(name.rfind('/') + 1);
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of("-_:"), name.size());
    std::string word = lower(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
    if (std::ranges::find(unshaped, word) == unshaped.end()) words.push_back(std::move(word));
  }
  return words;
}

/// A word such as v0.3, 2407 and 4k.
bool is_release(const std::string& word) {
  return (word.size() > 1 && word[0] == 'v' && word[1] < ':') || word == "4k" ||
         (word.size() == 4 && parse_number<int>(word));
}

std::string plain_name(std::string_view name, bool releases = true) {
  std::string plain;
  for (const std::string& word : words_of(name))
    if (releases || !is_release(word)) plain += word;
  return plain;
}

/// The values of a model by its name in models.json, or of a file.
PublishedConfig config_of(std::string_view generator, const std::string& name,
                          const Options& options, const std::string& where) {
  const auto made = [&](PublishedConfig config, const std::string& path) {
    if (config.generator != generator && config.also != generator)
      throw InputError(
          fmt::format("{}{}: generator {} makes this model", at(where), path, config.generator));
    return config;
  };
  for (const auto& [full, row] : models().items())
    if (name == full || name == row.value("short", full)) return made(published(row, full), name);
  if (name.ends_with(".json") || name.ends_with(".gguf")) {
    const std::string path =
        name.starts_with('/') || options.base().empty() ? name : options.base() + "/" + name;
    return made(read_published_file(path), path);
  }
  std::vector<std::string> names;
  for (const KnownModel& known : known_models())
    if (known.generator == generator) names.push_back(known.name);
  throw InputError(fmt::format("{}{}.config: '{}' is not {}a config.json{}", at(where), generator,
                               name, names.empty() ? "" : "one of 'baechi list models', nor ",
                               did_you_mean(name, names)));
}

}  // namespace

PublishedConfig read_published_config(std::string_view text, const std::string& path) {
  // What is nested deeper would overflow the stack.
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > 64) throw InputError(fmt::format("{}: nested too deeply", path));
    return true;
  };
  const Json json = Json::parse(text, shallow, false);
  if (json.is_discarded()) throw InputError(fmt::format("{}: not JSON", path));
  return published(json, path);
}

PublishedConfig read_published_file(const std::string& path) {
  if (models().contains(path)) return published(models().at(path), path);
  return is_gguf(path) ? read_gguf_config(path) : read_published_config(read_file(path), path);
}

std::vector<KnownModel> known_models() {
  std::vector<KnownModel> known;
  for (const auto& [name, row] : models().items())
    known.push_back({.name = name,
                     .generator = published(row, name).generator,
                     .source = row.value("source", ""),
                     .parameters = row.value("parameters", std::int64_t{0})});
  return known;
}

std::optional<std::string> known_model(std::string_view text) {
  for (const auto& [name, row] : models().items())
    if (const auto names = row.find("names");
        names != row.end() && std::ranges::count(*names, Json(lower(text))) > 0)
      return name;
  for (const bool releases : {true, false}) {
    const std::string plain = plain_name(text, releases);
    for (const auto& [name, row] : models().items())
      if (plain == plain_name(name) || plain == plain_name(hugging_face_id(name))) return name;
  }
  return std::nullopt;
}

std::string hugging_face_id(const std::string& known) {
  const std::string source = models().at(known).value("source", "");
  return source.substr(0, source.find_first_of(",;"));
}

std::string take_format(std::string& name) {
  for (const auto& [ending, format] : families()["endings"].items()) {
    if (!lower(name).ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    return format.get<std::string>();
  }
  return "";
}

std::string other_release(std::string_view text, const std::string& known) {
  const std::string row = plain_name(known) + plain_name(hugging_face_id(known));
  for (const std::string& word : words_of(text))
    if (is_release(word) && row.find(word) == row.npos) return word;
  return "";
}

std::string family_of_gguf(const std::string& architecture, bool experts) {
  for (const auto& [name, row] : families()["families"].items()) {
    const Ordered* base = &row;
    while (!base->contains("generator") && base->contains("like"))
      base = &families()["families"][base->value("like", "")];
    if (row.value("gguf", "") == architecture && (base->value("generator", "") == "moe") == experts)
      return name;
  }
  return architecture;
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
