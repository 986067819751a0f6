/// Layers of sequence models: recurrent cells, embeddings, normalisation. Each function adds a
/// layer to the model and returns its output. A sequence is [batch, length, features], one step of
/// it is [batch, features].
#pragma once
#include <initializer_list>

#include "traces/generate/expand.h"

namespace baechi::generate {

/// Reads an option with values from 1 to `most`.
std::int64_t read_extent(Options& options, const std::string& key, std::int64_t fallback,
                         std::string_view help, std::int64_t most = 10'000'000);
/// Adds a mistake if the multiply-adds of a layer, batch * length * from * to, exceed 10^17.
void limit_work(Options& options, std::int64_t batch, std::int64_t length, std::int64_t from,
                std::int64_t to);

/// Ranks that share a model, of which a graph is one.
struct Ranks {
  std::int64_t tensor = 1;
  /// Ranks of tensor parallelism share the tokens where they do not share the features. Source:
  /// Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys
  /// 2023, section 4.
  bool sequence = false;
  std::int64_t context = 1;  ///< each has a part of the tokens of a sample

  /// Of `length` tokens of a sample, those of a rank between its products.
  std::int64_t tokens(std::int64_t length) const {
    return length / context / (sequence ? tensor : 1);
  }
};
/// Reads `sequence_parallel` and `context`. Adds a mistake if they do not divide `length`.
Ranks read_token_ranks(Options& options, const Expansion& expansion, std::int64_t tensor,
                       std::int64_t length);

/// Reads the option `tensor`: ranks of tensor parallelism; the graph is one rank. Adds a
/// mistake for each of `sizes` that they cannot share evenly. Source: Shoeybi et al., Megatron-LM,
/// 2019.
struct SharedSize {
  std::string_view what;
  std::int64_t size = 0;
};
std::int64_t read_ranks(Options& options, std::initializer_list<SharedSize> sizes);

/// For each of `ids` [...] its row of `table` [words, features]: [..., features].
ValueId embedding(Model& model, std::string_view name, ValueId ids, VariableId table);
/// Adds row t of `table` [at least length, features] to step t.
ValueId add_positions(Model& model, std::string_view name, ValueId x, VariableId table);
/// The same with a fixed table, which is not trained.
ValueId add_positions(Model& model, std::string_view name, ValueId x);

/// Turns [N, T, ...] into T values [N, ...]; stack() turns them back.
std::vector<ValueId> unstack(Model& model, std::string_view name, ValueId x);
ValueId stack(Model& model, std::string_view name, std::span<const ValueId> steps);
/// Step 0 of a sequence.
ValueId first_step(Model& model, std::string_view name, ValueId x);
/// Some steps of a sequence, as many of each sample: [N, T, ...] becomes [N, steps, ...].
ValueId gather_steps(Model& model, std::string_view name, ValueId x, std::int64_t steps);

/// To each head's features of `own` adds `common`, which all heads have.
ValueId join_heads(Model& model, std::string_view name, ValueId own, ValueId common,
                   std::int64_t heads);
/// Joins values along the features; first_features() takes the first `features` of one.
ValueId concat_features(Model& model, std::string_view name, std::span<const ValueId> parts);
ValueId first_features(Model& model, std::string_view name, ValueId x, std::int64_t features);

/// Zeros that every training step writes. Level module has no op for them.
ValueId zeros(Model& model, std::string_view name, Shape shape);
/// A decoder's count of its steps: `before` + 1, or 0 if there is none before. Level module has no
/// op for it.
ValueId step_count(Model& model, std::string_view name, std::optional<ValueId> before);

struct LstmVariables {
  VariableId kernel, bias;
};
LstmVariables lstm_variables(Model& model, std::string_view name, std::int64_t features,
                             std::int64_t units);
struct LstmState {
  ValueId cell, output;
};
LstmState lstm_cell(Model& model, std::string_view name, ValueId x, LstmState before,
                    LstmVariables variables);

/// Additive attention (Bahdanau et al.): v . tanh(key + query) for each key of [N, T, units]: [N,
/// T].
ValueId additive_score(Model& model, std::string_view name, ValueId query, ValueId keys,
                       VariableId v);
ValueId softmax(Model& model, std::string_view name, ValueId x);
/// The sum over T of `values` [N, T, features], weighted by `weights` [N, T]: [N, features].
ValueId weighted_sum(Model& model, std::string_view name, ValueId weights, ValueId values);

/// x times `weights` [features, units], which other layers may use, too.
ValueId dense_by(Model& model, std::string_view name, ValueId x, VariableId weights,
                 Bytes workspace = {});
/// Logits of words: x times the transpose of their embeddings `table` [words, features].
ValueId tied_logits(Model& model, std::string_view name, ValueId x, VariableId table,
                    bool bias = false, Bytes workspace = {});

/// Tensor parallelism (Megatron-LM, Shoeybi et al. 2019): a model is the computation of one of
/// equal ranks. sum_of_ranks() adds up the ranks' values, and passes gradients on.
/// split_to_ranks() passes values on, and adds up their gradients. With ranks.sequence the first
/// scatters the sums among the tokens of x [batch, tokens, features], and the second gathers the
/// tokens; the backward pass does the reverse. With one rank both return x. Not inside a module.
ValueId sum_of_ranks(Model& model, std::string_view name, ValueId x, const Ranks& ranks);
ValueId split_to_ranks(Model& model, std::string_view name, ValueId x, const Ranks& ranks);
/// x itself: the op that adds up the gradients of its readers, where x comes from other ranks.
ValueId handed_on(Model& model, std::string_view name, ValueId x);
/// Context parallelism: the tokens of all ranks of x; the backward pass adds up their gradients.
/// Source: Dubey et al., "The Llama 3 Herd of Models", 2024, section 3.3.2.
ValueId gather_context(Model& model, std::string_view name, ValueId x, const Ranks& ranks);

/// The input of a multi-token prediction layer: the previous layers' output and the next token's
/// embedding, each normalised, then concatenated and projected. Source: DeepSeek-AI, "DeepSeek-V3
/// Technical Report", 2024, section 2.2.
ValueId joined_with_token(Model& model, ValueId before, ValueId embedded, std::int64_t features);

/// Normalises the features of each token, or of each of its heads, which share the weights.
ValueId layer_norm(Model& model, std::string_view name, ValueId x, std::int64_t heads = 1);
/// `cast`: a kernel of its own casts x from 16 to 32 bits before, and the gradient back.
ValueId rms_norm(Model& model, std::string_view name, ValueId x, std::int64_t heads = 1,
                 bool cast = false);
/// `biased`: of the sum of x and the biases of the layer before, which a kernel of its own adds.
ValueId gelu(Model& model, std::string_view name, ValueId x, bool biased = false);
/// max(x, 0)^2. Source: So et al., "Primer", NeurIPS 2021, section 4.
ValueId squared_relu(Model& model, std::string_view name, ValueId x);
/// GELU or squared ReLU times the weight of each token: both factors are kept.
ValueId weighted_activation(Model& model, LayerKind kind, std::string_view name, ValueId x);
ValueId tanh(Model& model, std::string_view name, ValueId x);
/// Rotary positions: turns pairs of features by an angle that is proportional to the step. `apart`:
/// operation by operation, as Megatron-LM does where it scales the turned features, too.
ValueId rotate(Model& model, std::string_view name, ValueId x, bool apart = false);
/// Clamped: kernels of their own limit both, and join them, before. Apart: one for each operation.
enum class GateKernels : std::uint8_t { fused, clamped, apart };
/// silu(gate) * x.
ValueId gated_silu(Model& model, std::string_view name, ValueId gate, ValueId x,
                   GateKernels kernels = GateKernels::fused);

/// The `top_k` most probable experts of each token, from logits [..., experts]: [..., top_k].
ValueId route(Model& model, std::string_view name, ValueId logits, std::int64_t top_k);
/// For each expert the tokens of x [..., features] that are routed to it: [capacity, features].
std::vector<ValueId> dispatch(Model& model, std::string_view name, ValueId x, ValueId routes,
                              std::int64_t experts, std::int64_t capacity);
/// All ranks that share experts exchange equal parts of x [tokens, features], and their gradients.
/// `beside` groups of ranks do so at the same time. They send a part `sent` of x.
ValueId to_experts(Model& model, std::string_view name, ValueId x, std::int64_t ranks,
                   std::int64_t beside, double sent);
/// Ranks that divide an expert: all have the tokens of all; sum_of_expert() adds up what the parts
/// make, and each keeps that of its own tokens.
ValueId gather_to_expert(Model& model, std::string_view name, ValueId x, std::int64_t ranks);
ValueId sum_of_expert(Model& model, std::string_view name, ValueId x, std::int64_t ranks);
/// The tokens that were received, an equal part for each expert; join_experts() is the reverse.
std::vector<ValueId> sort_to_experts(Model& model, std::string_view name, ValueId x,
                                     std::int64_t experts);
ValueId join_experts(Model& model, std::string_view name, std::span<const ValueId> parts);
/// For each token of x the sum of its experts' outputs by weight, or, if they are `weighted`, their
/// plain sum. Shaped as x.
ValueId combine(Model& model, std::string_view name, ValueId x, ValueId routes,
                std::span<const ValueId> written, bool weighted = false);

}  // namespace baechi::generate
