/// A neural network as its publication describes it: layers in the order they run, the values
/// between them, and the variables that they train. expand.h makes op graphs of it.
#pragma once

#include "sim/graph/op_graph.h"

namespace baechi::generate {

enum class ValueId : std::uint32_t {};
enum class VariableId : std::uint32_t {};
enum class LayerId : std::uint32_t {};
enum class ModuleId : std::uint32_t {};

/// Dimensions, batch first; images are [N, C, H, W].
using Shape = std::vector<std::int64_t>;
std::int64_t elements(const Shape& shape);
inline constexpr Bytes word{4};  ///< all numbers are 32 bits wide: float32 and int32
inline Bytes bytes_of(std::int64_t words) { return {words * word.count}; }

/// A tensor that a layer writes, or that is fed to the model.
struct Value {
  std::string name;
  Shape shape;
  std::optional<LayerId> producer{};  ///< none: the value is fed to the model

  Bytes size() const { return bytes_of(elements(shape)); }
};

enum class Initializer : std::uint8_t { zeros, ones, constant, truncated_normal, uniform };

struct Variable {
  std::string name;
  Shape shape;
  Initializer initializer = Initializer::truncated_normal;
  bool trainable = true;  ///< false: a statistic, such as a moving mean

  Bytes size() const { return bytes_of(elements(shape)); }
};

enum class LayerKind : std::uint8_t {
  conv2d,             ///< weights; with a second variable, a bias
  grouped_conv2d,     ///< the same; each group of filters sees a group of channels
  batch_norm,         ///< moving mean, moving variance, beta; with a fourth, gamma
  frozen_batch_norm,  ///< the same by its moving statistics: TensorFlow's is_training=False
  relu,
  sigmoid,
  scale_channels,  ///< of an image, and a factor for each channel
  max_pool,
  avg_pool,
  concat,
  add,
  dropout,
  flatten,
  dense,               ///< weights; with a second variable, a bias
  predict,             ///< class probabilities from logits, that nobody reads
  loss,                ///< mean softmax cross-entropy of logits and labels
  embedding,           ///< the table
  position_embedding,  ///< a table that is trained
  position_encoding,   ///< one that is not
  unstack,
  stack,
  first_step,
  gather_steps,
  first_features,
  zeros,       ///< the state before the first step
  step_count,  ///< counts the steps of a decoder; nobody reads it
  lstm_cell,   ///< kernel, bias; of input, cell state, output: cell state, output
  additive_score,
  softmax,
  weighted_sum,
  attention,
  fused_attention,
  layer_norm,  ///< gamma, beta
  rms_norm,    ///< gamma
  gelu,
  squared_relu,
  tanh,
  rotate,
  gated_silu,
  weighted_bias,  ///< biases of each group
  state_space,    ///< taps of its convolution, three numbers a head, gamma
  route,
  dispatch,
  combine,
  upsample,           ///< each pixel four times
  transposed_conv2d,  ///< the gradient of a convolution by its input; its weights
  norm_gradient,      ///< the gradient of a layer norm by its input; gamma
  relu_gradient,
  all_reduce,  ///< sums a value, or its gradient, over the ranks of tensor parallelism
  exchange,    ///< any other collective: Layer::collective
};
/// "Conv2d": the kind of its op at module level; a backward op adds "Backward".
constexpr auto names_of(LayerKind) {
  return std::to_array<Named<LayerKind>>({{LayerKind::conv2d, "Conv2d"},
                                          {LayerKind::grouped_conv2d, "GroupedConv2d"},
                                          {LayerKind::batch_norm, "BatchNorm2d"},
                                          {LayerKind::frozen_batch_norm, "FrozenBatchNorm2d"},
                                          {LayerKind::relu, "ReLU"},
                                          {LayerKind::sigmoid, "Sigmoid"},
                                          {LayerKind::scale_channels, "ScaleChannels"},
                                          {LayerKind::max_pool, "MaxPool2d"},
                                          {LayerKind::avg_pool, "AvgPool2d"},
                                          {LayerKind::concat, "Concat"},
                                          {LayerKind::add, "Add"},
                                          {LayerKind::dropout, "Dropout"},
                                          {LayerKind::flatten, "Flatten"},
                                          {LayerKind::dense, "Linear"},
                                          {LayerKind::predict, "Softmax"},
                                          {LayerKind::loss, "CrossEntropyLoss"},
                                          {LayerKind::embedding, "Embedding"},
                                          {LayerKind::position_embedding, "PositionEmbedding"},
                                          {LayerKind::position_encoding, "PositionalEncoding"},
                                          {LayerKind::unstack, "Unstack"},
                                          {LayerKind::stack, "Stack"},
                                          {LayerKind::first_step, "FirstStep"},
                                          {LayerKind::gather_steps, "Gather"},
                                          {LayerKind::first_features, "FirstFeatures"},
                                          {LayerKind::zeros, "Zeros"},
                                          {LayerKind::step_count, "StepCount"},
                                          {LayerKind::lstm_cell, "LSTMCell"},
                                          {LayerKind::additive_score, "AdditiveScore"},
                                          {LayerKind::softmax, "Softmax"},
                                          {LayerKind::weighted_sum, "WeightedSum"},
                                          {LayerKind::attention, "Attention"},
                                          {LayerKind::fused_attention, "FusedAttention"},
                                          {LayerKind::layer_norm, "LayerNorm"},
                                          {LayerKind::rms_norm, "RMSNorm"},
                                          {LayerKind::gelu, "GELU"},
                                          {LayerKind::squared_relu, "SquaredReLU"},
                                          {LayerKind::tanh, "Tanh"},
                                          {LayerKind::rotate, "RotaryEmbedding"},
                                          {LayerKind::gated_silu, "GatedSiLU"},
                                          {LayerKind::weighted_bias, "WeightedBias"},
                                          {LayerKind::state_space, "StateSpace"},
                                          {LayerKind::route, "Route"},
                                          {LayerKind::dispatch, "Dispatch"},
                                          {LayerKind::combine, "Combine"},
                                          {LayerKind::upsample, "Upsample"},
                                          {LayerKind::transposed_conv2d, "ConvTranspose2d"},
                                          {LayerKind::norm_gradient, "LayerNormGradient"},
                                          {LayerKind::relu_gradient, "ReLUGradient"},
                                          {LayerKind::all_reduce, "AllReduce"},
                                          {LayerKind::exchange, "Exchange"}});
}

/// One layer. Values and variables are in the order that LayerKind states.
struct Layer {
  LayerKind kind{};
  std::string name;
  std::vector<ValueId> inputs{};
  std::vector<ValueId> outputs{};
  std::vector<VariableId> variables{};
  std::int64_t multiply_adds = 0;  ///< of the forward pass, for the whole batch
  OpWork forward{};
  OpWork input_gradient{};                 ///< work of the gradients of the inputs
  OpWork variable_gradient{};              ///< work of the gradients of the variables
  std::vector<OpWork> forward_besides{};   ///< further kernels of the forward pass
  std::vector<OpWork> backward_besides{};  ///< and of the backward pass
  std::vector<ValueId> saved{};            ///< inputs and outputs that the backward pass reads
  Bytes kept{};                            ///< other numbers that it reads
  Bytes kept_fixed{};  ///< the same of fixed size: masks, indices, statistics (Tensor::fixed_size)
  Bytes workspace{};   ///< while the layer runs, and again while its backward op runs
  Bytes cache{};       ///< keys and values that its op holds for later passes
  Bytes cache_traffic{};  ///< the part of forward.traffic that activations' dtype leaves as it is
  std::int64_t groups = 1,
               groups_read = 1;  ///< groups of experts: of its weights, and that it reads
  bool in_place = false;         ///< its output may overwrite its first input
  bool again = false;            ///< its backward op runs it once more before
  bool forgets = false;  ///< its backward op recomputes `kept`, and what it writes inside its unit
  /// For a layer between ranks: its collective in the forward and in the backward pass; without one
  /// it hands its input on.
  std::array<std::optional<CollectiveKind>, 2> collective{};
  std::int64_t ranks = 0;   ///< of these collectives
  std::int64_t beside = 1;  ///< as many alike of other ranks run at the same time
  double sent = 1.0;        ///< the part of the larger of its input and output that they move
  ModuleId module{};        ///< set by Model::add

