/// Layers of sequence models: recurrent cells, attention, normalisation. Each adds itself to the
/// model and returns what it writes. Sequences are [batch, length, features]; one step of one is
/// [batch, features].
#pragma once
#include <span>
#include <vector>

#include "sim/options.h"
#include "traces/generate/model.h"

namespace baechi {

/// An option of at least 1 and at most `most`.
std::int64_t read_extent(Options& options, const std::string& key, std::int64_t fallback,
                         std::string_view help, std::int64_t most = 10'000'000);
/// A mistake if batch * length * from * to, the multiply-adds of a layer, is more than 10^17.
void limit_work(Options& options, std::int64_t batch, std::int64_t length, std::int64_t from,
                std::int64_t to);

/// The rows of `table` [words, features] that `ids` [...] name: [..., features].
ValueId embedding(Model& model, std::string_view name, ValueId ids, VariableId table);
/// Adds row t of `table` [at least length, features] to step t.
ValueId add_positions(Model& model, std::string_view name, ValueId x, VariableId table);
/// The same of a fixed table, which is not trained.
ValueId add_positions(Model& model, std::string_view name, ValueId x);

/// [N, T, ...] to T values [N, ...], and back.
std::vector<ValueId> unstack(Model& model, std::string_view name, ValueId x);
ValueId stack(Model& model, std::string_view name, std::span<const ValueId> steps);
/// Step 0 of a sequence.
ValueId first_step(Model& model, std::string_view name, ValueId x);

/// Side by side along the features, and the first `features` of it.
ValueId concat_features(Model& model, std::string_view name, std::span<const ValueId> parts);
ValueId first_features(Model& model, std::string_view name, ValueId x, std::int64_t features);

/// Zeros, written in every training step. Module level has no op for them.
ValueId zeros(Model& model, std::string_view name, Shape shape);
/// A decoder's count of its steps: one more than `before`, or 0. Module level has no op for it.
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

/// Additive attention (Bahdanau et al.): v . tanh(key + query) for each of the keys [N, T, units].
ValueId additive_score(Model& model, std::string_view name, ValueId query, ValueId keys,
                       VariableId v);
ValueId softmax(Model& model, std::string_view name, ValueId x);
/// The mean of `values` [N, T, features] by `weights` [N, T].
ValueId weighted_sum(Model& model, std::string_view name, ValueId weights, ValueId values);

struct Attention {
  std::int64_t heads = 1;
  std::int64_t key_value_heads = 0;  ///< fewer, shared by several heads; 0: as many as heads
  bool dropout = false;              ///< of the probabilities
  bool fused = false;                ///< in one kernel that never writes the probabilities
};
/// Scaled dot products of q [N, L, d] and k, v [N, T, d']: [N, L, d]. A causal mask saves nothing.
ValueId attention(Model& model, std::string_view name, ValueId q, ValueId k, ValueId v,
                  const Attention& options);

/// x times `weights` [features, units], which several layers share.
ValueId dense_by(Model& model, std::string_view name, ValueId x, VariableId weights);
/// x times the transpose of `table` [words, features]: logits by the words' embeddings.
ValueId tied_logits(Model& model, std::string_view name, ValueId x, VariableId table,
                    bool bias = false);

ValueId layer_norm(Model& model, std::string_view name, ValueId x);
ValueId rms_norm(Model& model, std::string_view name, ValueId x);
ValueId gelu(Model& model, std::string_view name, ValueId x);
ValueId tanh(Model& model, std::string_view name, ValueId x);
/// Turns pairs of features by an angle that grows with the step (rotary positions).
ValueId rotate(Model& model, std::string_view name, ValueId x);
/// silu(gate) * x.
ValueId gated_silu(Model& model, std::string_view name, ValueId gate, ValueId x);

/// Of each token the `top_k` most probable experts, from logits [..., experts]: [..., top_k].
ValueId route(Model& model, std::string_view name, ValueId logits, std::int64_t top_k);
/// For each of `experts` the tokens of x [..., features] routed to it: [capacity, features] each.
std::vector<ValueId> dispatch(Model& model, std::string_view name, ValueId x, ValueId routes,
                              std::int64_t experts, std::int64_t capacity);
/// What the experts wrote, weighted, where the tokens were: of the shape of x.
ValueId combine(Model& model, std::string_view name, ValueId x, ValueId routes,
                std::span<const ValueId> written);

}  // namespace baechi
