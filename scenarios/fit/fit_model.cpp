#include "scenarios/fit/fit_model.h"

#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "scenarios/run/build.h"
#include "sim/number_format.h"
#include "traces/importer.h"

namespace baechi {
namespace {

void set_option(FitModel& model, const std::string& key, const std::string& value) {
  model.options.set(key, {value, model.text, {}});
}

void read_published(FitModel& model, const PublishedModel& published) {
  const generate::PublishedConfig& config = published.config;
  model.generator = config.generator;
  model.options = parse_choice(published.generator(), "MODEL").options;
  model.notes = config.not_modelled;
  model.names = config.names;
  model.name = published.path.ends_with(".gguf") ? published.path : published.name;
  model.repository = published.repository;
  model.ollama = published.ollama;
  const auto said = [&](const char* key) {
    const auto found = config.values.find(key);
    return found == config.values.end() ? std::string() : found->second;
  };
  model.trained_context = parse_number<std::int64_t>(said("max_position_embeddings")).value_or(0);
  const Options::Value* asked = model.options.raw("weights", "");
  const std::string weights = asked != nullptr ? asked->text : said("weights"),
                    most = weights.substr(0, weights.find('+'));
  const bool mixed = (most == "q4_k" || most == "q5_k") && weights.find("=q6_k") != weights.npos;
  model.weights = weights.find("+experts=") != weights.npos ? weights : most + (mixed ? "_m" : "");
  if (model.generator == "llama" || model.generator == "moe") return;
  const std::string dtype = said("torch_dtype");
  if (dtype.ends_with("float16") && model.options.raw("dtype", "") == nullptr)
    set_option(model, "dtype", dtype == "bfloat16" ? "bf16" : "fp16");
  if (model.trained_context > 0 && model.options.raw("length", "") == nullptr)
    set_option(model, "length", std::to_string(std::min<std::int64_t>(model.trained_context, 512)));
}

Trace with_options(const FitModel& model, const FitVariant& v,
                   std::initializer_list<std::pair<const char*, std::string>> more) {
  Options options = model.options;
  const auto set = [&](const std::string& key, const std::string& value) {
    options.set(key, {value, model.text, {}});
  };
  set("batch", std::to_string(v.batch));
  for (const auto& [key, value] : more) set(key, value);
  if (model.writes && !v.flash && !v.vllm)
    model.generator == "moe" ? set("kernels", "unfused_attention")
                             : set("fused_attention", "false");
  // llama.cpp's files of gpt-oss, 12.1 and 63.4 GB, have 8 bits beside the experts; Ollama's 16.
  if (!v.weights.empty() && !model.train)
    set("weights", v.weights);
  else if (!v.vllm && model.ollama.empty() && model.weights == "bf16+experts=mxfp4" &&
           options.raw("weights", "") == nullptr)
    set("weights", "q8_0+experts=mxfp4");
  if (!v.cache.empty()) set("cache_dtype", v.cache);
  if (v.tensor > 1) set("tensor", std::to_string(v.tensor));
  return load_generated({.name = model.generator, .options = std::move(options)});
}

/// Frozen weights are in the variant's format.
Trace step_of_training(const FitModel& model, const FitVariant& v) {
  FitModel with = model;
  if (with.options.raw("dtype", "") == nullptr) set_option(with, "dtype", "fp16");
  set_training_kernels(with.options, v.weights);
  Trace trace = with_options(with, v, {});
  const auto apply = [&](const char* name, std::map<std::string, Options::Value> options) {
    trace.graph = make_transform(name, Options(name, std::move(options)))->apply(trace.graph).graph;
  };
  if (!v.weights.empty())
    apply("quantize", {{"weights", {v.weights, "", {}}}, {"kernels", {"separate", "", {}}}});
  apply("recompute", {});
  return trace;
}

}  // namespace

void set_training_kernels(Options& options, const std::string& frozen) {
  const Options::Value* given = options.raw("kernels", "");
  std::string kernels = given == nullptr ? "eager" : given->text;
  if (!frozen.empty())
    kernels =
        (kernels.find("fuse") == std::string::npos ? kernels + "+" : "") + "fuse_modules=false";
  options.set("kernels", {kernels, "MODEL", {}});
}

bool FitModel::gguf() const {
  const auto format = find_weight_format(weights.substr(0, weights.find('+')));
  return !format || format->gguf();
}

Trace FitModel::decode(const FitVariant& v) const {
  if (trace) return *trace;
  if (train) return step_of_training(*this, v);
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
  FitModel model{.text = text, .name = text, .repository = text};
  if (const auto published = published_model(text, false)) {
    read_published(model, *published);
  } else if (const std::string path = with_data_folder(text); is_file(path)) {
    model.trace = std::make_shared<const Trace>(read_trace(path));
    return model;
  } else {
    require_generator(text);
    Choice choice = parse_choice(text, "MODEL");
    model.generator = choice.name;
    model.options = std::move(choice.options);
    if (const auto* weights = model.options.raw("weights", "")) model.weights = weights->text;
    model.name = model.generator;
    for (const char* key : {"size", "config"})
      if (const auto* size = model.options.raw(key, "")) {
        model.name += "-" + size->text;
        if (const auto known = generate::known_model(model.name))
          model.repository = generate::hugging_face_id(*known);
      }
    if (model.repository == text) model.repository = model.name;
  }
  model.writes = model.generator == "llama" || model.generator == "moe";
  if (!dtype.empty()) set_option(model, "dtype", dtype);
  return model;
}

}  // namespace baechi
