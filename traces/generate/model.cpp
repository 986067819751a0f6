#include "traces/generate/model.h"

#include "sim/error.h"

namespace baechi::generate {

void Layer::multiplies(const MatrixShape& product, Bytes x, Bytes w, Bytes y) {
  const std::int64_t count = product.count, columns = product.columns, inner = product.inner;
  multiply_adds = count * product.rows * columns * inner;
  forward = {.flops = 2 * multiply_adds, .traffic = x + w + y, .weights = w};
  input_gradient = variable_gradient = forward;
  // The rows are the batch's, so these are what the flops say.
  forward.matrix = {MatrixKind::product, count, 0, columns, inner};
  input_gradient.matrix = {MatrixKind::product, count, 0, inner, columns};
  variable_gradient.matrix = {MatrixKind::product, count, inner, columns, 0};
}

std::int64_t elements(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

ValueId Model::input(std::string_view name, Shape shape) {
  return values_.push_back({.name = std::string(name), .shape = std::move(shape)});
}

Layer Model::layer(LayerKind kind, std::string_view name, std::span<const ValueId> inputs) const {
  return {.kind = kind, .name = scoped(name), .inputs = {inputs.begin(), inputs.end()}};
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
                               .trainable = trainable && !frozen_});
}

LayerId Model::add(Layer layer) {
  if (forgets_layers_ && layer.ranks == 0)
    layer.again = layer.forgets = true;
  else if (forgets_ && layer.ranks == 0 && layer.kind != LayerKind::attention &&
           layer.kind != LayerKind::fused_attention)
    layer.again = layer.forgets = layer.kind != LayerKind::dense || ++products_ % 2 == 0;
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

Model::Scope Model::scope(std::string_view name) { return {*this, name, in_module_}; }

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

}  // namespace baechi::generate
