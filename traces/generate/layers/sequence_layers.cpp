#include "traces/generate/layers/sequence_layers.h"

namespace baechi::generate {
namespace {

/// Adds `l` with one output of this shape, and returns the output.
ValueId finish(Model& model, Layer l, Shape shape) {
  const ValueId y = model.output(l, std::move(shape));
  model.add(std::move(l));
  return y;
}

/// Adds a layer that only moves bytes, forward and backward.
ValueId moved(Model& model, Layer l, Shape shape) {
  l.forward.traffic = 2 * bytes_of(elements(shape));
  l.input_gradient = l.forward;
  return finish(model, std::move(l), std::move(shape));
}

/// Adds a layer that reads x and writes y of equal size, with `flops` operations per element. The
/// backward pass also reads what is `saved`.
ValueId per_element(Model& model, Layer l, std::int64_t flops, bool saves_output) {
  const Value x = model.value(l.inputs[0]);
  const ValueId y = model.output(l, x.shape);
  l.forward = {.flops = flops * elements(x.shape), .traffic = 2 * x.size()};
  l.input_gradient = {.flops = flops * elements(x.shape), .traffic = 3 * x.size()};
  l.saved = {saves_output ? y : l.inputs[0]};
  model.add(std::move(l));
  return y;
}

ValueId product(Model& model, Layer l, VariableId weights, std::int64_t units, bool bias,
                Bytes workspace = {}) {
  l.workspace = workspace;
  const Value x = model.value(l.inputs[0]);
  const std::int64_t rows = elements(x.shape) / x.shape.back();
  Shape shape = x.shape;
  shape.back() = units;
  l.multiplies({.count = 1, .rows = rows, .columns = units, .inner = x.shape.back()}, x.size(),
               model.variable(weights).size(), bytes_of(rows * units));
  l.variables = {weights};
  if (bias) {
    const auto scope = model.scope(l.name.substr(model.scoped("").size()));
    l.variables.push_back(model.variable("biases", {units}, Initializer::zeros));
    l.forward.flops += rows * units;
    l.variable_gradient.flops += rows * units;
  }
  l.saved = {l.inputs[0]};
  return finish(model, std::move(l), std::move(shape));
}

/// Adds a normalisation of the features of each token, or of each of its heads, with `statistics`
/// numbers each, which the backward pass reads.
ValueId normalisation_layer(Model& model, LayerKind kind, std::string_view name, ValueId x,
                            std::int64_t statistics, bool shifted, std::int64_t heads = 1,
                            bool cast = false) {
  Layer l = model.layer(kind, name, {{x}});
  const Value in = model.value(x);
  const std::int64_t n = elements(in.shape);
  const auto scope = model.scope(name);
  const std::int64_t width = in.shape.back() / heads;
  l.variables = {model.variable("gamma", {width}, Initializer::ones)};
  if (shifted) l.variables.push_back(model.variable("beta", {width}, Initializer::zeros));
  // Forward: one pass for the statistics, one to apply them. Backward: two sums over dy and x, then
  // dx.
  l.forward = {.flops = (shifted ? 8 : 5) * n, .traffic = 3 * in.size()};
  l.input_gradient = {.flops = 8 * n, .traffic = 5 * in.size()};
  l.variable_gradient = {.flops = (shifted ? 3 : 2) * n, .traffic = 2 * in.size()};
  if (model.fuses_passes()) {  // a row stays in the processor's own memory
    l.forward.traffic = 2 * in.size();
    l.input_gradient.traffic = 3 * in.size();
  }
  if (model.eager() && kind == LayerKind::rms_norm) {
    // Half words: cast 3, squared 4, mean 2, times its root 4, cast 3, times gamma 2. Backward:
    // gamma's product 2 + 3 and sum 1, cast 3, the root's product 4 + 6 and sum 2, the square's
    // power, factor and product 4 + 4 + 6, their sum 6, cast 3.
    l.forward.traffic = 18 * in.size();
    l.input_gradient.traffic = 40 * in.size();
    l.variable_gradient.traffic = 4 * in.size();
  }
  if (cast) {  // 2 + 4 bytes a number, of 4
    l.forward_besides.push_back({.traffic = {in.size().count * 3 / 2}});
    l.backward_besides.push_back({.traffic = {in.size().count * 3 / 2}});
  }
  l.saved = {x};
  l.kept_fixed = bytes_of(statistics * (n / width));
  return finish(model, std::move(l), in.shape);
}

}  // namespace

std::int64_t read_extent(Options& options, const std::string& key, std::int64_t fallback,
                         std::string_view help, std::int64_t most) {
  const std::int64_t value = options.get(key, fallback, help, 1);
  if (value > most) options.mistake(key, fmt::format("more than {}", most));
  return std::clamp(value, std::int64_t{1}, most);
}

void limit_work(Options& options, std::int64_t batch, std::int64_t length, std::int64_t from,
                std::int64_t to) {
  constexpr double most = 1e17;
  const double work = static_cast<double>(batch) * static_cast<double>(length) *
                      static_cast<double>(from) * static_cast<double>(to);
  if (work > most) options.mistake("batch", "a layer of more than 10^17 multiply-adds");
}

std::int64_t read_ranks(Options& options, std::initializer_list<SharedSize> sizes) {
  const std::int64_t ranks =
      read_extent(options, "tensor", 1, "ranks of tensor parallelism; the graph is one rank", 1024);
  for (const auto& [what, size] : sizes)
    if (size % ranks != 0)
      options.mistake("tensor", fmt::format("{} {} cannot be divided by {}", size, what, ranks));
  return ranks;
}

Ranks read_token_ranks(Options& options, const Expansion& e, std::int64_t tensor,
                       std::int64_t length) {
  Ranks ranks{.tensor = tensor};
  ranks.sequence = options.get("sequence_parallel", false,
                               "ranks of tensor parallelism share the tokens where they do not "
                               "share the features, and keep no more than their part");
  if (e.inference.on()) {
    if (ranks.sequence) options.mistake("sequence_parallel", "pass train alone has it");
    return {.tensor = tensor};
  }
  ranks.context =
      read_extent(options, "context", 1,
                  "ranks that share the tokens of a sample, and gather keys and values", 1024);
  const std::int64_t parts = ranks.context * (ranks.sequence ? tensor : 1);
  if (length % parts != 0)
    options.mistake(ranks.context > 1 ? "context" : "sequence_parallel",
                    fmt::format("{} tokens cannot be divided by {}", length, parts));
  if (parts > 1 && e.level == Level::tf1)
    options.mistake("level", "TensorFlow 1 has no ranks that share tokens");
  if (ranks.sequence && tensor == 1) ranks.sequence = false;
  return ranks;
}

ValueId embedding(Model& model, std::string_view name, ValueId ids, VariableId table) {
  Layer l = model.layer(LayerKind::embedding, name, {{ids}});
  Shape shape = model.value(ids).shape;
  shape.push_back(model.variable(table).shape[1]);
  const std::int64_t n = elements(shape);
  l.variables = {table};
  l.forward.traffic = bytes_of(2 * n) + model.value(ids).size();
  // The gradient of the table begins as zeros; the gradients of the rows are added to it.
  l.variable_gradient = {.flops = n,
                         .traffic = model.variable(table).size() + bytes_of(3 * n),
                         .weights = model.variable(table).size()};
  l.saved = {ids};
  return finish(model, std::move(l), std::move(shape));
}

ValueId add_positions(Model& model, std::string_view name, ValueId x, VariableId table) {
  Layer l = model.layer(LayerKind::position_embedding, name, {{x}});
  const Value in = model.value(x);
  BAECHI_CHECK(model.variable(table).shape[0] >= in.shape[1], "{}: too few positions", name);
  l.variables = {table};
  l.forward = {.flops = elements(in.shape), .traffic = 2 * in.size()};
  l.variable_gradient = {.flops = elements(in.shape), .traffic = in.size()};
  return finish(model, std::move(l), in.shape);
}

ValueId add_positions(Model& model, std::string_view name, ValueId x) {
  Layer l = model.layer(LayerKind::position_encoding, name, {{x}});
  const Shape shape = model.value(x).shape;
  l.forward = {.flops = elements(shape), .traffic = bytes_of(2 * elements(shape))};
  return finish(model, std::move(l), shape);
}

std::vector<ValueId> unstack(Model& model, std::string_view name, ValueId x) {
  Layer l = model.layer(LayerKind::unstack, name, {{x}});
  const Value in = model.value(x);
  Shape step{in.shape};
  step.erase(step.begin() + 1);
  for (std::int64_t t = 0; t < in.shape[1]; ++t) model.output(l, step);
  l.forward.traffic = 2 * in.size();
  l.input_gradient = l.forward;
  std::vector<ValueId> steps = l.outputs;
  model.add(std::move(l));
  return steps;
}

ValueId stack(Model& model, std::string_view name, std::span<const ValueId> steps) {
  Shape shape = model.value(steps[0]).shape;
  shape.insert(shape.begin() + 1, std::ssize(steps));
  return moved(model, model.layer(LayerKind::stack, name, steps), std::move(shape));
}

ValueId first_step(Model& model, std::string_view name, ValueId x) {
  Shape shape = model.value(x).shape;
  shape.erase(shape.begin() + 1);
  return moved(model, model.layer(LayerKind::first_step, name, {{x}}), std::move(shape));
}

ValueId gather_steps(Model& model, std::string_view name, ValueId x, std::int64_t steps) {
  Shape shape = model.value(x).shape;
  shape[1] = steps;
  return moved(model, model.layer(LayerKind::gather_steps, name, {{x}}), std::move(shape));
}

ValueId concat_features(Model& model, std::string_view name, std::span<const ValueId> parts) {
  Shape shape = model.value(parts[0]).shape;
  shape.back() = 0;
  for (const ValueId part : parts) shape.back() += model.value(part).shape.back();
  return moved(model, model.layer(LayerKind::concat, name, parts), std::move(shape));
}

ValueId join_heads(Model& model, std::string_view name, ValueId own, ValueId common,
                   std::int64_t heads) {
  Shape shape = model.value(own).shape;
  shape.back() += heads * model.value(common).shape.back();
  const std::array<ValueId, 2> parts{own, common};
  return moved(model, model.layer(LayerKind::concat, name, parts), std::move(shape));
}

ValueId first_features(Model& model, std::string_view name, ValueId x, std::int64_t features) {
  Shape shape = model.value(x).shape;
  shape.back() = features;
  return moved(model, model.layer(LayerKind::first_features, name, {{x}}), std::move(shape));
}

ValueId zeros(Model& model, std::string_view name, Shape shape) {
  Layer l = model.layer(LayerKind::zeros, name, {});
  l.forward.traffic = bytes_of(elements(shape));
  return finish(model, std::move(l), std::move(shape));
}

ValueId step_count(Model& model, std::string_view name, std::optional<ValueId> before) {
  Layer l = model.layer(LayerKind::step_count, name, {});
  if (before) l.inputs = {*before};
  return finish(model, std::move(l), {});
}

LstmVariables lstm_variables(Model& model, std::string_view name, std::int64_t features,
                             std::int64_t units) {
  const auto scope = model.scope(name);
  return {.kernel = model.variable("kernel", {features + units, 4 * units}, Initializer::uniform),
          .bias = model.variable("bias", {4 * units}, Initializer::constant)};
}

LstmState lstm_cell(Model& model, std::string_view name, ValueId x, LstmState before,
                    LstmVariables variables) {
  Layer l = model.layer(LayerKind::lstm_cell, name, {{x, before.cell, before.output}});
  const Value in = model.value(x);
  const Value state = model.value(before.cell);
  const std::int64_t n = in.shape[0], units = state.shape[1];
  const std::int64_t features = in.shape[1] + units;
  const std::int64_t outputs = n * units;
  l.variables = {variables.kernel, variables.bias};
  const LstmState after{.cell = model.output(l, state.shape),
                        .output = model.output(l, state.shape)};
  const Bytes kernel = model.variable(variables.kernel).size();
  l.multiplies({.count = 1, .rows = n, .columns = 4 * units, .inner = features},
               bytes_of(n * features), kernel, bytes_of(4 * outputs));
  // The gates: three sigmoids, two tanh, and the operations that join them.
  constexpr std::int64_t gate_flops = 24;
  l.forward.flops += gate_flops * outputs;
  l.forward.traffic += bytes_of(8 * outputs);
  l.input_gradient.flops += gate_flops * outputs;
  l.input_gradient.traffic += bytes_of(14 * outputs);
  l.variable_gradient.flops += 4 * outputs;  // the gradient of the bias
  l.saved = {x, before.cell, before.output, after.cell};
  l.kept = bytes_of(5 * outputs);  // outputs of three sigmoids and two tanh
  l.workspace =
      bytes_of(n * features + 4 * outputs);  // input and state side by side; the four products
  model.add(std::move(l));
  return after;
}

ValueId additive_score(Model& model, std::string_view name, ValueId query, ValueId keys,
                       VariableId v) {
  Layer l = model.layer(LayerKind::additive_score, name, {{query, keys}});
  const Shape in = model.value(keys).shape;
  const std::int64_t n = elements(in);
  l.variables = {v};
  l.multiply_adds = n;
  // Four passes: the sum, tanh, the product, the sum of the product.
  l.forward = {.flops = 4 * n, .traffic = bytes_of(7 * n)};
  l.input_gradient = {.flops = 5 * n, .traffic = bytes_of(8 * n)};
  l.variable_gradient = {.flops = 2 * n, .traffic = bytes_of(4 * n)};
  l.kept = bytes_of(n);           // tanh
  l.workspace = bytes_of(2 * n);  // what one pass reads and writes
  return finish(model, std::move(l), {in[0], in[1]});
}

ValueId softmax(Model& model, std::string_view name, ValueId x) {
  return per_element(model, model.layer(LayerKind::softmax, name, {{x}}), 5, true);
}

ValueId weighted_sum(Model& model, std::string_view name, ValueId weights, ValueId values) {
  Layer l = model.layer(LayerKind::weighted_sum, name, {{weights, values}});
  const Shape in = model.value(values).shape;
  const std::int64_t n = elements(in);
  l.multiply_adds = n;
  l.forward = {.flops = 2 * n, .traffic = bytes_of(n + in[0] * (in[1] + in[2]))};
  l.input_gradient = {.flops = 4 * n, .traffic = 2 * l.forward.traffic};
  l.saved = {weights, values};
  return finish(model, std::move(l), {in[0], in[2]});
}

ValueId dense_by(Model& model, std::string_view name, ValueId x, VariableId weights,
                 Bytes workspace) {
  return product(model, model.layer(LayerKind::dense, name, {{x}}), weights,
                 model.variable(weights).shape[1], false, workspace);
}

ValueId tied_logits(Model& model, std::string_view name, ValueId x, VariableId table, bool bias,
                    Bytes workspace) {
  return product(model, model.layer(LayerKind::dense, name, {{x}}), table,
                 model.variable(table).shape[0], bias, workspace);
}

namespace {

using Passes = std::array<std::optional<CollectiveKind>, 2>;
constexpr Passes sum_passes{CollectiveKind::all_reduce, std::nullopt},
    split_passes{std::nullopt, CollectiveKind::all_reduce},
    gather_passes{CollectiveKind::all_gather, CollectiveKind::reduce_scatter},
    scatter_passes{CollectiveKind::reduce_scatter, CollectiveKind::all_gather};

/// Adds a layer of `ranks`; its output has so many in the `axis` of tokens.
ValueId exchanged(Model& model, std::string_view name, ValueId x, const Passes& passes,
                  std::int64_t ranks, std::int64_t beside, std::int64_t tokens,
                  std::size_t axis = 1) {
  const bool sum = passes == sum_passes || passes == split_passes;
  Layer l = model.layer(sum ? LayerKind::all_reduce : LayerKind::exchange, name, {{x}});
  l.collective = passes;
  l.ranks = ranks;
  l.beside = beside;
  Shape shape = model.value(x).shape;
  shape[axis] = tokens;
  return finish(model, std::move(l), std::move(shape));
}

}  // namespace

ValueId sum_of_ranks(Model& model, std::string_view name, ValueId x, const Ranks& ranks) {
  if (ranks.tensor == 1) return x;
  const std::int64_t tokens = model.value(x).shape[1];
  return exchanged(model, name, x, ranks.sequence ? scatter_passes : sum_passes, ranks.tensor, 1,
                   ranks.sequence ? tokens / ranks.tensor : tokens);
}

ValueId split_to_ranks(Model& model, std::string_view name, ValueId x, const Ranks& ranks) {
  if (ranks.tensor == 1) return x;
  const std::int64_t tokens = model.value(x).shape[1];
  return exchanged(model, name, x, ranks.sequence ? gather_passes : split_passes, ranks.tensor, 1,
                   ranks.sequence ? tokens * ranks.tensor : tokens);
}

ValueId handed_on(Model& model, std::string_view name, ValueId x) {
  return exchanged(model, name, x, {}, 1, 1, model.value(x).shape[1]);
}

ValueId gather_context(Model& model, std::string_view name, ValueId x, const Ranks& ranks) {
  if (ranks.context == 1) return x;
  return exchanged(model, name, x, gather_passes, ranks.context, ranks.tensor,
                   model.value(x).shape[1] * ranks.context);
}

ValueId layer_norm(Model& model, std::string_view name, ValueId x, std::int64_t heads) {
  return normalisation_layer(model, LayerKind::layer_norm, name, x, 2, true, heads);
}

ValueId rms_norm(Model& model, std::string_view name, ValueId x, std::int64_t heads, bool cast) {
  return normalisation_layer(model, LayerKind::rms_norm, name, x, 1, false, heads, cast);
}

ValueId joined_with_token(Model& model, ValueId before, ValueId embedded, std::int64_t features) {
  const auto module = model.module("further", "FurtherToken");
  const std::array<ValueId, 2> both{rms_norm(model, "norm_token", embedded),
                                    rms_norm(model, "norm_before", before)};
  const ValueId joined = concat_features(model, "join", both);
  const Shape weights{2 * features, features};
  return dense_by(
      model, "project", joined,
      model.variable("further/project/weights", weights, Initializer::truncated_normal));
}

ValueId gelu(Model& model, std::string_view name, ValueId x, bool biased) {
  Layer l = model.layer(LayerKind::gelu, name, {{x}});
  if (biased) l.forward_besides.push_back({.traffic = 2 * model.value(x).size()});
  return per_element(model, std::move(l), 10, false);
}

ValueId squared_relu(Model& model, std::string_view name, ValueId x) {
  return per_element(model, model.layer(LayerKind::squared_relu, name, {{x}}), 2, false);
}

ValueId weighted_activation(Model& model, LayerKind kind, std::string_view name, ValueId x) {
  Layer l = model.layer(kind, name, {{x}});
  l.kept = model.value(x).size();
  return per_element(model, std::move(l), kind == LayerKind::squared_relu ? 3 : 11, false);
}

ValueId tanh(Model& model, std::string_view name, ValueId x) {
  return per_element(model, model.layer(LayerKind::tanh, name, {{x}}), 1, true);
}

/// Apart, as often as x is moved. Forward: one half negated 1, joined 2, two products 2 + 2, their
/// sum 3, joined with no features 2. Backward: two products 2 + 2, negated 1, joined 2, the sum of
/// both 3, back into the whole head twice 3 + 1, their sum 3. Source: Megatron-LM,
/// core/models/common/embeddings/rope_utils.py (_apply_rotary_pos_emb_bshd).
ValueId rotate(Model& model, std::string_view name, ValueId x, bool apart) {
  Layer l = model.layer(LayerKind::rotate, name, {{x}});
  const Value in = model.value(x);
  // Eager, in half words: cast 3, times a complex number of 32 bits each 4, cast 3.
  l.forward = {.flops = 3 * elements(in.shape),
               .traffic = (apart           ? 12
                           : model.eager() ? 10
                                           : 2) *
                          in.size()};
  l.input_gradient = l.forward;
  if (apart) l.input_gradient.traffic = 17 * in.size();
  return finish(model, std::move(l), in.shape);
}

/// Clamped: gate and x are limited (each 2), and joined (4). Backward: each limit 3; what was
/// joined is split, and joined again 4. The backward pass reads what was limited, too. Source:
/// Megatron-LM, core/fusions/fused_bias_geglu.py (weighted_bias_quick_geglu_impl).
ValueId gated_silu(Model& model, std::string_view name, ValueId gate, ValueId x,
                   GateKernels kernels) {
  Layer l = model.layer(LayerKind::gated_silu, name, {{gate, x}});
  const Value in = model.value(x);
  const std::int64_t n = elements(in.shape);
  const bool apart = model.eager() || kernels == GateKernels::apart;
  l.forward = {.flops = 6 * n, .traffic = (apart ? 5 : 3) * in.size()};
  l.input_gradient = {.flops = 12 * n, .traffic = (apart ? 9 : 5) * in.size()};
  l.saved = {gate, x};
  if (kernels == GateKernels::clamped) {
    l.forward_besides.push_back({.traffic = (2 + 2 + 4) * in.size()});
    l.backward_besides.push_back({.traffic = (3 + 3 + 4) * in.size()});
    l.kept = 2 * in.size();
  }
  return finish(model, std::move(l), in.shape);
}

ValueId route(Model& model, std::string_view name, ValueId logits, std::int64_t top_k) {
  Layer l = model.layer(LayerKind::route, name, {{logits}});
  const Value in = model.value(logits);
  Shape shape = in.shape;
  shape.back() = top_k;
  const std::int64_t n = elements(in.shape);
  l.forward = {.flops = (5 + top_k) * n, .traffic = 2 * in.size()};
  l.input_gradient = {.flops = 5 * n, .traffic = 3 * in.size()};
  l.kept = in.size() + bytes_of(elements(shape));  // the probabilities and the chosen experts
  return finish(model, std::move(l), std::move(shape));
}

std::vector<ValueId> dispatch(Model& model, std::string_view name, ValueId x, ValueId routes,
                              std::int64_t experts, std::int64_t capacity) {
  Layer l = model.layer(LayerKind::dispatch, name, {{x, routes}});
  const Value in = model.value(x);
  const std::int64_t features = in.shape.back();
  for (std::int64_t e = 0; e < experts; ++e) model.output(l, {capacity, features});
  const std::int64_t moved_words = experts * capacity * features;
  l.forward.traffic = bytes_of(2 * moved_words);
  l.input_gradient = {.flops = moved_words, .traffic = bytes_of(2 * moved_words) + in.size()};
  l.saved = {routes};
  std::vector<ValueId> tokens = l.outputs;
  model.add(std::move(l));
  return tokens;
}

ValueId to_experts(Model& model, std::string_view name, ValueId x, std::int64_t ranks,
                   std::int64_t beside, double sent) {
  if (ranks == 1) return x;
  Layer l = model.layer(LayerKind::exchange, name, {{x}});
  l.collective = {CollectiveKind::all_to_all, CollectiveKind::all_to_all};
  l.ranks = ranks;
  l.beside = beside;
  l.sent = sent;
  return finish(model, std::move(l), model.value(x).shape);
}

ValueId gather_to_expert(Model& model, std::string_view name, ValueId x, std::int64_t ranks) {
  if (ranks == 1) return x;
  return exchanged(model, name, x, gather_passes, ranks, 1, model.value(x).shape[0] * ranks, 0);
}

ValueId sum_of_expert(Model& model, std::string_view name, ValueId x, std::int64_t ranks) {
  if (ranks == 1) return x;
  return exchanged(model, name, x, scatter_passes, ranks, 1, model.value(x).shape[0] / ranks, 0);
}

std::vector<ValueId> sort_to_experts(Model& model, std::string_view name, ValueId x,
                                     std::int64_t experts) {
  Layer l = model.layer(LayerKind::dispatch, name, {{x}});
  const Value in = model.value(x);
  for (std::int64_t e = 0; e < experts; ++e) model.output(l, {in.shape[0] / experts, in.shape[1]});
  l.forward.traffic = 2 * in.size();
  l.input_gradient = l.forward;
  std::vector<ValueId> sorted = l.outputs;
  model.add(std::move(l));
  return sorted;
}

ValueId join_experts(Model& model, std::string_view name, std::span<const ValueId> parts) {
  const Shape part = model.value(parts.front()).shape;
  return moved(model, model.layer(LayerKind::combine, name, parts),
               {part[0] * std::ssize(parts), part[1]});
}

ValueId combine(Model& model, std::string_view name, ValueId x, ValueId routes,
                std::span<const ValueId> written, bool weighted) {
  Layer l = model.layer(LayerKind::combine, name, {{routes}});
  l.inputs.insert(l.inputs.end(), written.begin(), written.end());
  const Value out = model.value(x);
  Bytes read;
  for (const ValueId v : written) read += model.value(v).size();
  const std::int64_t words = read.count / word.count;
  l.multiply_adds = words;
  l.forward = {.flops = 2 * words, .traffic = 2 * read + out.size()};
  l.input_gradient = {.flops = 4 * words, .traffic = 3 * read + out.size()};
  l.saved = weighted ? std::vector<ValueId>{routes} : l.inputs;
  return finish(model, std::move(l), out.shape);
}

}  // namespace baechi::generate
