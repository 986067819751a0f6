/// The model that `fit` is asked about, and its graphs.
#pragma once
#include <memory>

#include "traces/trace.h"

namespace baechi {

/// How a model runs, as far as it changes the graph. "": as the model says.
struct FitVariant {
  std::string weights{}, cache{};  ///< formats
  bool flash = false;              ///< attention that does not write its scores
  bool vllm = false;               ///< vLLM runs it, else llama.cpp
  std::int64_t tensor = 1;         ///< GPUs that share each layer: the graph is that of one
  std::int64_t context = 0;        ///< tokens of a sequence
  std::int64_t batch = 1;          ///< sequences
};

struct FitModel {
  std::string text;         ///< as typed
  std::string name;         ///< for answers and file names
  std::string repository;   ///< the id on huggingface.co, folder or file that commands name
  std::string ollama{};     ///< the model's name there, if it was asked by it
  std::string generator{};  ///< "": `trace` is the graph, whatever the variant
  Options options{};        ///< of the generator
  std::shared_ptr<const Trace> trace{};
  bool train = false;                ///< a step of 16 bits that recomputes its layers
  bool writes = false;               ///< text, token by token: it has a context and a cache
  std::int64_t trained_context = 0;  ///< 0: unknown
  std::vector<std::string> notes{};  ///< what is not modelled
  std::string weights{};             ///< their format, for commands; "": 16 bits
  /// Modules of transformers that are not as Llama's, by ours: "layer_" -> "transformer.h.".
  std::map<std::string, std::string> names{};

  /// Whether llama.cpp has the format of its weights; else vLLM runs it.
  bool gguf() const;
  Trace decode(const FitVariant& variant) const;  ///< the last token; the step; or the trace
  /// The pass over `tokens` more tokens behind `before`.
  Trace prefill(const FitVariant& variant, std::int64_t before, std::int64_t tokens) const;
};

/// Lets PyTorch without a compiler train the model, unless its option `kernels` says what does.
/// `frozen`: the format of weights that are not trained, whose modules stay apart.
void set_training_kernels(Options& options, const std::string& frozen);

/// Reads a generator with options, Hugging Face's config.json, a GGUF file or a trace. `dtype`: of
/// activations and weights; "": the model's, else fp16. Throws InputError.
FitModel read_fit_model(const std::string& text, const std::string& dtype);

}  // namespace baechi
