#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/names.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/kind_words.h"
#include "sim/transform/training/gradients.h"
#include "sim/transform/training/segments.h"

namespace baechi {
namespace {

Bytes half(Bytes size) {
  return {(size.count + 1) / 2};
}

/// How much shorter a measured time becomes.
struct Speedup {
  double compute = 3.0, memory = 2.0;
};

/// Mixed-precision training. Activations and their gradients take half of their bytes. The forward
/// and backward ops compute in the new format: their work gets the precision and half of the
/// traffic, measured times are divided by a factor. Ops of the kinds `except` stay as they are, and
/// so do their weights, gradients and optimizer state, and the tensors that they write; so do
/// update ops. A kind that multiplies matrices, too, such as Conv2dBatchNormReLU, is excepted by a
/// word for that, or by a pattern, alone.
///   fp16, bf16: weights are a half copy, which the op holds and each step casts anew, and a 32-bit
///     copy, the master weights, which the update op changes and holds (the op itself, if nothing
///     updates it, or if forward ops hold the optimizer's state, too); gradients of weights take
///     half. Where forward ops hold all, the weights are as large as their gradients, if these are
///     tensors. Weights that nothing trains are a half copy alone; where ops have adapters, the
///     master weights are as large as their gradients. Without master weights there is the half
///     copy alone, and optimizer state takes half.
///   amp: the same with fp16, but gradients of weights stay in 32 bits (PyTorch's autocast), as
///     they do with `gradients: whole`.
///   fp8, mxfp8, nvfp4: bf16, in which products of layers compute in 8 or 4 bits: ops whose names
///     have a part with a number (layer_of). Attention, whose products are as many as the batch
///     asks for (`count` 0), embeddings and the head stay in 16 bits, and so do all bytes: an 8-bit
///     copy of the weights by rows and another by columns take as many. Products find their numbers
///     converted: a gradient is read and written by rows and by columns (4 bytes a number); of the
///     inputs half are written so by the op before, a norm, the others cost as much; what the
///     gradients of weights multiply has been converted already. With `attention: fp8` the products
///     of fused attention in layers compute in 8 bits, too (Transformer Engine, fp8_dpa); what it
///     reads and writes stays. Products of the kinds `whole` stay in 16 bits. With `conversions:
///     dynamic`, as torchao has them, a kernel finds the largest number before another converts,
///     weights are converted for each product, and what a product reads by columns is copied: 5
///     bytes a number, 7 with a copy. One of q, k and v converts their input, and of gate and
///     up: 3.5 and 5 bytes in the mean of a Llama's numbers.
///   tf32: all bytes stay; only arithmetic is faster.
/// Tensors of fixed size stay: masks, indices, 32-bit statistics.
/// Source: Micikevicius et al., "Mixed precision training", ICLR 2018; the factors 3 and 2: Zhu et
/// al., Daydream, ATC 2020; 8 bits: Micikevicius et al., "FP8 formats for deep learning", 2022;
/// their conversions: NVIDIA Transformer Engine's cast_transpose and LayerNormLinear.
class MixedPrecision final : public Transform {
 public:
  explicit MixedPrecision(Options& o)
      : to_(o.get("to", {"amp", "fp16", "bf16", "tf32", "fp8", "mxfp8", "nvfp4"},
                  "the number format of most ops; the last three are of products in layers")),
        except_(KindWords::read(o, "except", {"norm", "softmax", "loss"},
                                "kinds of ops that stay in 32 bits")),
        master_weights_(o.get("master_weights", true,
                              "the update changes 32-bit weights, and each step casts them")),
        whole_gradients_(
            o.get("gradients", std::vector<std::string>{"by_format", "whole"},
                  "of weights: in 32 bits with amp alone, or always, as Megatron-LM's with bf16") ==
            "whole") {
    remainders_ = o.get("remainders", false,
                        "of the 32-bit weights only the 16 bits that their bf16 copy lacks are "
                        "kept, as NVIDIA Apex's store_param_remainders");
    if (remainders_ && !master_weights_) o.mistake("remainders", "needs master_weights");
    if (remainders_ && (to_ == "fp16" || to_ == "amp"))
      o.mistake("remainders", "fp16 is no half of a 32-bit number");
    whole_ = KindWords::read(o, "whole", {},
                             "kinds of ops whose products stay in 16 bits with fp8, mxfp8, nvfp4");
    short_attention_ = o.get("attention", std::vector<std::string>{"whole", "fp8"},
                             "with fp8, mxfp8 and nvfp4: the format of fused attention's products "
                             "in layers; whole: 16 bits") == "fp8";
    dynamic_ =
        o.get("conversions", std::vector<std::string>{"prepared", "dynamic"},
              "of fp8, mxfp8, nvfp4: beside other kernels, as Transformer Engine's, or by "
              "kernels of their own that know the largest number, as torchao's") == "dynamic";
    if (to_ == "amp") whole_gradients_ = true;
    speedup_.compute = o.get("compute_factor", speedup_.compute,
                             "measured times of ops bound by arithmetic are divided by this", 1e-3);
    speedup_.memory = o.get("memory_factor", speedup_.memory,
                            "the same of other ops; with tf32 these stay as they are", 1e-3);
    read_kinds(o);
    if (to_ == "tf32") speedup_.memory = 1.0;
    if (!halves()) master_weights_ = true;
    if (to_ == "amp" && !master_weights_)
      o.mistake("master_weights", "amp keeps 32-bit weights; without them it is fp16 or bf16");
    const bool eight = to_ == "fp8" || to_ == "mxfp8", four = to_ == "nvfp4";
    precision_ = eight || four  ? Precision::bf16
                 : to_ == "amp" ? Precision::fp16
                                : *parse<Precision>(to_);
    in_layers_ = eight ? Precision::fp8 : four ? Precision::fp4 : precision_;
  }

