/// Attention of generated models: one kernel, or several.
#pragma once

#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {

struct Attention {
  std::int64_t heads = 1;
  std::int64_t key_value_heads = 0;  ///< 0: as many as heads; fewer: several heads share one
  std::int64_t value_size = 0;       ///< features of a head's values; 0: as of its keys
  std::int64_t window = 0;           ///< tokens that a token of a fused kernel sees; 0: all
  std::int64_t document = 0;         ///< so many tokens see each other; 0: all of a sample
  bool dropout = false;              ///< on the probabilities
  bool fused = false;                ///< one kernel that does not write the probabilities
  AttentionKernels kernels = AttentionKernels::one;  ///< if it is not fused
  bool causal = true;   ///< a fused kernel leaves out what the mask hides
  bool copied = false;  ///< a fused kernel's output is kept in two layouts
  bool packed = false;  ///< tokens are copied for a fused kernel, and its output back
  bool again = false;   ///< the backward pass computes it once more, from q, k and v
  /// Ranks that share the tokens of a sample see as many of the others'. Else each has tokens that
  /// follow each other, and the last rank, for which all wait, sees all before its own.
  bool balanced = true;
};
/// Reads `fused_attention` into the options of every attention, and what the expansion's kernels
/// say.
Attention read_attention(Options& options, const Expansion& expansion, Attention attention);
/// The same without that option.
Attention with_kernels(const Expansion& expansion, Attention attention);
/// Parts of a block that the backward pass recomputes, and keeps nothing of. Names and meaning:
/// Megatron-LM, --recompute-modules. The norm before experts stays where an expert that
/// all tokens go to reads it, too, and a norm that is fused with the product behind it always.
enum class Recomputed : std::uint8_t {
  core_attn,
  mla_up_proj,
  mlp,
  moe_act,
  layernorm,
  shared_experts
};
constexpr auto names_of(Recomputed) { return enumerators<Recomputed::shared_experts>(); }
/// What the option `recompute` says.
struct Recompute {
  std::set<Recomputed> parts{};
  bool operators = false;  ///< all of a block but attention's core and every second GEMM

  bool contains(Recomputed part) const { return parts.contains(part); }
};
Recompute read_recompute(Options& options, const Expansion& expansion);

/// Scaled dot-product attention of q [N, L, d] over k, v [N, T, d']: [N, L, d]. A causal mask does
/// not reduce the work that is counted.
ValueId attention(Model& model, std::string_view name, ValueId q, ValueId k, ValueId v,
                  const Attention& options);

}  // namespace baechi::generate
