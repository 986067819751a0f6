#include "traces/generate/model.h"

#include "sim/error.h"

namespace baechi {

std::int64_t elements(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

std::string_view to_text(LayerKind kind) {
  switch (kind) {
    case LayerKind::conv2d:
      return "Conv2d";
    case LayerKind::batch_norm:
      return "BatchNorm2d";
    case LayerKind::frozen_batch_norm:
      return "FrozenBatchNorm2d";
    case LayerKind::relu:
      return "ReLU";
    case LayerKind::max_pool:
      return "MaxPool2d";
    case LayerKind::avg_pool:
      return "AvgPool2d";
    case LayerKind::concat:
      return "Concat";
    case LayerKind::add:
      return "Add";
    case LayerKind::dropout:
      return "Dropout";
    case LayerKind::flatten:
      return "Flatten";
    case LayerKind::dense:
      return "Linear";
    case LayerKind::predict:
      return "Softmax";
    case LayerKind::loss:
      return "CrossEntropyLoss";
    case LayerKind::embedding:
      return "Embedding";
    case LayerKind::position_embedding:
      return "PositionEmbedding";
    case LayerKind::position_encoding:
      return "PositionalEncoding";
    case LayerKind::unstack:
      return "Unstack";
    case LayerKind::stack:
      return "Stack";
    case LayerKind::first_step:
      return "FirstStep";
    case LayerKind::first_features:
      return "FirstFeatures";
    case LayerKind::zeros:
      return "Zeros";
    case LayerKind::step_count:
      return "StepCount";
    case LayerKind::lstm_cell:
      return "LSTMCell";
    case LayerKind::additive_score:
      return "AdditiveScore";
    case LayerKind::softmax:
      return "Softmax";
    case LayerKind::weighted_sum:
      return "WeightedSum";
    case LayerKind::attention:
      return "Attention";
    case LayerKind::fused_attention:
      return "FusedAttention";
    case LayerKind::layer_norm:
      return "LayerNorm";
    case LayerKind::rms_norm:
      return "RMSNorm";
    case LayerKind::gelu:
      return "GELU";
    case LayerKind::tanh:
      return "Tanh";
    case LayerKind::rotate:
      return "RotaryEmbedding";
    case LayerKind::gated_silu:
      return "GatedSiLU";
    case LayerKind::route:
      return "Route";
    case LayerKind::dispatch:
      return "Dispatch";
    case LayerKind::combine:
      return "Combine";
  }
  return "";
}

ValueId Model::input(std::string_view name, Shape shape) {
  return values_.push_back({.name = std::string(name), .shape = std::move(shape)});
}

ValueId Model::output(Layer& layer, Shape shape) {
  const ValueId v = values_.push_back({.name = layer.name, .shape = std::move(shape)});
  layer.outputs.push_back(v);
  return v;
}

VariableId Model::variable(std::string_view name, Shape shape, Initializer initializer,
                           bool trainable) {
  return variables_.push_back({.name = scoped(name),
                               .shape = std::move(shape),
                               .initializer = initializer,
                               .trainable = trainable});
}

LayerId Model::add(Layer layer) {
  if (!in_module_) modules_.push_back({layer.name, std::string(to_text(layer.kind))});
  BAECHI_CHECK(!modules_.empty(), "a layer is of some module");
  layer.module = static_cast<ModuleId>(modules_.size() - 1);
  const LayerId id = layers_.push_back(std::move(layer));
  for (const ValueId v : layers_[id].outputs) values_[v].producer = id;
  return id;
}

Model::Scope::Scope(Model& model, std::string_view name, bool in_module)
    : model_(model), length_(model.prefix_.size()), in_module_(model.in_module_) {
  model_.prefix_ += name;
  model_.prefix_ += '/';
  model_.in_module_ = in_module;
}

Model::Scope Model::scope(std::string_view name) {
  return {*this, name, in_module_};
}

Model::Scope Model::module(std::string_view name, std::string_view kind) {
  BAECHI_CHECK(!in_module_, "{}: modules do not nest", name);
  modules_.push_back({scoped(name), std::string(kind)});
  return {*this, name, true};
}

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Variable& v : variables_) sum += v.trainable ? elements(v.shape) : 0;
  return sum;
}

std::int64_t Model::multiply_adds() const {
  std::int64_t sum = 0;
  for (const Layer& l : layers_) sum += l.multiply_adds;
  return sum;
}

}  // namespace baechi