  Transformed apply(const OpGraph& graph) const override {
    if (halves()) refuse_if_halved(graph);
    GraphCopy copy(graph);
    const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph),
                            whole = whole_.of_kinds(graph);
    IdVector<TensorId, TensorId> tensors(graph.num_tensors());
    const IdVector<OpId, std::vector<OpId>> updates = updates_of_weights(graph);
    const IdVector<OpId, bool> stays = what_stays(graph, updates);
    const IdVector<OpId, Bytes> weights = weights_of(graph);
    const IdVector<OpId, Bytes> persistent = persistent_bytes(graph, updates, weights, stays);
    for (const OpId v : graph.ops()) {
      const bool same = stays[v];
      OpSpec spec = copy.spec(v);
      spec.persistent = persistent[v];
      if (const Bytes sums = whole_gradients_ ? gradient_workspace(graph, v) : Bytes{};
          !same && halves())
        spec.temporary = sums + half(spec.temporary - sums);
      const bool by_compute = computes[graph.op(v).kind];
      const OpId made = copy.add(v, spec, [&](Duration time, std::size_t kind) {
        return same ? time : shorter(time, by_compute, graph, kind);
      });
      const OpId forward = graph.op(v).forward == no_op ? v : graph.op(v).forward;
      const bool in_layer = !layer_of(graph.name(v)).empty() && !whole[graph.op(forward).kind];
      copy.add_kernels(v, made, [&](OpWork work) { return same ? work : changed(work, in_layer); });
      if (in_layer && !same && in_layers_ != precision_)
        copy.builder().add_kernel(made, {.traffic = converted(graph, v), .precision = precision_});
      for (const TensorId t : graph.outputs(v)) {
        const Tensor& tensor = graph.tensor(t);
        if (tensor.control) continue;
        const bool stays_whole = !halves() || tensor.fixed_size || in_whole(graph, t, stays) ||
                                 (whole_gradients_ && is_for_updates(graph, t));
        tensors[t] = copy.add_tensor(t, made, stays_whole ? tensor.size : half(tensor.size));
      }
    }
    copy.add_edges(tensors);
    copy.change_collectives(
        [&](const Collective& c) { return stays[c.first] || !halves() ? c.bytes : half(c.bytes); });
    const IdVector<OpId, bool> frozen = frozen_weights(graph, updates);
    for (const OpId v : graph.ops())
      if (casts(graph, v) && !stays[v] && !frozen[v])
        add_cast(copy, graph, v, weights[v], updates[v]);
    return std::move(copy).built();
  }

