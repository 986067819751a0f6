#include <cmath>

#include "sim/transform/training/gradients.h"
#include "traces/generate/expand.h"

namespace baechi::generate {
namespace {

/// What becomes one op at level module: the layers [first, last) of a module, or a single layer.
struct Unit {
  std::string name, kind;
  std::size_t first = 0, last = 0;
  OpId forward = no_op, backward = no_op;
  OpId weights = no_op;               ///< makes the gradients of variables: `backward` or another
  std::optional<TensorId> again{};    ///< what an exchange has gathered once more
  std::vector<TensorId> kept{};       ///< what its backward op alone reads
  std::vector<TensorId> inputs{};     ///< copies that the gradients of its variables alone read
  std::vector<TensorId> gradients{};  ///< of its outputs, one from each reader
};

/// A value as units see it.
struct Use {
  std::size_t writer = no_unit;        ///< no_unit: fed
  std::vector<std::size_t> readers{};  ///< other units, ascending
  bool differentiable = false;         ///< trained variables stand before it
  bool saved = false;                  ///< by a backward pass, itself and not in a copy
  std::optional<TensorId> tensor{};    ///< if it leaves its unit
  static constexpr std::size_t no_unit = ~std::size_t{0};
};

class ModuleGraph {
 public:
  ModuleGraph(const Model& model, const Expansion& options)
      : model_(model),
        options_(options),
        uses_(model.values().size()),
        owner_(model.variables().size(), Use::no_unit) {
    for (const LayerId l : model.layers())
      if (model.layer(l).kind == LayerKind::route) routing_.insert(model.layer(l).module);
  }

  OpGraph build() && {
    find_units();
    find_uses();
    for (Unit& u : units_) add_forward(u);
    if (options_.training) {
      find_differentiated();
      for (std::size_t u = units_.size(); u-- > 0;) {
        if (differentiated_[u]) add_backward(u);
      }
      if (options_.optimizer != Optimizer::none) add_updates();
    }
    return std::move(graph_).build();
  }

 private:
  auto layers(const Unit& u) const { return id_range<LayerId>(u.first, u.last); }

  /// Whether the layer has an op. Only TensorFlow has ops for unread predictions, initial zeros and
  /// step counts; only training has a loss.
  bool skipped(const Layer& l) const {
    return l.kind == LayerKind::predict || l.kind == LayerKind::zeros ||
           l.kind == LayerKind::step_count || (l.kind == LayerKind::loss && !options_.training);
  }

  /// Whether the layer is computed by the kernel of the layer before it, in both passes.
  bool is_fused(LayerId l) const {
    const Layer& layer = model_.layer(l);
    const auto before = model_.value(layer.inputs[0]).producer;
    return options_.kernels.fuse_relu && layer.kind == LayerKind::relu && before &&
           index(*before) + 1 == index(l);
  }
  /// Whether it is, and in the same unit.
  bool has_no_kernel(const Unit& u, LayerId l) const { return index(l) > u.first && is_fused(l); }

  void find_units() {
    constexpr ModuleId none{~std::uint32_t{0}};
    ModuleId open = none;
    for (const LayerId l : model_.layers()) {
      const Layer& layer = model_.layer(l);
      if (skipped(layer)) {
        open = none;
      } else if ((options_.kernels.fuse_modules && open == layer.module) ||
                 (!units_.empty() && units_.back().last == index(l) && is_fused(l))) {
        units_.back().last = index(l) + 1;
      } else {
        const Module& module = model_.module(layer.module);
        const bool whole = options_.kernels.fuse_modules;
        units_.push_back({.name = whole ? module.name : layer.name,
                          .kind = whole ? module.kind : std::string(to_text(layer.kind)),
                          .first = index(l),
                          .last = index(l) + 1});
        open = layer.module;
      }
    }
  }

