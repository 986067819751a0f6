/// The forward pass of a language model that writes text: prefill of a prompt, or decode.
#pragma once

#include "sim/number_format.h"
#include "traces/generate/config.h"
#include "traces/generate/model.h"

namespace baechi::generate {

enum class Pass : std::uint8_t { train, prefill, decode };
constexpr auto names_of(Pass) {
  return std::to_array<Named<Pass>>({{Pass::train, "train", "a step of a training"},
                                     {Pass::prefill, "prefill", "reads a prompt"},
                                     {Pass::decode, "decode", "writes the next token"}});
}

/// What a pass computes, and the formats of its numbers. Layers count words of 32 bits;
/// activations take `number` bytes instead, and weights and the cache their own formats.
struct Inference {
  Pass pass = Pass::train;
  std::int64_t batch = 1;      ///< sequences
  std::int64_t tokens = 1;     ///< of each sequence, that this pass computes
  std::int64_t context = 0;    ///< of each sequence, in the cache before
  std::int64_t allocated = 1;  ///< of each sequence, that the cache has room for
  std::int64_t number = word.count;
  Precision dtype = Precision::fp32;
  const NumberFormat* cache = nullptr;
  std::optional<WeightFormat> weights{};  ///< none: as activations
  bool all_logits = false;                ///< else those of each sequence's last token
  std::int64_t layers = 0;
  bool shared_keys = false;  ///< heads share keys and values
  bool tied = false;         ///< the head has the embedding's weights
  std::int64_t experts = 0;  ///< of a layer
  /// Formats of single tensors, in place of `weights`: "layer_3/v_proj", "lm_head"; or
  /// "experts".
  std::map<std::string, const NumberFormat*> by_tensor{};

  bool on() const { return pass != Pass::train; }
  bool decode() const { return pass == Pass::decode; }
  /// Experts of a layer that tokens are expected at, if each goes to `top_k`, all of them equally
  /// probable; with prefill as many as there are routes, at most all.
  std::int64_t experts_read(std::int64_t experts, std::int64_t top_k) const;
  Bytes activations(Bytes words) const { return {words.count / word.count * number}; }
  Bytes stored(const Variable& variable) const;
  /// The forward pass of `layer`, whose work counts words.
  OpWork kernel(const Model& model, const Layer& layer) const;
};

Pass read_pass(Options& options);
/// Reads `tokens`, `context`, `cache`, `cache_dtype`, `logits`, `dtype` and `weights`, unless the
/// pass is a training's.
void read_inference(Options& options, Config& config, Inference& inference);

/// Attention of the tokens of a pass over a cache, to which it adds theirs.
struct CachedAttention {
  std::int64_t heads = 1;
  std::int64_t score_size = 0, value_size = 0;  ///< features of a head in both products
  std::int64_t token = 0;                       ///< numbers of a token in the cache
  std::int64_t window = 0;                      ///< tokens that a token sees; 0: all
  bool fused = true;                            ///< one kernel that does not write the scores
};
/// `inputs`: [b, u, ...] queries, keys, values; the result is [b, u, heads * value_size].
ValueId cached_attention(Model& model, std::string_view name, std::vector<ValueId> inputs,
                         const CachedAttention& attention, const Inference& inference);
/// x [b, u, heads * from] times a matrix [from, to] of each head; `weights` are all of them.
ValueId product_by_head(Model& model, std::string_view name, ValueId x, const Shape& weights,
                        std::int64_t heads, std::int64_t from, std::int64_t to);

}  // namespace baechi::generate