 private:
  bool halves() const { return to_ != "tf32"; }

  static constexpr std::string_view cast_kind = "Cast", cast_suffix = "/half";

  /// Throws InputError if the graph has a cast of this transform: bytes would be halved twice.
  static void refuse_if_halved(const OpGraph& graph) {
    for (const OpId v : graph.ops())
      if (graph.kind(v) == cast_kind && graph.name(v).ends_with(cast_suffix))
        throw InputError(fmt::format(
            "precision: the step is in half precision already: '{}' casts weights", graph.name(v)));
  }

  void read_kinds(Options& o) {
    const Options::Value* given =
        o.raw("kinds",
              "{KIND: {compute_factor: F, memory_factor: F}}: other factors on a kind of device");
    if (given == nullptr) return;
    for (const auto& [kind, factors] : given->children) {
      std::map<std::string, Options::Value> values(factors.children.begin(),
                                                   factors.children.end());
      Options of_kind("precision.kinds." + kind, std::move(values));
      Speedup& speedup = kinds_[kind] = speedup_;
      speedup.compute = of_kind.get("compute_factor", speedup.compute, "", 1e-3);
      speedup.memory = of_kind.get("memory_factor", speedup.memory, "", 1e-3);
      of_kind.finish();
    }
  }

  Duration shorter(Duration time, bool by_compute, const OpGraph& graph, std::size_t kind) const {
    Speedup speedup = speedup_;
    if (kind < graph.device_kinds().size())
      if (const auto it = kinds_.find(graph.device_kinds()[kind]); it != kinds_.end())
        speedup = it->second;
    const double factor = by_compute ? speedup.compute : speedup.memory;
    return Duration{std::llround(static_cast<double>(time.count()) / factor)};
  }

  static bool is_of_weights(const OpWork& work) {
    return work.matrix.kind == MatrixKind::product && work.matrix.count > 0;
  }

  /// Kernels that a recording already has in half precision stay.
  OpWork changed(OpWork work, bool in_layer) const {
    if (work.precision == Precision::fp16 || work.precision == Precision::bf16) return work;
    if (halves()) {
      work.traffic = half(work.traffic);
      work.weights = half(work.weights);
    }
    const bool product = in_layer && is_of_weights(work);
    work.precision = product ? in_layers_ : precision_;
    if (product && in_layers_ != precision_) work.matrix.kind = MatrixKind::prepared_product;
    const bool attention = work.matrix.kind == MatrixKind::attention ||
                           work.matrix.kind == MatrixKind::causal_attention;
    if (short_attention_ && in_layer && attention && in_layers_ != precision_)
      work.precision = Precision::fp8;
    return work;
  }

  /// Bytes moved to bring into the format of its products what `v` reads.
  Bytes converted(const OpGraph& graph, OpId v) const {
    const bool forward = graph.op(v).phase == Phase::forward;
    double moved = 0.0;
    for (const OpWork& work : graph.kernels(v)) {
      if (!is_of_weights(work)) continue;
      const bool of_weights = work.matrix.inner == 0;
      const MatrixShape shape = work.matrix.filled(work.flops);
      const auto read = static_cast<double>(shape.count * shape.rows * shape.inner);
      const auto weights = static_cast<double>(shape.count * shape.inner * shape.columns);
      if (!dynamic_)
        moved += of_weights ? 0.0 : (forward ? 2.0 : 4.0) * read;
      else if (of_weights)
        moved += 5.0 * read;
      else
        moved += forward ? 3.5 * read + 5.0 * weights : 7.0 * (read + weights);
    }
    return Bytes{static_cast<std::int64_t>(moved)};
  }