  void find_uses() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const LayerId l : layers(units_[u])) {
        const Layer& layer = model_.layer(l);
        const bool differentiable = is_differentiable(layer);
        for (const ValueId v : layer.inputs) {
          Use& use = uses_[v];
          if (use.writer != u && (use.readers.empty() || use.readers.back() != u))
            use.readers.push_back(u);
        }
        for (const ValueId v : layer.outputs) {
          uses_[v].writer = u;
          uses_[v].differentiable = differentiable;
        }
        if (!options_.training || !differentiable) continue;
        for (const ValueId v : saved(layer))
          if (!keeps_copy(layer, v)) uses_[v].saved = true;
      }
    }
  }

  Bytes size_of(ValueId v) const {
    const Bytes size = model_.value(v).size();
    return options_.inference.on() ? options_.inference.activations(size) : size;
  }

  bool trains(const Layer& layer) const {
    return std::ranges::any_of(layer.variables,
                               [&](VariableId w) { return model_.variable(w).trainable; });
  }
  bool differentiates_inputs(const Layer& layer) const {
    return std::ranges::any_of(layer.inputs, [&](ValueId v) { return uses_[v].differentiable; });
  }
  bool is_differentiable(const Layer& layer) const {
    return trains(layer) || differentiates_inputs(layer);
  }

  /// What its backward pass reads. A product reads its input for the gradient of its weights alone,
  /// and nothing where these are frozen.
  std::span<const ValueId> saved(const Layer& layer) const {
    if (layer.kind == LayerKind::dense && !trains(layer)) return {};
    return layer.saved;
  }
  /// Whether the layer keeps `v` as it multiplies it. Routers multiply whole numbers, and what is
  /// made again is not kept. Source: Megatron-LM, core/extensions/transformer_engine.py
  /// (set_save_original_input).
  bool keeps_copy(const Layer& layer, ValueId v) const {
    return options_.kernels.saved_inputs != KeptInputs::whole && layer.kind == LayerKind::dense &&
           !routing_.contains(layer.module) && !layer_of(layer.name).empty() && !made_again(v);
  }
  /// Bytes of such a copy of `whole`, as the precision leaves them once it has halved all.
  Bytes copied(Bytes whole) const {
    const std::int64_t of_32 = options_.kernels.saved_inputs == KeptInputs::fp8 ? 16 : 9;
    return {whole.count * of_32 / 32};
  }

  /// Whether `v` leaves its unit: another unit reads it, or none does, and it is a result.
  bool leaves(ValueId v, std::size_t u) const {
    if (!uses_[v].readers.empty()) return true;
    for (const LayerId l : layers(units_[u])) {
      const auto& inputs = model_.layer(l).inputs;
      if (std::ranges::find(inputs, v) != inputs.end()) return false;
    }
    return true;
  }
  bool inside(ValueId v, std::size_t u) const { return uses_[v].writer == u && !leaves(v, u); }
  bool made_again(ValueId v) const {
    const auto producer = model_.value(v).producer;
    return producer && model_.layer(*producer).forgets;
  }

  /// The value in whose memory `v`, inside unit `u`, ends: the last one that overwrites it.
  ValueId storage(ValueId v, std::size_t u) const {
    for (const LayerId l : layers(units_[u])) {
      const Layer& layer = model_.layer(l);
      if (layer.in_place && layer.inputs[0] == v && inside(v, u) && !uses_[v].saved)
        return storage(layer.outputs[0], u);
    }
    return v;
  }

  /// The most bytes that live only while the op of unit `u` runs: values inside, and workspace.
  Bytes forward_temporary(std::size_t u) const {
    Bytes most;
    for (const LayerId l : layers(units_[u])) {
      const Layer& layer = model_.layer(l);
      Bytes now = layer.workspace;
      for (const auto* values : {&layer.inputs, &layer.outputs}) {
        for (const ValueId v : *values) {
          if (inside(v, u) && !uses_[v].saved && storage(v, u) == v) now += size_of(v);
        }
      }
      most = std::max(most, now);
    }
    return most;
  }
  /// The same for its backward op: gradients of the values inside, and workspace; and all that it
  /// makes again.
  Bytes backward_temporary(std::size_t u) const {
    Bytes most, renewed;
    for (const LayerId l : layers(units_[u])) {
      const Layer& layer = model_.layer(l);
      if (!is_differentiable(layer)) continue;
      if (layer.forgets) renewed += layer.kept + layer.kept_fixed;
      for (const ValueId v : layer.outputs)
        if (uses_[v].saved && inside(v, u) && made_again(v)) renewed += model_.value(v).size();
      Bytes now = layer.workspace;
      for (const auto* values : {&layer.inputs, &layer.outputs}) {
        for (const ValueId v : *values)
          if (inside(v, u) && uses_[v].differentiable) now += model_.value(v).size();
      }
      most = std::max(most, now);
    }
    return most + renewed;
  }

  /// The variables that unit `u` is the first to use, trained or not.
  std::vector<VariableId> owned(const Unit& u) const {
    std::vector<VariableId> mine;
    for (const LayerId l : layers(u)) {
      for (const VariableId w : model_.layer(l).variables) {
        if (&units_[owner_[w]] == &u && std::ranges::find(mine, w) == mine.end()) mine.push_back(w);
      }
    }
    return mine;
  }
  std::int64_t parameters(const Unit& u) const {
    std::int64_t sum = 0;
    for (const VariableId w : owned(u)) {
      if (model_.variable(w).trainable) sum += elements(model_.variable(w).shape);
    }
    return sum;
  }

  /// Bytes that the unit keeps for its backward op, besides what other units write.
  struct Kept {
    Bytes values, masks;  ///< masks: of fixed size
    Bytes inputs;         ///< copies for the gradients of variables
  };
  Kept kept_by(const Unit& unit) {
    const auto u = static_cast<std::size_t>(&unit - units_.data());
    Kept kept;
    std::vector<ValueId> values, copies;  // that are kept
    const auto first = [](std::vector<ValueId>& all, ValueId v) {
      if (std::ranges::find(all, v) != all.end()) return false;
      all.push_back(v);
      return true;
    };
    for (const LayerId l : layers(unit)) {
      const Layer& layer = model_.layer(l);
      if (!is_differentiable(layer)) continue;
      if (!layer.forgets) {
        kept.values += layer.kept;
        kept.masks += layer.kept_fixed;
      }
      for (const ValueId v : saved(layer)) {
        const Bytes size = model_.value(v).size();
        if (keeps_copy(layer, v)) {
          if (gatherer(v) == nullptr && first(copies, v)) kept.inputs += copied(size);
        } else if ((uses_[v].writer == Use::no_unit || inside(v, u)) && !made_again(v) &&
                   first(values, v)) {
          kept.values += size;
        }
      }
    }
    return kept;
  }

  void add_forward(Unit& unit) {
    const auto u = static_cast<std::size_t>(&unit - units_.data());
    const Inference& inference = options_.inference;
    Bytes weights, cache;
    for (const LayerId l : layers(unit)) {
      cache += model_.layer(l).cache;
      for (const VariableId w : model_.layer(l).variables) {
        if (owner_[w] != Use::no_unit) continue;
        owner_[w] = u;
        const Variable& variable = model_.variable(w);
        weights += inference.on() ? inference.stored(variable) : variable.size();
      }
    }
    unit.forward = graph_.add_op({.name = unit.name,
                                  .kind = unit.kind,
                                  .persistent = weights + cache,
                                  .temporary = forward_temporary(u),
                                  .module = module_path(unit.name),
                                  .cache = cache});
    for (const LayerId l : layers(unit)) {
      const Layer& layer = model_.layer(l);
      if (!has_no_kernel(unit, l))
        graph_.add_kernel(unit.forward,
                          inference.on() ? inference.kernel(model_, layer) : layer.forward);
      for (const OpWork& work : model_.layer(l).forward_besides)
        graph_.add_kernel(unit.forward, work);
    }
    exchange_between_ranks(unit, unit.forward, true);
    colocate(unit, unit.forward);
    for (const LayerId l : layers(unit)) {
      for (const ValueId v : model_.layer(l).inputs) {
        const auto& tensor = uses_[v].tensor;
        if (tensor && uses_[v].writer != u) graph_.add_edge(*tensor, unit.forward);
      }
      for (const ValueId v : model_.layer(l).outputs) {
        if (leaves(v, u))
          uses_[v].tensor = graph_.add_tensor(unit.forward, size_of(v), is_overwritten(v));
      }
    }
    if (!options_.training) return;
    const Kept kept = kept_by(unit);
    if (kept.values > Bytes{}) unit.kept.push_back(graph_.add_tensor(unit.forward, kept.values));
    if (kept.inputs > Bytes{}) unit.inputs.push_back(graph_.add_tensor(unit.forward, kept.inputs));
    if (kept.masks > Bytes{}) {
      unit.kept.push_back(graph_.add_tensor(unit.forward, kept.masks));
      graph_.set_fixed_size(unit.kept.back());
    }
  }

  /// The layer between ranks that is all of the unit; or null.
  const Layer* exchange(const Unit& unit) const {
    const Layer& layer = model_.layer(static_cast<LayerId>(unit.first));
    return layer.ranks > 0 ? &layer : nullptr;
  }
  bool sums(const Unit& unit) const {
    return model_.layer(static_cast<LayerId>(unit.first)).kind == LayerKind::all_reduce;
  }
  /// Makes `op` of an exchange a member of its collective of the pass. Without one it hands its
  /// input on, in no time.
  void exchange_between_ranks(const Unit& unit, OpId op, bool forward) {
    const Layer* layer = exchange(unit);
    if (layer == nullptr || !layer->collective[forward ? 0 : 1]) return;
    const Bytes whole = std::max(size_of(layer->inputs[0]), size_of(layer->outputs[0]));
    graph_.add_collective({.kind = *layer->collective[forward ? 0 : 1],
                           .bytes = {std::llround(layer->sent * static_cast<double>(whole.count))},
                           .ranks = static_cast<std::uint32_t>(layer->ranks),
                           .sharing = static_cast<std::uint32_t>(layer->beside)},
                          {{op}});
  }
  /// The unit that has gathered `v` from all ranks, which do not keep it; or null.
  Unit* gatherer(ValueId v) {
    if (uses_[v].writer == Use::no_unit) return nullptr;
    Unit& unit = units_[uses_[v].writer];
    const Layer* layer = exchange(unit);
    return layer != nullptr && layer->collective[0] == CollectiveKind::all_gather ? &unit : nullptr;
  }
  /// What `v` was gathered from is gathered once more when the gradients of `reader` are there.
  TensorId gathered_again(ValueId v, const Unit& reader) {
    Unit& unit = *gatherer(v);
    if (unit.again) return *unit.again;
    const OpId op = graph_.add_op({.name = unit.name + "/gathered_again",
                                   .kind = unit.kind,
                                   .phase = Phase::backward,
                                   .module = module_path(unit.name)});
    graph_.set_forward(op, unit.forward);
    exchange_between_ranks(unit, op, true);
    colocate(unit, op);
    const ValueId part = exchange(unit)->inputs[0];
    const bool copy = !uses_[v].saved;
    const Bytes size = model_.value(v).size();
    graph_.add_edge(copy ? graph_.add_tensor(units_[uses_[part].writer].forward,
                                             copied(model_.value(part).size()))
                         : *uses_[part].tensor,
                    op);
    for (const TensorId gradient : reader.gradients) graph_.add_edge(gradient, op);
    unit.again = graph_.add_tensor(op, copy ? copied(size) : size);
    return *unit.again;
  }
  /// Whether an all_reduce, the only reader, writes its sum over `v`.
  bool is_overwritten(ValueId v) const {
    const auto& readers = uses_[v].readers;
    return readers.size() == 1 && !uses_[v].saved && sums(units_[readers[0]]);
  }

  /// Puts the ops of a unit in one group, and units that share a variable, too.
  void colocate(const Unit& unit, OpId op) {
    graph_.colocate(op, unit.name);
    for (const LayerId l : layers(unit)) {
      for (const VariableId w : model_.layer(l).variables) {
        const Unit& owner = units_[owner_[w]];
        if (&owner != &unit) graph_.colocate(op, owner.name);
      }
    }
  }

  /// The units that a gradient of the loss reaches.
  void find_differentiated() {
    differentiated_.assign(units_.size(), false);
    for (std::size_t u = units_.size(); u-- > 0;) {
      for (const LayerId l : layers(units_[u])) {
        const Layer& layer = model_.layer(l);
        if (!is_differentiable(layer)) continue;
        bool reached = layer.kind == LayerKind::loss;
        for (const ValueId v : layer.outputs) {
          for (const std::size_t reader : uses_[v].readers)
            reached = reached || differentiated_[reader];
        }
        if (reached) differentiated_[u] = true;
      }
    }
  }

  void add_backward_kernels(std::size_t u) {
    for (const LayerId l : layers(units_[u])) {
      const Layer& layer = model_.layer(l);
      const OpId op = units_[u].backward;
      if (layer.again) {
        graph_.add_kernel(op, layer.forward);
        for (const OpWork& work : layer.forward_besides) graph_.add_kernel(op, work);
      }
      if (differentiates_inputs(layer) && !has_no_kernel(units_[u], l))
        graph_.add_kernel(op, layer.input_gradient);
      if (layer.kind == LayerKind::add && options_.kernels.copy_sums)
        graph_.add_kernel(op, {.traffic = 3 * model_.value(layer.inputs[0]).size()});
      if (trains(layer)) graph_.add_kernel(units_[u].weights, layer.variable_gradient);
      for (const OpWork& work : layer.backward_besides) graph_.add_kernel(op, work);
      for (const ValueId v : layer.outputs) {  // gradients from several readers are summed
        std::int64_t arriving = 0;
        for (const std::size_t reader : uses_[v].readers) arriving += differentiated_[reader];
        if (arriving < 2) continue;
        const std::int64_t n = (arriving - 1) * elements(model_.value(v).shape);
        graph_.add_kernel(op, {.flops = n, .traffic = bytes_of(3 * n)});
      }
    }
  }

  /// Whether the gradients of its variables are made by an op of their own: only where other units
  /// wait for those of its inputs.
  bool is_split(const Unit& unit) const {
    const auto all = layers(unit);
    const auto u = static_cast<std::size_t>(&unit - units_.data());
    return options_.kernels.split_backward &&
           std::ranges::any_of(all, [&](LayerId l) { return trains(model_.layer(l)); }) &&
           std::ranges::any_of(all, [&](LayerId l) {
             return std::ranges::any_of(model_.layer(l).inputs, [&](ValueId v) {
               return uses_[v].differentiable && uses_[v].writer != u;
             });
           });
  }

  OpId add_backward_op(const Unit& unit, std::string_view ending, Bytes gradients,
                       Bytes temporary) {
    const OpId op = graph_.add_op({.name = unit.name + std::string(ending),
                                   .kind = unit.kind + "Backward",
                                   .persistent = gradients,
                                   .temporary = temporary,
                                   .phase = Phase::backward,
                                   .module = module_path(unit.name)});
    graph_.set_forward(op, unit.forward);
    colocate(unit, op);
    return op;
  }

  /// The op of the variables' gradients reads what the layers that train multiply: the gradients
  /// between them are kept until then.
  void split_gradients(Unit& unit) {
    unit.weights = add_backward_op(unit, "_weights_grad", bytes_of(parameters(unit)), Bytes{});
    const auto u = static_cast<std::size_t>(&unit - units_.data());
    Bytes between;
    for (const LayerId l : layers(unit))
      for (const ValueId v : model_.layer(l).outputs)
        if (trains(model_.layer(l)) && inside(v, u)) between += model_.value(v).size();
    if (between > Bytes{})
      graph_.add_edge(graph_.add_tensor(unit.backward, between), unit.weights);
    else
      graph_.add_control(unit.backward, unit.weights);
    for (const TensorId gradient : unit.gradients) graph_.add_edge(gradient, unit.weights);
  }

  /// A product's input is read for the gradient of its weights alone, a norm's for both.
  void read_saved(Unit& unit) {
    const bool split = unit.weights != unit.backward;
    for (const TensorId kept : unit.kept) {
      graph_.add_edge(kept, unit.backward);
      if (split) graph_.add_edge(kept, unit.weights);
    }
    for (const TensorId copy : unit.inputs) graph_.add_edge(copy, unit.weights);
    for (const LayerId l : layers(unit)) {
      const Layer& layer = model_.layer(l);
      if (!is_differentiable(layer)) continue;
      for (const ValueId v : saved(layer)) {
        if (!uses_[v].tensor || (keeps_copy(layer, v) && gatherer(v) == nullptr)) continue;
        const TensorId tensor = gatherer(v) != nullptr ? gathered_again(v, unit) : *uses_[v].tensor;
        if (layer.kind != LayerKind::dense || !split) graph_.add_edge(tensor, unit.backward);
        if (trains(layer) && split) graph_.add_edge(tensor, unit.weights);
      }
    }
  }

  void add_backward(std::size_t u) {
    Unit& unit = units_[u];
    const bool split = is_split(unit);
    unit.backward = unit.weights = add_backward_op(
        unit, "_grad", split ? Bytes{} : bytes_of(parameters(unit)), backward_temporary(u));
    exchange_between_ranks(unit, unit.backward, false);
    for (const TensorId gradient : unit.gradients) graph_.add_edge(gradient, unit.backward);
    if (split) split_gradients(unit);
    add_backward_kernels(u);
    read_saved(unit);
    std::vector<ValueId> differentiated;
    for (const LayerId l : layers(unit)) {
      const Layer& layer = model_.layer(l);
      if (!is_differentiable(layer)) continue;
      for (const ValueId v : layer.inputs) {
        const Use& use = uses_[v];
        if (use.writer == u || !use.differentiable ||
            std::ranges::find(differentiated, v) != differentiated.end())
          continue;
        differentiated.push_back(v);
        units_[use.writer].gradients.push_back(
            graph_.add_tensor(unit.backward, model_.value(v).size(), sums(units_[use.writer])));
      }
    }
  }

  /// Adds an update op per unit that owns trained variables. It reads all gradients of these.
  void add_updates() {
    std::vector<std::vector<OpId>> gradients(
        units_.size());  // [units], of the variables that a unit owns
    for (const Unit& unit : units_) {
      for (const LayerId l : layers(unit)) {
        for (const VariableId w : model_.layer(l).variables) {
          if (unit.weights != no_op) gradients[owner_[w]].push_back(unit.weights);
        }
      }
    }
    for (const Unit& unit : units_) {
      const auto u = static_cast<std::size_t>(&unit - units_.data());
      const std::int64_t n = parameters(unit);
      if (n == 0 || gradients[u].empty()) continue;
      const OpId op = graph_.add_op({.name = unit.name + "_update",
                                     .kind = update_kind(options_.optimizer),
                                     .persistent = slots(options_.optimizer) * bytes_of(n),
                                     .phase = Phase::update,
                                     .module = module_path(unit.name)});
      for (const OpWork& work : update_kernels(options_.optimizer, n, update_kernels_of(options_)))
        graph_.add_kernel(op, work);
      colocate(unit, op);
      for (const OpId gradient : gradients[u]) graph_.add_control(gradient, op);
    }
  }

  const Model& model_;
  const Expansion& options_;
  OpGraphBuilder graph_;
  std::vector<Unit> units_;
  IdVector<ValueId, Use> uses_;
  IdVector<VariableId, std::size_t> owner_;  // the first unit that uses it
  std::vector<bool> differentiated_;         // [units]
  std::set<ModuleId> routing_;               // modules that choose experts
};

}  // namespace

OpGraph module_graph(const Model& model, const Expansion& expansion) {
  return ModuleGraph(model, expansion).build();
}

}  // namespace baechi::generate
