/// From a model to the op graph of one training step, as a framework would build it.
#pragma once

#include "traces/generate/inference.h"
#include "traces/trace.h"

namespace baechi::generate {

enum class Level : std::uint8_t {
  module,  ///< as PyTorch: one op per layer or module, one for its backward pass, one for its
           ///< update
  tf1,     ///< the ops that TensorFlow 1.12 makes
};
constexpr auto names_of(Level) {
  return std::to_array<Named<Level>>({{Level::module, "module"}, {Level::tf1, "tf1"}});
}

enum class Optimizer : std::uint8_t { none, sgd, momentum, adam, rmsprop };
constexpr auto names_of(Optimizer) { return enumerators<Optimizer::rmsprop>(); }

/// What products in layers keep of what they read, for the gradients of their weights. Source:
/// Transformer Engine, pytorch/module/linear.py, layernorm_linear.py, grouped_linear.py (inputs are
/// saved as they are multiplied); of 4 bits with a scale of 8 for each 16 numbers.
enum class KeptInputs : std::uint8_t { whole, fp8, fp4 };
constexpr auto names_of(KeptInputs) {
  return std::to_array<Named<KeptInputs>>(
      {{KeptInputs::whole, "whole", "the numbers themselves"},
       {KeptInputs::fp8, "fp8", "a copy in 8 bits"},
       {KeptInputs::fp4, "fp4", "a copy in 4 bits, and scales"}});
}

/// The kernels of attention that is not fused.
enum class AttentionKernels : std::uint8_t {
  one,      ///< one, with two passes over the scores for each operation
  torch,    ///< a product, PyTorch's operations, another product; heads are copied apart
  megatron  ///< the same, but scores are scaled, masked and normalised by one, where heads lie
};

/// How a framework's kernels compute a model: the option `kernels`, which all generators have, and
/// the key `kernels` of a framework's file. A model without such kernels ignores what they say.
struct Kernels {
  bool fuse_modules = true;        ///< one op per module; false: one op per layer
  bool copy_sums = false;          ///< a sum copies its gradient to its inputs
  bool fuse_relu = false;          ///< a ReLU is a part of the kernel before it
  bool split_backward = false;     ///< an op for the gradients of the variables
  bool colocate_gradients = true;  ///< level tf1: a gradient op is in the group of its forward op
  KeptInputs saved_inputs = KeptInputs::whole;         ///< once `precision` halves all else
  bool eager = false;                                  ///< as PyTorch's without a compiler
  bool fused_optimizer = false;                        ///< one kernel also if `eager`
  AttentionKernels attention = AttentionKernels::one;  ///< if it is not fused
  bool unfused_attention = false;                      ///< of models whose attention is fused
  bool attention_output_copy = false;  ///< a fused kernel's output is kept in two layouts
  bool unpad_tokens = false;           ///< tokens are copied for a fused kernel, its output back
  bool unbalanced_context = false;     ///< see Attention::balanced
  bool unfused_loss = false;
  std::int64_t metrics = 0;          ///< cross-entropies besides the loss
  std::int64_t packed_sequence = 0;  ///< tokens of a document; 0: a sample is one
  bool internlm = false, recompute_norm = false;
  bool unfused_rope = false;
  std::optional<bool> grouped_gemm{};  ///< of experts; else as the model
  bool weighted_activation = false, unfused_expert_bias = false, unfused_clamp = false;
  std::int64_t dispatch_once = 0;  ///< places that a token is sent to once; 0: once for each expert
};

/// The entries of a mapping, or of words with + between, as in "eager+metrics=2"; a word alone is
/// true.
std::map<std::string, Options::Value> entries_of(const Options::Value& given);

/// The entries of the option `key` as options of their own.
Options entries_of(Options& options, const std::string& key, std::string_view help);

enum class UpdateKernels : std::uint8_t {
  one,      ///< one: Adam's are 28 bytes a parameter
  torch,    ///< those of PyTorch's own operations, behind the two that clip gradients by their norm
  megatron  ///< one, behind those of Megatron-LM's optimizer for 16 bits
};

/// The options that all models have.
struct Expansion {
  std::int64_t batch = 1;
  Level level = Level::module;
  Optimizer optimizer = Optimizer::none;
  bool training = true;   ///< false: the forward pass only
  bool megatron = false;  ///< the optimizer is Megatron-LM's
  Kernels kernels{};
  Inference inference{};
};
/// Reads them. `batch` and `optimizer` are the defaults of the model.
/// `level`: the model has the levels.
Expansion read_expansion(Options& options, std::int64_t batch, Optimizer optimizer,
                         bool level = true, Pass pass = Pass::train);

/// The graph of one step. Its ops state their work, not times. Its name is "MODEL-bBATCH".
Trace expand(const Model& model, const Expansion& expansion);

/// Op::module of the ops in the scope `name`: "layer1.0.conv1" for "layer1/0/conv1".
std::string module_path(std::string_view name);

OpGraph module_graph(const Model& model, const Expansion& expansion);
namespace tf1 {
OpGraph op_graph(const Model& model, const Expansion& options);
}

/// The number of state words that an optimizer keeps per parameter: momentum, second moment, ...
int slots(Optimizer optimizer);
/// The work of updating `parameters` parameters from their gradients.
OpWork update_work(Optimizer optimizer, std::int64_t parameters);
std::vector<OpWork> update_kernels(Optimizer optimizer, std::int64_t parameters, UpdateKernels how);
/// How a step of these options updates.
UpdateKernels update_kernels_of(const Expansion& expansion);
/// The kind of TensorFlow's update op: "ApplyAdam".
std::string_view update_kind(Optimizer optimizer);

}  // namespace baechi::generate