  /// Whether `t` is in 32 bits as its producer stays; a gradient: as the op stays whose output it
  /// is the gradient of, since autograd casts gradients to the format of their values.
  static bool in_whole(const OpGraph& graph, TensorId t, const IdVector<OpId, bool>& stays) {
    const OpId made = graph.tensor(t).producer;
    if (!stays[made] || graph.op(made).phase != Phase::backward) return stays[made];
    bool of_value = false, whole = false;
    for (const EdgeId e : graph.readers(t)) {
      const OpId reader = graph.edge(e).dst;
      if (graph.op(reader).phase != Phase::backward || graph.op(reader).forward == no_op) continue;
      of_value = true;
      whole |= stays[reader];
    }
    return whole || !of_value;
  }

  static bool is_for_updates(const OpGraph& graph, TensorId t) {
    for (const EdgeId e : graph.readers(t))
      if (graph.op(graph.edge(e).dst).phase == Phase::update) return true;
    return false;
  }

  /// Whether the half copy of the weights of `v` is made by an op of its own: where work is known.
  bool casts(const OpGraph& graph, OpId v) const {
    return halves() && master_weights_ && graph.has_work() && graph.op(v).phase == Phase::forward &&
           graph.op(v).persistent > Bytes{};
  }

  /// Ops of a training whose weights nothing updates, and whose backward ops hold no gradients.
  /// None where the graph does not say which ops are backward ops of which.
  static IdVector<OpId, bool> frozen_weights(const OpGraph& graph,
                                             const IdVector<OpId, std::vector<OpId>>& updates) {
    bool trains = false, linked = false;
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      trains |= op.phase == Phase::update;
      linked |= op.phase == Phase::backward && op.forward != no_op;
    }
    const IdVector<OpId, Bytes> learned = learned_bytes(graph);
    IdVector<OpId, bool> frozen;
    for (const OpId v : graph.ops())
      frozen.push_back(trains && linked && updates[v].empty() && learned[v] == Bytes{});
    return frozen;
  }

  /// Bytes of gradients that the backward ops of each op hold.
  static IdVector<OpId, Bytes> learned_bytes(const OpGraph& graph) {
    IdVector<OpId, Bytes> learned(graph.num_ops());
    for (const OpId v : graph.ops())
      if (const Op& op = graph.op(v); op.phase == Phase::backward && op.forward != no_op)
        learned[op.forward] += op.persistent;
    return learned;
  }

  /// The ops that stay in 32 bits: of the kinds `except`, the backward ops of these, and the ops
  /// that update their weights alone; with master weights all updates.
  IdVector<OpId, bool> what_stays(const OpGraph& graph,
                                  const IdVector<OpId, std::vector<OpId>>& updates) const {
    const std::vector<bool> computes = compute_bound_kinds().of_kinds(graph);
    const KindWords of_products = except_.patterns_and(compute_bound_kinds());
    std::vector<bool> excepted = except_.of_kinds(graph);
    for (std::size_t kind = 0; kind < excepted.size(); ++kind)
      if (computes[kind]) excepted[kind] = of_products.describe(graph.kinds()[kind]);
    IdVector<OpId, bool> stays;
    std::set<OpId> of_others;
    for (const OpId v : graph.ops()) {
      const Op& op = graph.op(v);
      stays.push_back(excepted[op.kind] ||
                      (op.forward != no_op && excepted[graph.op(op.forward).kind]) ||
                      (op.phase == Phase::update && master_weights_));
      if (!stays[v]) of_others.insert(updates[v].begin(), updates[v].end());
    }
    for (const OpId v : graph.ops())
      for (const OpId u : updates[v])
        if (stays[v] && !of_others.contains(u)) stays[u] = true;
    return stays;
  }

  /// The persistent bytes of each op. Forward ops that hold weights and optimizer state in one have
  /// as many as the gradients that their backward ops hand to updates, if there are such tensors.
  static IdVector<OpId, Bytes> weights_of(const OpGraph& graph) {
    IdVector<OpId, Bytes> weights, gradients(graph.num_ops());
    for (const OpId v : graph.ops()) weights.push_back(graph.op(v).persistent);
    if (!persistent_of_one_kind(graph)) return weights;
    for (const Gradient& g : gradients_of(graph))
      if (const OpId v = graph.op(g.producer).forward; g.tensor && v != no_op)
        gradients[v] += g.bytes;
    for (const OpId v : graph.ops())
      if (gradients[v] > Bytes{}) weights[v] = std::min(weights[v], gradients[v]);
    return weights;
  }

