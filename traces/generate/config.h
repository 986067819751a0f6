/// Shapes of language models: config.json as Hugging Face publishes it.
#pragma once

#include "sim/options.h"

namespace baechi::generate {

/// What a config.json says, in the names of our generators' options and of their option `config`.
struct PublishedConfig {
  std::string generator;  ///< the one for its model_type
  std::map<std::string, std::string> values{};
  std::vector<std::string> not_modelled{};  ///< "KEY: why", of keys that change the computation
  std::string also{};                       ///< another generator that makes this model
  /// Our names of modules to those of transformers, where they differ from Llama's:
  /// "layer_" -> "transformer.h.".
  std::map<std::string, std::string> names{};
};
/// Throws InputError, with `path`, if the text is no JSON object or no generator has its
/// model_type.
PublishedConfig read_published_config(std::string_view text, const std::string& path);
/// The same of a file, a config.json or a GGUF file, or of a name in models.json.
PublishedConfig read_published_file(const std::string& path);
/// The model_type of a GGUF file's general.architecture, or that name.
std::string family_of_gguf(const std::string& architecture, bool experts);

/// A row of traces/generate/models.json.
struct KnownModel {
  std::string name, generator, source;
  std::int64_t parameters = 0;  ///< as its model card states them; 0: not known
};
std::vector<KnownModel> known_models();
/// The name there of a model as people write it: "Qwen/Qwen2.5-7B-Instruct", "qwen2.5:7b". Case,
/// organization, separators and the words of releases with the same shapes do not count.
std::optional<std::string> known_model(std::string_view text);
/// Cuts the word for a format of weights off a name of huggingface.co: "awq" of
/// "Qwen/Qwen2.5-7B-Instruct-AWQ"; "gguf" where files have any; "": none.
std::string take_format(std::string& name);
/// The model of a row as huggingface.co names it.
std::string hugging_face_id(const std::string& known);
/// The word of `text` that names a release other than the row's, such as v0.2; "": none.
std::string other_release(std::string_view text, const std::string& known);

/// The option `config` of a generator: a model of traces/generate/models.json or a config.json, and
/// keys in place of its own: "deepseek-v3+num_nextn_predict_layers=1", or a mapping whose key
/// `like` names the model. The generator's other options replace these.
class Config {
 public:
  /// Without the option it is `fallback`; "": no model. Throws InputError.
  Config(Options& options, std::string_view generator, std::string_view fallback,
         std::string_view keys);

  const std::string& name() const { return name_; }
  std::int64_t whole(const std::string& key, std::int64_t fallback, std::int64_t least = 0,
                     std::int64_t most = 10'000'000) {
    return of(key).get(key, fallback, "", least, most);
  }
  double number(const std::string& key, double fallback, double least, double most) {
    return of(key).get(key, fallback, "", least, most);
  }
  bool flag(const std::string& key, bool fallback) { return of(key).get(key, fallback, ""); }
  std::string text(const std::string& key, std::string_view fallback) {
    return of(key).get(key, std::string(fallback).c_str(), "");
  }
  std::string one_of(const std::string& key, const std::vector<std::string>& words) {
    return of(key).get(key, words, "");
  }
  /// Throws InputError for keys in place of the model's own that nobody read, and wrong values.
  void finish() const { own_.finish(); }

 private:
  /// The options that say `key`.
  Options& of(const std::string& key) {
    return published_.contains(key) && own_.raw(key, "") == nullptr ? published_options_ : own_;
  }

  std::string name_;
  std::map<std::string, std::string> published_;
  Options own_, published_options_;
};

}  // namespace baechi::generate