  /// The work of y = x w, which is `count` products [rows, inner] x [inner, columns]. The backward
  /// pass is two products of equal size: dx = dy w, dw = x dy.
  void multiplies(const MatrixShape& product, Bytes x, Bytes w, Bytes y);
};

/// Layers that are one op at level module, such as a convolution with its batch norm and ReLU.
struct Module {
  std::string name;
  std::string kind;
};

class Model {
 public:
  Model(std::string name, std::int64_t batch) : name_(std::move(name)), batch_(batch) {}

  /// Adds a value that is fed to the model.
  ValueId input(std::string_view name, Shape shape);
  /// A layer that is still to be added, named in the scope.
  Layer layer(LayerKind kind, std::string_view name, std::span<const ValueId> inputs) const;
  ValueId output(Layer& layer, Shape shape);
  VariableId variable(std::string_view name, Shape shape, Initializer initializer,
                      bool trainable = true);
  /// Variables that are made while this is on are not trained.
  void freeze(bool on) { frozen_ = on; }
  /// Layers that are added while this is on launch kernels as PyTorch does without a compiler or
  /// fused modules.
  void set_eager(bool on) { eager_ = on; }
  /// Layers that are added while this is on, all but attention's core, exchanges and every second
  /// product from the first, are computed again before their backward pass. Source: torchtitan,
  /// selective checkpointing of ops (_apply_ac_to_transformer_block).
  void forget_operations(bool on) {
    forgets_ = on;
    products_ = 0;
  }
  /// Layers that are added while this is on, products too, are computed again before their backward
  /// pass. Source: Megatron-LM, --recompute-modules.
  void forget_layers(bool on) { forgets_layers_ = on; }
  bool eager() const { return eager_; }
  /// Layers that are added while this is on: the kernel of a sum drops what it adds, and norms read
  /// their input once. Source: Megatron-LM, bias_dropout_add; NVIDIA Apex, fused_layer_norm.
  void fuse_passes(bool on) { fuses_passes_ = on; }
  bool fuses_passes() const { return fuses_passes_; }
  /// dense() layers that are added while this is above 1 multiply so many equal parts of their rows
  /// by weights of their own, in one kernel. With `read`, rows go to so many of the groups alone.
  void set_groups(std::int64_t groups, std::int64_t read = 0) {
    groups_ = groups;
    groups_read_ = read > 0 ? read : groups;
  }
  std::int64_t groups() const { return groups_; }
  std::int64_t groups_read() const { return groups_read_; }
  /// Adds a layer; layers run in the order in which they are added. The layer becomes the producer
  /// of its outputs.
  LayerId add(Layer layer);