  /// [num_ops], changed for each op.
  IdVector<OpId, Bytes> persistent_bytes(const OpGraph& graph,
                                         const IdVector<OpId, std::vector<OpId>>& updates,
                                         const IdVector<OpId, Bytes>& weights,
                                         const IdVector<OpId, bool>& stays) const {
    IdVector<OpId, Bytes> bytes;
    for (const OpId v : graph.ops()) bytes.push_back(graph.op(v).persistent);
    if (!halves()) return bytes;
    const bool one_kind = persistent_of_one_kind(graph);
    const IdVector<OpId, bool> frozen = frozen_weights(graph, updates);
    const IdVector<OpId, Bytes> learned = learned_bytes(graph);
    const bool adapters = !one_kind && std::ranges::any_of(graph.ops(), [&](OpId v) {
      return frozen[v] && graph.op(v).phase == Phase::forward && graph.op(v).persistent > Bytes{};
    });
    for (const OpId v : graph.ops()) {
      const Bytes given = graph.op(v).persistent;
      const Phase phase = graph.op(v).phase;
      if (stays[v]) continue;
      if (!master_weights_ || (phase == Phase::backward && !whole_gradients_)) {
        bytes[v] = half(given);
      } else if (phase == Phase::forward) {
        bytes[v] = half(weights[v]);
        const OpId holds_master = one_kind || updates[v].empty() ? v : updates[v].front();
        const Bytes whole = adapters ? std::min(given, learned[v]) : given;
        bytes[holds_master] += remainders_ ? half(whole) : whole;
      }
    }
    return bytes;
  }

  /// The last of `updates` and of the update ops behind them, such as Adam behind clipping: those
  /// in the group of `v`, if there are any, because clipping leads on to the updates of other
  /// weights.
  static std::vector<OpId> last_updates(const OpGraph& graph, OpId v,
                                        const std::vector<OpId>& updates) {
    std::set<OpId> reached(updates.begin(), updates.end());
    std::vector<OpId> last, own;
    for (const OpId u : reached) {  // ids are topological: what is added is still to come
      bool read = false;
      for (const EdgeId e : graph.out_edges(u)) {
        if (graph.op(graph.edge(e).dst).phase != Phase::update) continue;
        reached.insert(graph.edge(e).dst);
        read = true;
      }
      if (read) continue;
      last.push_back(u);
      if (graph.op(v).group != no_group && graph.op(u).group == graph.op(v).group) own.push_back(u);
    }
    return own.empty() ? last : own;
  }

  /// An op that reads the 32-bit weights of `v` and writes the half copy, which `v` holds: once in
  /// a step, after the updates of the weights; where there are none, before `v`.
  static void add_cast(GraphCopy& copy, const OpGraph& graph, OpId v, Bytes weights,
                       const std::vector<OpId>& updates) {
    const OpId cast =
        copy.builder().add_op({.name = fmt::format("{}{}", graph.name(v), cast_suffix),
                               .kind = cast_kind,
                               .phase = updates.empty() ? Phase::forward : Phase::update});
    const Bytes moved = weights + half(weights);
    copy.builder().add_kernel(cast, {.traffic = moved, .weights = moved});
    for (const OpId w : last_updates(graph, v, updates))
      copy.builder().add_control(copy.copy_of(w), cast);
    if (updates.empty()) copy.builder().add_control(cast, copy.copy_of(v));
    copy.colocate(cast, v);
  }

  std::string to_;
  Precision precision_{}, in_layers_{};
  KindWords except_;
  KindWords whole_;
  bool master_weights_, whole_gradients_;
  bool remainders_ = false, short_attention_ = false, dynamic_ = false;
  Speedup speedup_;
  std::map<std::string, Speedup, std::less<>> kinds_;
};

}  // namespace

std::unique_ptr<Transform> make_precision(Options& o) {
  return std::make_unique<MixedPrecision>(o);
}

}  // namespace baechi
