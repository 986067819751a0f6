/// Blocks whose tokens go to some of several feed-forward networks.
#pragma once

#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {

struct Experts {
  std::int64_t experts = 0, top_k = 1;  ///< 0: one feed-forward network for all tokens
  double capacity_factor = 1.0;
  std::int64_t ranks = 1;    ///< ranks of expert parallelism
  std::int64_t divided = 1;  ///< neighbouring ranks that share one expert's inner features
  std::int64_t inner = 0;
  std::int64_t shared_inner = 0;  ///< of an expert that all tokens go to; 0: none
  bool bias = false;              ///< the router has one, and the networks
  bool bias_apart = false;        ///< grouped experts add their last one as weighted_bias() does
  bool clamp_apart = false;       ///< kernels of their own limit what grouped experts activate
  /// The backward pass makes these once more: the activation, the norm, the expert of all tokens.
  bool activation_again = false, norm_again = false, shared_again = false;
  bool weighted = false;    ///< as in ExpertParts
  bool grouped = false;     ///< each product of a rank's experts is one kernel
  std::int64_t read = 0;    ///< experts that a pass of an inference reads; 0: a training
  std::int64_t latent = 0;  ///< width of the tokens that experts read and write; 0: as outside
  Ranks whole{};            ///< of the model: those of tensor parallelism divide the shared expert
  std::int64_t places = 0;  ///< a token is sent to each of so many once; 0: to each of its experts

  std::int64_t groups() const { return ranks / divided; }
  std::int64_t own() const { return experts / groups(); }  ///< whole, or a part of each
  /// How many of its copies a token is sent in: a token of `top_k` experts, each in one of the
  /// `places` with the same probability, is expected in places (1 - (1 - 1 / places)^top_k).
  double sent() const;
  bool none = false;  ///< no layer has experts, however many the options say
};

/// Adds to the tokens of each group of Model::groups() that group's bias, times the weight of the
/// token's route: in 32 bits, operation by operation. Source: Megatron-LM, core/transformer/moe/
/// experts.py (_apply_bias).
ValueId weighted_bias(Model& model, std::string_view name, ValueId x);

struct ExpertParts {
  std::function<ValueId(ValueId)> norm;
  std::function<ValueId(ValueId, std::int64_t inner)> network;
  std::function<ValueId(ValueId)> dropped = [](ValueId y) { return y; };
  bool weighted = false;  ///< the network applies the weights of the routes, not the sum behind it
};

/// x and what the experts make of the `tokens` of this rank. Every expert takes ceil(capacity
/// factor
/// * tokens * top k / experts) tokens of each rank: the shape of an op does not depend on data.
/// Ranks of tensor parallelism route the tokens that they have; experts are on ranks of their own,
/// which exchange tokens. Where ranks divide an expert, they gather its tokens and add up its
/// parts. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py. Where a token is sent once
/// to each place, the rank that receives it makes its copies, and sorts them so; the way back is
/// the same. Source: DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.2; DeepEP.
ValueId experts_block(Model& model, const Experts& s, std::int64_t tokens, ValueId x,
                      const ExpertParts& parts);

/// Reads `num_local_experts`, `num_experts_per_tok`, `capacity_factor`, `expert` and
/// `expert_tensor` into experts of so many, and what the configuration and the expansion's kernels
/// say.
void read_experts(Options& options, Config& config, const Expansion& expansion, const Ranks& ranks,
                  Experts& experts);

}  // namespace baechi::generate
