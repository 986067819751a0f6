/// Blocks whose tokens go to some of several feed-forward networks.
#pragma once

#include <functional>

#include "traces/generate/expand.h"
#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {

struct Experts {
  std::int64_t experts = 0, top_k = 1;  ///< 0: one feed-forward network for all tokens
  double capacity_factor = 1.0;
  std::int64_t ranks = 1;    ///< that share the experts of a block
  std::int64_t divided = 1;  ///< of these, neighbours that divide an expert's inner features
  std::int64_t inner = 0;
  std::int64_t shared_inner = 0;  ///< of an expert that all tokens go to; 0: none

  std::int64_t groups() const { return ranks / divided; }
  std::int64_t own() const { return experts / groups(); }  ///< whole, or a part of each
};

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
/// parts. Source: Megatron-LM, core/transformer/moe/token_dispatcher.py.
ValueId experts_block(Model& model, const Experts& s, std::int64_t tokens, ValueId x,
                      const ExpertParts& parts);

/// Reads `top_k`, `shared_inner`, `capacity_factor`, `expert` and `expert_tensor` into experts of
/// so many.
void read_experts(Options& options, const Expansion& expansion, const Ranks& ranks,
                  Experts& experts);

}  // namespace baechi::generate
