/// Layers whose memory of a sequence is a state of fixed size.
#pragma once

#include "traces/generate/model.h"

namespace baechi::generate {

/// The kind of a module with a mixer, and what the times of its kernels were fitted to.
inline constexpr std::string_view mixer_module = "MambaMixer";
inline constexpr std::string_view mixer_fitted =
    "eight times their bytes' time, fitted to steps of Nemotron 3 Nano on GB200 and GB300: error "
    "of 32 other rows 15.1 %";

/// Sizes of a Mamba-2 mixer on one rank.
struct StateSpace {
  std::int64_t heads = 0, head_size = 0;
  std::int64_t groups = 0;   ///< of heads that share how they read and write the state
  std::int64_t state = 0;    ///< numbers of the state for each feature of a head
  std::int64_t taps = 4;     ///< of the convolution over the last tokens
  std::int64_t chunk = 128;  ///< tokens between which scores are computed, as attention does

  std::int64_t inner() const { return heads * head_size; }
  /// Features that are convolved: of the heads, and of the groups for reading and for writing.
  std::int64_t convolved() const { return inner() + 2 * groups * state; }
  /// Features that the mixer reads for each token: these, a gate for each feature, a step per head.
  std::int64_t width() const { return inner() + convolved() + heads; }
};

/// The mixer between its two products: x [batch, tokens, width] becomes [batch, tokens, inner],
/// normalised and gated. Source: Dao, Gu, "Transformers are SSMs", ICML 2024, section 6: within
/// chunks as attention without softmax, between chunks through states; Megatron-LM, core/ssm/
/// mamba_mixer.py (chunk_size, mamba_split_conv1d_scan_combined): kept are its input and the
/// output before the norm, and the backward pass convolves and makes the states again.
ValueId state_space(Model& model, std::string_view name, ValueId x, const StateSpace& sizes);

}  // namespace baechi::generate
