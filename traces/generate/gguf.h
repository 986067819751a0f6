/// The header of a GGUF file: what llama.cpp and Ollama run.
#pragma once
#include "traces/generate/config.h"

namespace baechi::generate {

struct GgufHeader {
  /// The metadata as text: "general.architecture" -> "llama"; of a list "[LENGTH]". Whole numbers
  /// that are not negative are right, others have their bytes as such a number.
  std::map<std::string, std::string> values;
  struct Tensor {
    std::string type;  ///< "q4_k"
    std::int64_t numbers = 0;
  };
  std::map<std::string, Tensor> tensors;  ///< "blk.0.attn_q.weight"
};

bool is_gguf(const std::string& path);

/// Reads the header alone, so a file that is cut off behind it will do. Throws InputError.
/// Source: ggml, docs/gguf.md.
GgufHeader read_gguf(const std::string& path);

/// The same as read_published_config() for such a file, with `weights` by tensor. Throws
/// InputError.
PublishedConfig read_gguf_config(const std::string& path);

}  // namespace baechi::generate