  /// Names begin with `name`/ while the result lives.
  class Scope;
  [[nodiscard]] Scope scope(std::string_view name);
  /// The same; layers added meanwhile are one module of `kind`. Modules do not nest.
  [[nodiscard]] Scope module(std::string_view name, std::string_view kind);
  std::string scoped(std::string_view name) const { return prefix_ + std::string(name); }

  const std::string& name() const { return name_; }
  std::int64_t batch() const { return batch_; }
  const Layer& layer(LayerId l) const { return layers_[l]; }
  const Value& value(ValueId v) const { return values_[v]; }
  const Variable& variable(VariableId v) const { return variables_[v]; }
  const Module& module(ModuleId m) const { return modules_[m]; }
  auto layers() const { return layers_.ids(); }
  auto values() const { return values_.ids(); }
  auto variables() const { return variables_.ids(); }

  std::int64_t parameters() const;     ///< elements of the trainable variables
  std::int64_t multiply_adds() const;  ///< of the forward pass, for the whole batch

 private:
  std::string name_;
  std::int64_t batch_;
  IdVector<LayerId, Layer> layers_;
  IdVector<ValueId, Value> values_;
  IdVector<VariableId, Variable> variables_;
  IdVector<ModuleId, Module> modules_;
  std::string prefix_;
  bool in_module_ = false;
  bool frozen_ = false;
  bool eager_ = false;
  bool fuses_passes_ = false;
  bool forgets_ = false, forgets_layers_ = false;
  std::int64_t groups_ = 1, groups_read_ = 1;
  std::int64_t products_ = 0;  // since forgets_ was set
};

class Model::Scope {
 public:
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() {
    model_.prefix_.resize(length_);
    model_.in_module_ = in_module_;
  }

 private:
  friend class Model;
  Scope(Model& model, std::string_view name, bool in_module);
  Model& model_;
  std::size_t length_;  // of the prefix before the scope
  bool in_module_;      // before the scope
};

}  // namespace baechi::generate
